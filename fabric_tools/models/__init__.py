"""Data models: frozen, strict, no I/O. Import them from their modules.

``snapshot`` what a node said; ``facts`` what the text means; ``platform`` what it should be;
``inventory`` what the site declares; ``verdict`` what a check says; ``report`` what is shown;
``ledger`` what is remembered.
"""
