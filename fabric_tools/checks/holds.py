"""What keeps kernel and driver packages where they are: holds and pins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from fabric_tools.checks.packages import is_vendors
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import AptPins, DgxOs, KernelPackages, RpmLocks
from fabric_tools.models.facts import KernelRelease, OsRelease
from fabric_tools.models.system import AptHolds, Package, Packages
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Families by ``ID`` of os-release: who manages packages. Others are UNKNOWN.
APT = ("ubuntu", "debian")
RPM = ("rhel", "rocky", "almalinux", "centos", "ol")
#: A pin from here on also undoes a newer version that is installed (apt_preferences(5)).
PIN_PRIORITY = 1000
_SHOWN = 6
_VERSIONED = re.compile(r"\d+\.\d+\.\d+")
_KERNEL_PART = re.compile(r"linux-(?:image-|headers-|modules-extra-|modules-)?(.+)")


def vendor_owns(dgx: DgxOs) -> Finding | None:
    """On DGX OS the vendor's repositories pin driver, fabric manager and kernel together."""
    if not dgx.present:
        return None
    expected = "kept together by the vendor's repositories"
    actual = "DGX OS owns kernel and driver (/etc/dgx-release)"
    return Finding(NODE, Status.NOT_APPLICABLE, expected, actual, (at(dgx, dgx.line),))


def no_apt(os: OsRelease, what: str) -> Finding:
    """The finding on a system whose package manager is not read for this check."""
    remedy = f"prove by hand that {what}, and waive this check for the host with that reason"
    actual = f"not read on {os.id}: only apt is"
    return Finding(NODE, Status.UNKNOWN, what, actual, (at(os, os.line),), remedy)


def is_kernel_package(name: str) -> bool:
    """Image, headers or modules of a kernel, not the driver's modules."""
    return name.startswith(("linux-image-", "linux-headers-", "linux-modules-")) and not is_vendors(
        name
    )


def kernel_set(kernel: str, installed: KernelPackages) -> tuple[Package | None, list[Package]]:
    """The package of the running kernel's image, and the metapackages that would bring another.

    Metapackages are known by the flavour at the end of the release (generic, amd64, nvidia): they
    are named so and have no version in their names.
    """
    images = (f"linux-image-{kernel}", f"linux-image-unsigned-{kernel}")
    image = next((p for p in installed.packages if p.name in images), None)
    return image, [p for p in installed.packages if is_kernel_meta(p.name, kernel)]


def is_kernel_meta(name: str, kernel: str) -> bool:
    """Whether this metapackage brings kernels of the flavour of ``kernel`` (``uname -r``)."""
    found = re.search(r"-([a-z][a-z0-9]*(?:-[a-z0-9]+)*)$", kernel)
    part = _KERNEL_PART.match(name)
    if not part or not found or is_vendors(name) or _VERSIONED.search(name):
        return False
    return part[1] == found[1] or part[1].startswith(f"{found[1]}-")


def _is_pinned(package: Package, pins: AptPins, whole: bool) -> bool:
    """To exactly its version: a pin to a branch lets it move within the branch.

    ``whole``: the pin must name the version as it is, else the upstream version is enough. Of
    several stanzas for one package the first one decides (apt_preferences(5)), and which file is
    first is not told: a lower one for the same version makes the pin doubtful, so it counts as none
    (but for ``Package: *``, which any other goes before).
    """
    version, upstream = package.version or "", package.upstream or ""
    found = False
    for pin in pins.pins:
        word, _, wanted = pin.pin.partition(" ")
        if word != "version" or not fnmatchcase(version, wanted):
            continue
        if not any(fnmatchcase(package.name, glob) for glob in pin.packages):
            continue
        if pin.priority >= PIN_PRIORITY:
            exact = wanted == version if whole else bool(upstream) and upstream in wanted
            found = found or exact
        elif pin.packages != ("*",):
            return False
    return found


def loose(
    packages: Iterable[Package], holds: AptHolds, pins: AptPins | Missing, whole: bool = False
) -> list[Package]:
    """Those that are neither held nor pinned to exactly their version."""
    held = {name.partition(":")[0] for name in holds.lines}
    return [
        package
        for package in packages
        if package.name not in held
        and (isinstance(pins, Missing) or not _is_pinned(package, pins, whole))
    ]


def vendor_set(installed: Packages, *, rpm: bool = False) -> list[Package]:
    """Installed packages of the vendor that must not move by themselves, of dpkg or of rpm."""
    mine = [p for p in installed.installed() if (p.probe == "rpm") is rpm]
    return [p for p in mine if is_vendors(p.name)]


