"""The command line: parse arguments, call, print, exit. No decisions here.

Nothing heavy is imported at the top of these modules, so that ``--help`` costs little.
"""
