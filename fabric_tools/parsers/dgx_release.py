"""`find /etc -maxdepth 1 -name '*-release'`: is there a release file of DGX OS?

Evidence: the listing of a Debian host; the name of DGX OS's file by NVIDIA's documents.
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import DgxOs
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "dgx_release"
_PATH = re.compile(r"/etc/[\w.+-]{0,100}-release$", re.ASCII)


def parse_dgx_release(text: str) -> DgxOs:
    """os-release must be listed, else the listing is no answer."""
    lines = read_lines(PROBE, text, max_lines=1000)
    found: dict[str, int] = {}
    for number, line in numbered(lines):
        if not _PATH.match(line.strip()):
            raise ParseError(PROBE, number, f"not a release file: {line.strip()[:80]!r}")
        found[line.strip()] = number
    if lines[-1]:
        raise ParseError(PROBE, len(lines), "cut: the last line has no newline")
    if "/etc/os-release" not in found:
        raise ParseError(PROBE, 0, "/etc/os-release is not listed")
    at = found.get("/etc/dgx-release")
    return DgxOs(present=at is not None, line=at or found["/etc/os-release"])
