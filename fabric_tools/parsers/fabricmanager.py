"""`nv-fabricmanager --version`: the fabric manager that is installed.

Evidence: one real capture (610, with a second line "Build Info").
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import FabricManagerVersion
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines

PROBE = "fabricmanager_version"

_VERSION = re.compile(r"\s*Fabric Manager version is\s*:\s*(\d{3,4}(?:\.\d{1,6}){1,3})$", re.ASCII)


def parse_fabricmanager_version(text: str) -> FabricManagerVersion:
    """The one version line."""
    lines = bare_lines(PROBE, text)
    found = [(n, m[1]) for n, line in enumerate(lines, start=1) if (m := _VERSION.match(line))]
    if not found:
        raise ParseError(PROBE, 0, "no line 'Fabric Manager version is'")
    if found[0][0] == len(lines):
        raise ParseError(PROBE, found[0][0], "cut: the last line has no newline")
    if len({version for _, version in found}) > 1:
        raise ParseError(PROBE, found[1][0], "two different versions")
    return FabricManagerVersion(version=found[0][1], line=found[0][0])
