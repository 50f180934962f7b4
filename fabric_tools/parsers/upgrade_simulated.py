"""`apt-get -s dist-upgrade`: what an upgrade would move.

Evidence: real output of a Debian 12 host with 138 upgrades; lines of removals, downgrades and
packages kept back follow apt's own strings (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import Move, UpgradePlan
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "upgrade_simulated"
_NAME = r"([a-z0-9][a-z0-9+.-]{0,150}(?::[a-z0-9]{2,12})?)"
_INST = re.compile(rf"Inst {_NAME} (?:\[(\S{{1,150}})\] )?\((\S{{1,150}}) .{{0,400}}\)", re.ASCII)
_GONE = re.compile(rf"(?:Remv|Purg) {_NAME} \[(\S{{1,150}})\]", re.ASCII)
_TOTAL = re.compile(
    r"(\d{1,6}) upgraded, (\d{1,6}) newly installed, (?:(\d{1,6}) reinstalled, )?"
    r"(?:(\d{1,6}) downgraded, )?(\d{1,6}) to remove and (\d{1,6}) not upgraded\.$"
)


def parse_upgrade_simulated(text: str) -> UpgradePlan:
    """Inst and Remv lines; their numbers must be those of apt's own total, else it is cut."""
    moves: list[Move] = []
    total: tuple[int, re.Match[str]] | None = None
    lines = read_lines(PROBE, text, max_chars=8 * MIB, max_line=64 * 1024)
    for number, line in numbered(lines):
        if match := _TOTAL.match(line):
            if total is not None:
                raise ParseError(PROBE, number, "the total stands there twice")
            total = (number, match)
        elif line.startswith("Inst "):
            match = _INST.match(line)
            if match is None:
                raise ParseError(PROBE, number, f"not a line of apt-get -s: {line[:80]!r}")
            moves.append(Move(line=number, name=match[1], old=match[2], new=match[3]))
        elif line.startswith(("Remv ", "Purg ")):
            match = _GONE.match(line)
            if match is None:
                raise ParseError(PROBE, number, f"not a line of apt-get -s: {line[:80]!r}")
            moves.append(Move(line=number, name=match[1], old=match[2], new=None))
        elif line.startswith("E: "):
            raise ParseError(PROBE, number, f"apt-get said: {line[:160]}")
    if total is None:
        raise ParseError(PROBE, 0, "no line 'N upgraded, N newly installed, ...'")
    up, new, again, down, gone, kept = (int(word or 0) for word in total[1].groups())
    found = sum(move.new is not None for move in moves), sum(move.new is None for move in moves)
    if found != (up + new + again + down, gone):
        why = f"{found[0]} Inst and {found[1]} Remv lines, but '{total[1][0]}'"
        raise ParseError(PROBE, total[0], f"cut: {why}")
    return UpgradePlan(moves=tuple(moves), kept_back=kept, line=total[0])
