"""`apt-cache policy`: every repository that apt knows, and who its release file says it is from.

Evidence: real output of a Debian 12 host.
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import AptReleases
from fabric_tools.parsers.apt_policy import source_in
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "apt_releases"
_ORIGIN = re.compile(r"(?:     release |,)o=([^,]{1,200})")


def parse_apt_releases(text: str) -> AptReleases:
    """The part between "Package files:" and "Pinned packages:", both of which must be there."""
    found: dict[str, str] = {}
    at: str | None = None
    began = ended = False
    for number, line in numbered(read_lines(PROBE, text, max_chars=2 * MIB)):
        if line == "Package files:":
            began = True
        elif line == "Pinned packages:":
            ended = True
        elif ended:
            continue
        elif not began:
            raise ParseError(PROBE, number, f"not the answer of apt-cache policy: {line[:80]!r}")
        elif line.startswith("     release "):
            match = _ORIGIN.search(line)
            if at is not None and match:
                found[at] = match[1].strip()
        elif source := source_in(line):
            at = source
            found.setdefault(at, "")
        elif not line.startswith("     origin "):
            raise ParseError(PROBE, number, f"not a line of apt-cache policy: {line[:80]!r}")
    if not ended:
        raise ParseError(PROBE, 0, "cut: no line 'Pinned packages:'")
    return AptReleases(origins=found)