def _judged(
    wanted: list[Package], free: list[Package], holds: AptHolds, pins: AptPins | Missing
) -> Finding:
    expected = f"held or pinned: {_names(wanted)}"
    if free and isinstance(pins, Missing):
        # They may be pinned: that cannot be seen.
        return unknown(NODE, pins, expected)
    if free:
        proof = (at(holds), *(_at_package(p, "dpkg") for p in free[:2]))
        actual = f"neither held nor pinned to its version: {_names(free)}"
        return Finding(NODE, Status.FAIL, expected, actual, proof)
    held = sum(p.name in {n.partition(":")[0] for n in holds.lines} for p in wanted)
    actual = f"{len(wanted)} packages, {held} held, {len(wanted) - held} pinned"
    return Finding(NODE, Status.PASS, expected, actual, (at(holds),))


def _names(packages: list[Package]) -> str:
    more = f" and {len(packages) - _SHOWN} more" if len(packages) > _SHOWN else ""
    return ", ".join(p.name for p in packages[:_SHOWN]) + more


def _at_package(package: Package, probe: str) -> Evidence:
    return Evidence(probe=package.probe or probe, line=package.line)


@check(
    "packages.kernel_hold",
    phases=(Phase.BASE,),
    title="the running kernel and its metapackages are held",
    remedy="`apt-mark hold` the image and the metapackages that are named, or pin them in "
    "/etc/apt/preferences.d to their version with priority 1001",
)
def kernel_hold(
    os: OsRelease,
    dgx: DgxOs,
    running: KernelRelease,
    installed: KernelPackages | Missing,
    holds: AptHolds | Missing,
    pins: AptPins | Missing,
) -> Iterator[Finding]:
    """A metapackage (linux-generic, linux-image-generic) that is free brings a new kernel with the
    next upgrade, and with it another driver build at the next boot.

    On DGX OS the vendor's repositories keep kernel and driver together, so nothing is held there.
    """
    owned = vendor_owns(dgx)
    if owned or os.id not in APT:
        yield owned or no_apt(os, "the kernel packages are locked")
        return
    for fact in (installed, holds):
        if isinstance(fact, Missing):
            yield unknown(NODE, fact)
            return
    assert not isinstance(installed, Missing) and not isinstance(holds, Missing)
    image, metas = kernel_set(running.release, installed)
    if image is None:
        actual = f"no installed package is the image of {running.release}, which runs"
        remedy = "install the running kernel's package, or waive this for a kernel of your own"
        yield Finding(NODE, Status.UNKNOWN, "held", actual, (at(installed), at(running)), remedy)
        return
    wanted = [image, *metas]
    yield _judged(wanted, loose(wanted, holds, pins, whole=True), holds, pins)


@check(
    "packages.driver_hold",
    phases=(Phase.DRIVER,),
    title="every package of the driver is held or pinned to its version",
    remedy="`apt-mark hold` them, or install nvidia-driver-pinning-VERSION, or pin them in "
    "/etc/apt/preferences.d to the full version with priority 1001; RHEL: `dnf versionlock add`",
)
def driver_hold(
    os: OsRelease,
    dgx: DgxOs,
    installed: Packages | Missing,
    holds: AptHolds | Missing,
    pins: AptPins | Missing,
    locks: RpmLocks | Missing,
) -> Iterator[Finding]:
    """One package that moves alone breaks CUDA at the next restart. A pin counts where it names the
    full version with priority 1000 or more: a pin to a branch lets packages move within it.

    The vendor's pinning package is not to be combined with holds: its change of version would be
    refused. On DGX OS the vendor's repositories keep the set together.
    """
    owned = vendor_owns(dgx)
    if owned or os.id not in (*APT, *RPM):
        yield owned or no_apt(os, "the driver packages are locked")
        return
    for fact in (installed, locks if os.id in RPM else holds):
        if isinstance(fact, Missing):
            yield unknown(NODE, fact)
            return
    assert not isinstance(installed, Missing)
    wanted = vendor_set(installed, rpm=os.id in RPM)
    if not wanted:
        actual = "no driver package is installed: nothing to hold"
        remedy = "a driver from a runfile is held by nothing: install it from packages"
        yield Finding(NODE, Status.WARN, "held", actual, (at(installed),), remedy)
    elif os.id in RPM:
        assert not isinstance(locks, Missing)
        yield _locked(wanted, locks)
    else:
        assert not isinstance(holds, Missing)
        finding = _judged(wanted, loose(wanted, holds, pins), holds, pins)
        both = [p.name for p in installed.installed("nvidia-driver-pinning")]
        if finding.status is Status.PASS and both and any(is_vendors(n) for n in holds.lines):
            actual = f"{both[0]} pins them, and they are held as well"
            remedy = "`apt-mark unhold` them: the pinning package is enough and must be able to act"
            finding = Finding(NODE, Status.WARN, "one of the two", actual, (at(holds),), remedy)
        yield finding


def _locked(wanted: list[Package], locks: RpmLocks) -> Finding:
    free = [p for p in wanted if p.name not in locks.lines]
    status = Status.FAIL if free else Status.PASS
    actual = f"not locked: {_names(free)}" if free else f"{len(wanted)} packages locked"
    expected = f"locked: {_names(wanted)}"
    return Finding(NODE, status, expected, actual, (at(locks),))


CHECKS: tuple[Check, ...] = (kernel_hold, driver_hold)
