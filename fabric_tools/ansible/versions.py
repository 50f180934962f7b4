"""One exact package revision for each upstream version, out of what a repository offers.

Formats: `apt-cache madison` (name | version | repository), `dpkg-query -W -f
'${Package}\\t${Version}\\t${db:Status-Status}\\n'`, `dnf repoquery --queryformat
'%{name} %{epoch} %{version} %{release} %{arch}\\n'`, `apt-get -s dist-upgrade`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from fabric_tools.checks.packages import is_vendors
from fabric_tools.errors import UsageError
from fabric_tools.parsers.upgrade_simulated import parse_upgrade_simulated
from fabric_tools.stacks.packages import DRIVER_GLOBS

#: Packages of the kernel that must not move by themselves either (NVIDIA driver installation
#: guide and Ubuntu server documentation: the module is built for one kernel).
KERNEL_GLOBS = (
    "linux-image*", "linux-headers*", "linux-modules*", "linux-generic*", "linux-nvidia*",
)  # fmt: skip

#: A version of the driver, and not of a tool that NVIDIA versions apart (container toolkit, nvlsm).
_DRIVER_VERSION = re.compile(r"^(\d{3})\.\d+(?:\.\d+)?$")

#: Packages of DGX OS that have the driver's version (NVIDIA/deepops roles/nvidia-dgx).
_DGX_DRIVER = re.compile(
    r"^(?:nvidia-(?:driver|utils|compute-utils|dkms|kernel-common|kernel-source|fabricmanager|imex)"
    r"|libnvidia-(?:compute|nscq|cfg1|extra|decode|encode|fbc1|gl))(?:-\d{3}(?:-server|-open)*)?$"
)


def upstream(version: str) -> str:
    """The upstream part of a Debian version: ``580.173.02`` of ``1:580.173.02-1ubuntu1``."""
    return version.rpartition(":")[2].rpartition("-")[0] or version.rpartition(":")[2]


def madison(text: str) -> dict[str, tuple[str, ...]]:
    """Versions on offer by package, each once, in apt's order (the newest first)."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[0] and not fields[2].endswith("Sources"):
            offered = found.setdefault(fields[0], [])
            if fields[1] not in offered:
                offered.append(fields[1])
    return {name: tuple(versions) for name, versions in found.items()}


def repoquery(text: str) -> dict[str, tuple[str, ...]]:
    """The same of dnf: ``epoch:version-release``, without an epoch of 0."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 5 and fields[4] != "src":
            name, epoch, version, release, _ = fields
            full = f"{version}-{release}" if epoch == "0" else f"{epoch}:{version}-{release}"
            offered = found.setdefault(name, [])
            if full not in offered:
                offered.append(full)
    return {name: tuple(versions) for name, versions in found.items()}


def installed(text: str) -> dict[str, str]:
    """Package -> version of what dpkg has in any state that leaves files behind."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[2] not in ("not-installed", "config-files"):
            found[fields[0]] = fields[1]
    return found


def resolve(
    packages: Iterable[Mapping[str, Any]],
    offered: Mapping[str, tuple[str, ...]],
    have: Mapping[str, str],
    *,
    partial: bool = False,
) -> dict[str, str]:
    """Package -> the one full version to install.

    ``packages``: name, ``version`` (upstream, None: not fixed), ``version_min``. ``have``: what is
    installed: it decides between revisions of one upstream version (so that nothing moves on a
    second run) and stays where no version is fixed. ``partial``: leave out what is not on offer
    (check mode, before the repository is there). Raises ``UsageError`` for none and for several.
    """
    chosen = {}
    for package in packages:
        name, here = str(package["name"]), have.get(str(package["name"]))
        fits = [full for full in offered.get(name, ()) if _fits(package, full)]
        if here is not None and _fits(package, here):
            chosen[name] = here
        elif len(fits) == 1 or (fits and package["version"] is None):
            chosen[name] = fits[0]
        elif not (partial and not fits):
            raise _not_one(package, fits, offered.get(name, ()))
    return chosen


def _fits(package: Mapping[str, Any], full: str) -> bool:
    if package["version"] is not None:
        return upstream(full) == str(package["version"])
    least = package.get("version_min")
    return least is None or _numbers(upstream(full)) >= _numbers(str(least))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _not_one(package: Mapping[str, Any], fits: list[str], offered: tuple[str, ...]) -> UsageError:
    wanted = package["version"] or f"at least {package.get('version_min')}"
    if fits:
        return UsageError(
            f"{package['name']} {wanted} is offered in {len(fits)} revisions: {', '.join(fits)}",
            try_next="leave one of them in the mirror, so that all nodes get the same",
        )
    seen = ", ".join(offered[:5]) or "nothing of that name"
    return UsageError(
        f"{package['name']} {wanted} is not offered; there is {seen}",
        try_next="bring it into the mirror (`fabric-tools stack show` lists a stack's packages)",
    )


