"""Outputs of a report: console, HTML, JSON, JUnit XML, Markdown, and the topology matrix drawn.

Everything a node sent is shown through ``text.printable``: no control character, no markup.
"""
