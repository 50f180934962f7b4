"""`dpkg -l`, `dpkg-query -W` and `rpm -qa`: packages and their state.

Evidence: real `dpkg -l` rows of four nodes (ii, rc). The forms of `dpkg-query -W` and `rpm -qa`
follow the manual pages (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import Package, Packages
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "dpkg"
PROBE_RPM = "rpm"

_NAME = r"([a-z0-9][a-z0-9+.-]{0,120})(?::([a-z0-9]{2,12}))?"
_LISTED = re.compile(
    rf"([uihrp][ncHUFWti][ R]?)\s{{1,4}}{_NAME}\s+(\S{{1,120}})"
    r"(?:\s+([a-z0-9-]{2,20}|<none>)(?:\s.*)?)?$",
    re.ASCII,
)
_QUERY = re.compile(
    rf"{_NAME}[\t ]+(\d\S{{0,119}})(?:[\t ]+([uihrp][ncHUFWti][ R]?))?\s*$", re.ASCII
)
_HEADING = re.compile(r"Desired=|\| Status=|\|/ Err\?=|\|\|/ Name|\+{3}-[=-]+")
_ABSENT = re.compile(r"dpkg-query: no packages found matching (\S{1,200})")
_COMPLAINT = re.compile(
    r"(?:dpkg(?:-query)?|rpm|bash|sh|sudo)(?:: |\[)|error: |.*command not found"
)
_RPM = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9+._-]{0,120})-(\d[^-\s]{0,60})-([^-\s]{1,60})"
    r"\.(x86_64|aarch64|noarch|i[36]86|ppc64le)$",
    re.ASCII,
)
_RPM_ABSENT = re.compile(r"package (\S{1,200}) is not installed$")


def upstream(version: str) -> str:
    """``1:570.148.08-0lambda0.22.04.1`` is 570.148.08."""
    bare = re.sub(r"^\d{1,9}:", "", version)
    return (bare.rpartition("-")[0] or bare).split("+")[0] or bare


def _package(line: int, name: str, arch: str | None, version: str, state: str | None) -> Package:
    said = None if version in ("<none>", "(none)") else version
    return Package(
        line=line,
        name=name,
        arch=arch,
        version=said,
        upstream=None if said is None else upstream(said),
        state=state,
        installed=None if state is None else state[1] == "i" and not state.endswith("R"),
        held=state is not None and state[0] == "h",
    )


def parse_dpkg(text: str) -> Packages:
    """One package a row. A state other than installed is kept: rc rows are leftovers."""
    packages: dict[tuple[str, str | None], Package] = {}
    absent: list[str] = []
    for number, line in numbered(read_lines(PROBE, text, max_chars=8 * MIB, max_lines=40_000)):
        if match := _ABSENT.search(line):
            absent.append(match[1])
            continue
        if _HEADING.match(line):
            continue
        if match := _LISTED.match(line):
            arch = match[3] or (None if match[5] == "<none>" else match[5])
            package = _package(number, match[2], arch, match[4], match[1].strip())
        elif match := _QUERY.match(line):
            package = _package(number, match[1], match[2], match[3], match[4] and match[4].strip())
        elif _COMPLAINT.match(line):
            raise ParseError(PROBE, number, f"dpkg said: {line.strip()[:160]}")
        elif "dpkg" in line and not packages:
            continue
        else:
            raise ParseError(PROBE, number, f"not a package: {line[:80]!r}")
        key = (package.name, package.arch)
        if key in packages:
            raise ParseError(PROBE, number, f"{package.name} stands there twice")
        packages[key] = package
    if not packages and not absent:
        raise ParseError(PROBE, 0, "no package")
    return Packages(packages=tuple(packages.values()), absent=tuple(absent))


def parse_rpm(text: str) -> Packages:
    """``name-version-release.arch``; whatever rpm lists is installed."""
    packages: list[Package] = []
    absent: list[str] = []
    for number, line in numbered(read_lines(PROBE_RPM, text, max_lines=40_000)):
        if match := _RPM.match(line.strip()):
            packages.append(
                Package(
                    line=number, name=match[1], arch=match[4], version=f"{match[2]}-{match[3]}",
                    upstream=match[2], installed=True,
                )
            )  # fmt: skip
        elif match := _RPM_ABSENT.match(line.strip()):
            absent.append(match[1])
        elif "rpm -q" not in line:
            raise ParseError(PROBE_RPM, number, f"not a package: {line[:80]!r}")
    if not packages and not absent:
        raise ParseError(PROBE_RPM, 0, "no package")
    return Packages(packages=tuple(packages), absent=tuple(absent))
