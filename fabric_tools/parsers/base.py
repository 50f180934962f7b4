"""What every parser shares: the error it may raise and the cleaning of terminal text."""

from __future__ import annotations

import re

# CSI and OSC sequences: nvidia-smi underlines headers with them, and people record terminals.
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")


class ParseError(Exception):
    """This text is not what the tool prints, or is cut. Never a default, never a guess.

    ``probe`` is the parser's subject, ``line`` counts from 1 (0: the text as a whole).
    """

    def __init__(self, probe: str, line: int, why: str) -> None:
        self.probe = probe
        self.line = line
        self.why = why
        super().__init__(f"{probe}: line {line}: {why}" if line else f"{probe}: {why}")


class NothingHere(ParseError):
    """The text is understood and holds nothing of this fact: as if it had not been recorded."""


def clean_lines(text: str) -> list[str]:
    """Lines without terminal sequences, carriage returns and trailing blanks; numbering is kept."""
    return [_ANSI.sub("", line).rstrip() for line in text.replace("\r\n", "\n").split("\n")]
