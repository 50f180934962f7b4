"""Outputs of a report: console, JSON, JUnit XML and Markdown, and the topology matrix drawn.

Everything a node sent is shown through ``text.printable``: no control character, no markup.
"""
