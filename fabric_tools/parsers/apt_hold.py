"""`apt-mark showhold`: one name a line, nothing where nothing is held.

Evidence: the tool's form with package names of a real node (schema-derived).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import AptHolds
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "apt_hold"

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{1,150}(?::[a-z0-9]{2,12})?", re.ASCII)


def parse_apt_hold(text: str) -> AptHolds:
    """Names of held packages."""
    lines: dict[str, int] = {}
    for number, line in numbered(read_lines(PROBE, text, max_lines=20_000)):
        name = line.strip()
        if not _NAME.fullmatch(name):
            raise ParseError(PROBE, number, f"not the name of a package: {name[:80]!r}")
        if name in lines:
            raise ParseError(PROBE, number, f"{name} stands there twice")
        lines[name] = number
    return AptHolds(lines=lines)
