"""`dpkg -l`, `dpkg-query -W` (also with ``-f``) and `rpm -qa` (also with ``--qf``): packages.

Evidence: real `dpkg -l` rows of four nodes (ii, rc); `dpkg-query -W -f` of a Debian 12 host (ii,
un). The other forms of `dpkg-query -W` and `rpm -qa` follow the manual pages (format unverified).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabric_tools.models.base import Fact
from fabric_tools.models.boot import KernelPackages
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
#: Known by name only, never installed: ``dpkg-query -W -f`` prints nothing for its version.
_NEVER = re.compile(rf"([uihrp]n)\s{{1,4}}{_NAME}(?:\s+(all|amd64|arm64))?$", re.ASCII)
_HEADING = re.compile(r"Desired=|\| Status=|\|/ Err\?=|\|\|/ Name|\+{3}-[=-]+")
_ABSENT = re.compile(r"dpkg-query: no packages? found matching (\S{1,200})")
_COMPLAINT = re.compile(
    r"(?:dpkg(?:-query)?|rpm|bash|sh|sudo)(?:: |\[)|error: |.*command not found"
)
_FULL_NAME = re.compile(rf"{_NAME}$", re.ASCII)
_VERSION = re.compile(r"\d\S{0,119}$", re.ASCII)
_ARCH = re.compile(r"(?:all|amd64|arm64|i386|armhf|ppc64el|riscv64|s390x)$")
_ABBREVIATED = re.compile(r"[uihrp][ncHUFWti]R?$", re.ASCII)
_STATUS = re.compile(
    r"\b(install|hold|deinstall|purge|unknown) (ok|reinstreq) (installed|config-files"
    r"|half-installed|unpacked|half-configured|triggers-awaited|triggers-pending|not-installed)\b"
)
#: A second package on the line: what was saved without its line ends is not the list.
_SECOND = re.compile(r"\s[uihrp][ncHUFWti]R? +[a-z0-9][a-z0-9+.-]+(?::\w+)? +\d\S*")
_WANTED = {"install": "i", "hold": "h", "deinstall": "r", "purge": "p", "unknown": "u"}
_REACHED = {
    "installed": "i", "config-files": "c", "half-installed": "H", "unpacked": "U",
    "half-configured": "F", "triggers-awaited": "W", "triggers-pending": "t", "not-installed": "n",
}  # fmt: skip
_RPM_ARCH = r"(x86_64|aarch64|noarch|i[3-6]86|ppc64le|s390x|\(none\))"
_RPM = re.compile(
    rf"([A-Za-z0-9][A-Za-z0-9+._-]{{0,120}})-((?:\d{{1,6}}:)?[^-\s:]{{1,60}})-([^-\s]{{1,60}})"
    rf"\.{_RPM_ARCH}$",
    re.ASCII,
)
#: Names and versions apart, as ``--qf '%{NAME} %{VERSION}-%{RELEASE} %{ARCH}'`` writes them.
_RPM_WORDS = re.compile(
    rf"([A-Za-z0-9][A-Za-z0-9+._-]{{0,120}})[\t |,;]+((?:\d{{1,6}}:)?\d[^-\s:|,;]{{0,60}})"
    rf"(?:[-\t |,;]([^-\s|,;]{{1,60}}))?(?:[.\t |,;]+{_RPM_ARCH})?$",
    re.ASCII,
)
#: Keys of repositories are in every list and have no architecture.
_RPM_KEY = re.compile(r"gpg-pubkey-[0-9a-f]{8,40}-[0-9a-f]{8}(?:\.\(none\))?$")
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


def _queried(line: str, ended: bool, number: int) -> Package | None:
    """A row of ``dpkg-query -W``: name and version, with state and architecture where asked for.

    ``ended``: a tab behind the name and nothing more, which is how a package without a version (not
    installed, never configured) looks in the default format.
    """
    state = None
    if status := _STATUS.search(line):
        state = _WANTED[status[1]] + _REACHED[status[3]] + ("R" if status[2] != "ok" else "")
        line = line[: status.start()] + " " + line[status.end() :]
    words = [word for word in re.split(r"[\s,;|=]+", line) if word]
    for word in words[1:] if state is None else ():
        if state is None and _ABBREVIATED.match(word):
            state = word
            words.remove(word)
    name = _FULL_NAME.match(words[0]) if words else None
    arch = next((word for word in words[1:] if _ARCH.match(word)), None)
    versions = [word for word in words[1:] if word != arch]
    if name is None or len(versions) > 1 or (versions and not _VERSION.match(versions[0])):
        return None
    if state is None and arch is None and "\t" not in line and versions and versions[0].isdigit():
        return None  # "total 4" of another tool
    if not versions:
        if not ended and state not in ("un", "pn"):
            return None
        return _package(number, name[1], name[2] or arch, "<none>", state or "un")
    return _package(number, name[1], name[2] or arch, versions[0], state)


def parse_dpkg(text: str) -> Packages:
    """One package a row. A state other than installed is kept: rc rows are leftovers."""
    packages: dict[tuple[str, str | None], Package] = {}
    absent: list[str] = []
    raw = text.removeprefix("\ufeff").split("\n") if len(text) <= 8 * MIB else []
    for number, line in numbered(read_lines(PROBE, text, max_chars=8 * MIB, max_lines=40_000)):
        if match := _ABSENT.search(line):
            absent.append(match[1])
            continue
        if _HEADING.match(line):
            continue
        if _SECOND.search(line):
            raise ParseError(PROBE, number, "several packages on one line: saved without line ends")
        if match := _NEVER.match(line):
            found = _package(number, match[2], match[3] or match[4], "<none>", match[1])
        elif match := _LISTED.match(line):
            arch = match[3] or (None if match[5] == "<none>" else match[5])
            found = _package(number, match[2], arch, match[4], match[1].strip())
        elif _COMPLAINT.match(line):
            raise ParseError(PROBE, number, f"dpkg said: {line.strip()[:160]}")
        else:
            ended = raw[number - 1].rstrip("\r") == f"{line}\t"
            queried = _queried(line, ended, number)
            if queried is None and "dpkg" in line and not packages:
                continue  # the command
            if queried is None:
                raise ParseError(PROBE, number, f"not a package: {line[:80]!r}")
            found = queried
        key = (found.name, found.arch)
        if key in packages:
            raise ParseError(PROBE, number, f"{found.name} stands there twice")
        packages[key] = found
    if not packages and not absent:
        raise ParseError(PROBE, 0, "no package")
    return Packages(packages=tuple(packages.values()), absent=tuple(absent))


def _rpm(match: re.Match[str], number: int) -> Package:
    """Epoch and release belong to the version; ``upstream`` is without both."""
    version = match[2] if match[3] is None else f"{match[2]}-{match[3]}"
    return Package(
        line=number,
        name=match[1],
        arch=None if match[4] == "(none)" else match[4],
        version=version,
        upstream=match[2].rpartition(":")[2],
        installed=True,
    )


def kernel_packages(found: Fact) -> Fact:
    """The list of kernel packages out of ``parse_dpkg``: what is installed."""
    assert isinstance(found, Packages)
    return KernelPackages(packages=tuple(p for p in found.packages if p.installed))


def parse_rpm(text: str) -> Packages:
    """``name-version-release.arch``, or these apart; whatever rpm lists is installed."""
    packages: list[Package] = []
    absent: list[str] = []
    for number, line in numbered(read_lines(PROBE_RPM, text, max_lines=40_000)):
        said = line.strip()
        match = _RPM.match(said) or _RPM_WORDS.match(said)
        # A name and bare numbers is what other tools print ("total 4").
        if match is not None and (match[4] or "." in match[2]):
            packages.append(_rpm(match, number))
        elif match := _RPM_ABSENT.match(said):
            absent.append(match[1])
        elif not _RPM_KEY.match(said) and "rpm -q" not in line:
            raise ParseError(PROBE_RPM, number, f"not a package: {line[:80]!r}")
    if not packages and not absent:
        raise ParseError(PROBE_RPM, 0, "no package")
    return Packages(packages=tuple(packages), absent=tuple(absent))


def merge_packages(found: Sequence[Fact]) -> Packages:
    """What dpkg and rpm list: a host that has both may have a driver from each."""
    facts = [fact for fact in found if isinstance(fact, Packages)]
    return Packages(
        probe=facts[0].probe,
        packages=tuple(
            package.model_copy(update={"probe": fact.probe})
            for fact in facts
            for package in fact.packages
        ),
        absent=tuple(name for fact in facts for name in fact.absent),
    )
