"""What goes wrong in the lab: one line that says what, and what to try."""

from __future__ import annotations


class LabError(Exception):
    """``what`` happened and what to ``try_next``."""

    def __init__(self, what: str, try_next: str = "") -> None:
        super().__init__(f"{what}; {try_next}" if try_next else what)
