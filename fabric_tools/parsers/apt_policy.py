"""`apt-cache policy NAME...`: installed and candidate version, and which repository offers which.

Evidence: real output of a Debian 12 host; lines of the CUDA network repository as
NVIDIA/apt-packaging-fabric-manager#3 shows them; one text re-rendered from facts (neither installed
nor available).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.boot import DPKG_STATUS
from fabric_tools.models.system import AptCandidate, AptPolicy, AptVersion
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "apt_policy"

_NAME = re.compile(r"([a-z0-9][a-z0-9+.-]{0,150}(?::[a-z0-9]{2,12})?):$", re.ASCII)
_VERSION = re.compile(r"  (Installed|Candidate): (\(none\)|\S{1,150})$")
_ROW = re.compile(r" (\*\*\*|   ) (\S{1,150}) (-?\d{1,6})(?: \(phased \d{1,3}%\))?$")
#: Rank and source. A flat repository has "./", or nothing for "/", where others have suite,
#: component and architecture.
_SOURCE = re.compile(r" {1,12}-?\d{1,6} (\S{1,400})(?: (\S{0,200})(?: \S{1,20})? Packages)?$")
_UNKNOWN = re.compile(r"N: Unable to locate package (\S{1,200})$")


@dataclass
class _Block:
    name: str
    line: int
    said: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, int, list[str], bool]] = field(default_factory=list)

    def candidate(self) -> AptCandidate:
        if len(self.said) != 2:
            why = f"{self.name}: without Installed or Candidate (cut?)"
            raise ParseError(PROBE, self.line, why)
        versions = {name: None if v == "(none)" else v for name, v in self.said.items()}
        rows = {version for version, *_ in self.rows}
        if self.rows and not {v for v in versions.values() if v} <= rows:
            raise ParseError(PROBE, self.line, f"{self.name}: the version table is cut")
        return AptCandidate(
            line=self.line,
            name=self.name,
            installed=versions["Installed"],
            candidate=versions["Candidate"],
            versions=tuple(
                AptVersion(version=v, priority=p, sources=tuple(s), installed=here)
                for v, p, s, here in self.rows
            ),
        )


def source_in(line: str) -> str | None:
    """The repository in a line of ``apt-cache policy``: ``URI suite/component``, or a file's path.

    None where the line is none of a repository.
    """
    match = _SOURCE.match(line)
    return f"{match[1]} {match[2] or ''}".strip() if match else None


def parse_apt_policy(text: str) -> AptPolicy:
    """Each package with both lines; one of them missing is a cut."""
    found: list[_Block] = []
    unknown: list[str] = []
    for number, line in numbered(read_lines(PROBE, text, max_chars=2 * MIB)):
        if match := _NAME.match(line):
            found.append(_Block(match[1], number))
        elif match := _UNKNOWN.match(line):
            unknown.append(match[1])
        elif found and (match := _VERSION.match(line)):
            if match[1] in found[-1].said:
                raise ParseError(PROBE, number, f"{found[-1].name}: {match[1]} twice")
            found[-1].said[match[1]] = match[2]
        elif found and (match := _ROW.match(line)):
            found[-1].rows.append((match[2], int(match[3]), [], match[1] == "***"))
        elif found and found[-1].rows and (source := source_in(line)):
            if source != DPKG_STATUS:
                found[-1].rows[-1][2].append(source)
        elif found and found[-1].rows and line[:1] == " ":
            raise ParseError(PROBE, number, f"not a line of a version table: {line[:80]!r}")
        elif line[0] != " " and line[:3] != "W: " and "apt-cache policy" not in line:
            raise ParseError(PROBE, number, f"not a line of apt-cache policy: {line[:80]!r}")
    if text and not text.endswith("\n"):
        raise ParseError(PROBE, 0, "the last line is cut")
    if not found and not unknown:
        raise ParseError(PROBE, 0, "no package")
    return AptPolicy(packages=tuple(b.candidate() for b in found), unknown=tuple(unknown))