def vendor_names(
    have: Mapping[str, str], globs: Iterable[str], version: str | None = None
) -> list[str]:
    """Installed packages that one of ``globs`` covers, sorted.

    ``version``: only those of this upstream version: the globs also cover the container toolkit,
    which belongs to a later phase.
    """
    wanted = tuple(globs)
    return sorted(
        name
        for name, full in have.items()
        if any(fnmatchcase(name, glob) for glob in wanted)
        and (version is None or upstream(full) == version)
    )


def held_names(have: Mapping[str, str], globs: Iterable[str], version: str) -> list[str]:
    """What is held: all of the driver's version, and whatever packages.driver_hold asks for.

    Ubuntu's prebuilt modules have the kernel's version and move the driver all the same.
    """
    return sorted({*vendor_names(have, globs, version), *filter(is_vendors, have)})


def dnf_locks(
    chosen: Mapping[str, str], have: Mapping[str, str], globs: Iterable[str], version: str
) -> list[str]:
    """Lines of versionlock.list: each package that was chosen, and what came with them.

    By name, version and release, as `dnf versionlock add` writes them. A line with a version in a
    pattern (``*nvidia*580.173.02*``) is read as a name there, and locks nothing; one with a pattern
    for the name would shut out the container toolkit. Without the epoch, so that what was offered
    and what is installed read the same.
    """
    found = {name: have[name] for name in vendor_names(have, globs, version)} | dict(chosen)
    return sorted(f"{name}-{full.rpartition(':')[2]}.*" for name, full in found.items())


def driver_parts(have: Mapping[str, str], globs: Iterable[str]) -> list[str]:
    """Installed packages of the driver, of whatever version, and none that is versioned apart."""
    names = vendor_names(have, globs)
    return [name for name in names if _DRIVER_VERSION.match(upstream(have[name]))]


def other_branches(
    have: Mapping[str, str], wanted: Iterable[str], driver_version: str, globs: Iterable[str]
) -> list[str]:
    """Installed packages of another driver branch, and another pinning package.

    The parts of two branches conflict by names that apt does not resolve by itself; those that are
    wanted under the same name are left to be upgraded. ``globs``: names of the driver's packages.
    """
    keep, branch = set(wanted), driver_version.partition(".")[0]
    found = []
    for name in vendor_names(have, globs):
        match = _DRIVER_VERSION.match(upstream(have[name]))
        other = match is not None and match[1] != branch
        if name not in keep and (other or name.startswith("nvidia-driver-pinning-")):
            found.append(name)
    return found


def instead(
    names: Iterable[str], offered: Mapping[str, Sequence[str]], driver_version: str
) -> list[str]:
    """Words for apt-get: packages of another branch are gone (``NAME-``) once the wanted is here.

    From branch 590 on names carry no branch: one that is also on offer in the wanted version of the
    driver takes that (``NAME=VERSION``), for others may depend on it.
    """
    found = []
    for name in names:
        fits = [v for v in offered.get(name, ()) if upstream(v) == driver_version]
        found.append(f"{name}={fits[0]}" if fits else f"{name}-")
    return found


def moving(simulation: str, globs: Iterable[str]) -> list[str]:
    """What a simulated upgrade would do to packages of the vendor or the kernel.

    One line each: ``nvidia-open-580 580.173.02-1 -> 595.91.07-1``. Raises ``ParseError`` for an
    answer of apt-get that is not whole: what was cut off may be the package that moves.
    """
    wanted = (*globs, *KERNEL_GLOBS)
    return [
        f"{move.name} {move.old or 'new'} -> {move.new or 'removed'}"
        for move in parse_upgrade_simulated(simulation).moves
        if any(fnmatchcase(_bare(move.name), glob) for glob in wanted)
    ]


def _bare(name: str) -> str:
    """Without the architecture, which apt names where it is not the node's own."""
    return name.partition(":")[0]


def dgx_objections(simulation: str, driver_version: str) -> list[str]:
    """What stands against an upgrade of DGX OS: the driver would leave the stack's version or go.

    ``simulation``: `apt-get -s full-upgrade`. NVIDIA's other packages there have versions of their
    own and may move. Raises ``ParseError`` for an answer that is not whole.
    """
    found = []
    for move in parse_upgrade_simulated(simulation).moves:
        if not _DGX_DRIVER.match(_bare(move.name)):
            continue
        if move.new is None:
            found.append(f"{move.name} would be removed")
        elif upstream(move.new) != driver_version:
            found.append(f"{move.name} would become {move.new}")
    return found


def dnf_moving(simulation: str, names: Iterable[str]) -> list[str]:
    """The same of `dnf -q --assumeno upgrade`: rows of its table (format unverified)."""
    wanted = (*names, *DRIVER_GLOBS, "kernel", "kernel-*")
    found = []
    for line in simulation.splitlines():
        fields = line.split()
        is_row = len(fields) >= 4 and line.startswith(" ")
        if is_row and any(fnmatchcase(fields[0], glob) for glob in wanted):
            found.append(f"{fields[0]} -> {fields[2]}")
    return found
