"""`apt-cache policy NAME...`: installed and candidate version.

Evidence: one text re-rendered from facts (neither installed nor available).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import AptCandidate, AptPolicy
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "apt_policy"

_NAME = re.compile(r"([a-z0-9][a-z0-9+.-]{0,150}(?::[a-z0-9]{2,12})?):$", re.ASCII)
_VERSION = re.compile(r"  (Installed|Candidate): (\(none\)|\S{1,150})$")
_UNKNOWN = re.compile(r"N: Unable to locate package (\S{1,200})$")


def parse_apt_policy(text: str) -> AptPolicy:
    """Each package with both lines; one of them missing is a cut."""
    found: list[tuple[str, int, dict[str, str]]] = []
    unknown: list[str] = []
    for number, line in numbered(read_lines(PROBE, text, max_chars=2 * MIB)):
        if match := _NAME.match(line):
            found.append((match[1], number, {}))
        elif match := _UNKNOWN.match(line):
            unknown.append(match[1])
        elif found and (match := _VERSION.match(line)):
            if match[1] in found[-1][2]:
                raise ParseError(PROBE, number, f"{found[-1][0]}: {match[1]} twice")
            found[-1][2][match[1]] = match[2]
        elif line[0] != " " and line[:3] != "W: " and "apt-cache policy" not in line:
            raise ParseError(PROBE, number, f"not a line of apt-cache policy: {line[:80]!r}")
    if not found and not unknown:
        raise ParseError(PROBE, 0, "no package")
    for name, number, versions in found:
        if len(versions) != 2:
            raise ParseError(PROBE, number, f"{name}: without Installed or Candidate (cut?)")
    return AptPolicy(
        packages=tuple(
            AptCandidate(
                line=number,
                name=name,
                installed=None if versions["Installed"] == "(none)" else versions["Installed"],
                candidate=None if versions["Candidate"] == "(none)" else versions["Candidate"],
            )
            for name, number, versions in found
        ),
        unknown=tuple(unknown),
    )
