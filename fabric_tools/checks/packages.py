"""What is installed: does it fit these GPUs, and is it one version?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import FabricManagerVersion, GpuRosters, LoadedModule, SmiVersion
from fabric_tools.models.platform import DriverSpec, Target
from fabric_tools.models.system import ModuleFile, Package, Packages
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


@check(
    "driver.supported",
    phases=(Phase.DRIVER,),
    title="the driver's branch and kind of module can run these GPUs",
    remedy="install a branch that supports this GPU, with the kind of module it needs",
)
def supported(
    module: LoadedModule | Missing, rosters: GpuRosters | Missing, want: DriverSpec
) -> Iterator[Finding]:
    """Branch of the loaded module, and whether it is the open or the proprietary one.

    A B200 or GB200 is refused by the proprietary module, a V100 by the open one and by every branch
    after 580; the package is installed and built all the same, and only the kernel log says why
    there is no GPU.
    """
    low, high = want.branch_min.value, want.branch_max.value
    least = want.version_min.value or str(low)
    expected = f"{least} or later" + (f", up to {high}" if high else "")
    expected += f", {' or '.join(want.modules.value)} module"
    if isinstance(module, Missing):
        told = None if isinstance(rosters, Missing) else rosters.best.driver_version
        if module.recorded or told is None:
            yield unknown(NODE, module, expected)
            return
        version, flavour, evidence = told, None, at(rosters)
    else:
        version, flavour, evidence = module.version, module.flavour, at(module, module.line)
    bad = want.versions_bad.value if want.versions_bad else {}
    if version in bad:
        yield Finding(NODE, Status.FAIL, expected, f"{version}: {bad[version]}", (evidence,))
        return
    parts = _numbers(version)
    good = parts >= _numbers(least) and (high is None or parts[0] <= high)
    good = good and (flavour is None or flavour in want.modules.value)
    actual = f"{version}, {flavour or 'kind of module not recorded'}"
    status = Status.PASS if good and flavour else Status.UNKNOWN if good else Status.FAIL
    remedy = "record /proc/driver/nvidia/version" if status is Status.UNKNOWN else ""
    if status is Status.FAIL and flavour in want.modules.value and parts[0] == low:
        # Nodes of such a board are seen at work with an earlier release of the same branch.
        status = Status.WARN
        remedy = f"the vendor supports this GPU from {least}: update within the branch"
    yield Finding(NODE, status, expected, actual, (evidence,), remedy)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])


#: Packages that must be of the driver's own version, by the vendors' names. Not nvlsm, which is
#: versioned by date, not the container toolkit, and not what is versioned apart: distributions
#: build settings, modprobe and persistenced themselves, and firmware has its version in its name,
#: so that one of an earlier driver may stay beside the present one.
_OF_DRIVER = re.compile(
    r"(?:lib)?nvidia-(?:compute|driver|kernel|kmod|utils|headless|dkms|fabric-?manager|imex|open|gl"
    r"|cfg1|extra|decode|encode|fbc1|xconfig|cuda|libs?|ml|smi)"
    r"(?:$|[-:.])|libnvidia-(?:nscq|ml|cfg1|common|extra|gpucomp)|libnvsdm|cuda-drivers"
    r"|linux-(?:modules|objects|signatures)-nvidia|xserver-xorg-video-nvidia|kmod-nvidia"
)


@check(
    "driver.packages",
    phases=(Phase.DRIVER,),
    title="every installed driver package is of one version, and it is the one that runs",
    remedy="install one version of all of them and hold them (apt-mark hold, dnf versionlock), "
    "then reload the module or reboot",
)
def packages(
    installed: Packages | Missing,
    module: LoadedModule | Missing,
    on_disk: ModuleFile | Missing,
    userspace: SmiVersion | Missing,
    manager: FabricManagerVersion | Missing,
    spec: Target | None,
) -> Iterator[Finding]:
    """Driver, fabric manager, NSCQ and IMEX packages as dpkg or rpm lists them, and the module file
    that the next load would take.

    One package that moved alone (unattended upgrades) breaks CUDA at the next restart. Packages
    that were removed but left files behind (``rc``) are no installed packages; one that dpkg left
    half-way (``iU``, ``iF``: an upgrade cut short, a module that did not build) fails whatever its
    version. What dpkg and rpm list both counts. That all of them are right does not mean that the
    driver drives the GPU: see driver.answers and kernel.driver_faults.

    Where driver.stack_match fails for the same version, because userspace or the fabric manager
    has it, that check names the fault and this one warns.
    """
    for fact in (installed, on_disk):
        # Nobody saves modinfo by hand; but where it was asked and did not answer, it may say more.
        if isinstance(fact, Missing) and (fact.recorded or fact is installed):
            yield unknown(NODE, fact, "one version")
            return
    assert not isinstance(installed, Missing)
    named = [p for p in installed.packages if is_of_driver(p)]
    half = [p for p in named if p.half_done]
    if half:
        yield _half_done(installed, half)
        return
    found = [p for p in named if _there(p) and _has_version(p)]
    if not found:
        remedy = (
            "record the whole list; if the driver came from a runfile, nothing holds its version"
        )
        actual = "no driver package is installed, or the list is not whole"
        yield Finding(NODE, Status.WARN, "one version", actual, (at(installed),), remedy)
        return
    runs = None if isinstance(module, Missing) else module.version
    versions: dict[str, list[Package]] = {}
    for package in found:
        versions.setdefault(_version(package), []).append(package)
    if not isinstance(on_disk, Missing):
        versions.setdefault(on_disk.version, [])
    common = runs or max(versions, key=lambda version: len(versions[version]))
    odd = {version: items for version, items in versions.items() if version != common}
    expected = f"{common}{' (loaded module)' if runs else ''}"
    if not odd:
        actual = f"{len(found)} packages of {common}"
        yield Finding(NODE, Status.PASS, expected, actual, (_place(installed, found[0]),))
        return
    shown = [
        f"{version}: {', '.join(p.name for p in items[:4]) or 'the module file'}"
        for version, items in odd.items()
    ]
    firsts = [p for items in odd.values() for p in items[:1]]
    evidence = tuple(_place(installed, p) for p in firsts[:3]) or (at(on_disk),)
    status, actual, remedy = Status.FAIL, "; ".join(shown), ""
    if runs and all(version in _compared(userspace, manager, spec) for version in odd):
        status, remedy = Status.WARN, "see driver.stack_match"
        actual += " (named by driver.stack_match)"
    yield Finding(NODE, status, expected, actual, evidence, remedy)


def _compared(
    userspace: SmiVersion | Missing, manager: FabricManagerVersion | Missing, spec: Target | None
) -> set[str | None]:
    """The versions that driver.stack_match holds against the loaded module."""
    if spec is None:
        return set()
    found: set[str | None] = set()
    if not isinstance(userspace, Missing):
        found.add(userspace.smi_version)
    if spec.fabric.manager.value and not isinstance(manager, Missing):
        found.add(manager.version)
    return found


def _half_done(installed: Packages, half: list[Package]) -> Finding:
    actual = ", ".join(f"{p.name} {p.version or ''} is {p.state}" for p in half[:4])
    remedy = "`dpkg --audit`; `dpkg --configure -a` shows why; for dkms read its make.log"
    proof = tuple(_place(installed, p) for p in half[:3])
    expected = "every driver package fully installed"
    return Finding(NODE, Status.FAIL, expected, f"half-way: {actual}", proof, remedy)


def _place(installed: Packages, package: Package) -> Evidence:
    return Evidence(probe=package.probe or installed.probe, line=package.line)


def is_of_driver(package: Package) -> bool:
    """Whether this package must be of the driver's own version."""
    return _OF_DRIVER.match(package.name) is not None and "container" not in package.name


def _there(package: Package) -> bool:
    """Installed, be it that a trigger of another package still waits; or the list does not say."""
    return package.installed is not False or (package.state or "??")[1] in "Wt"


def _version(package: Package) -> str:
    """As upstream writes it; ``~`` begins what a distribution adds."""
    return (package.upstream or "?").partition("~")[0]


#: What else must not move under a driver that was proved: versioned by date, or apart.
_BESIDE = re.compile(r"nvlsm|nvlink5|nvidia-persistenced|libnvsdm|cuda-drivers")


def is_vendors(name: str) -> bool:
    """Whether this is one of the vendor's packages that an upgrade must not move by itself.

    Not the container toolkit, which is another phase's, and not the package that only pins.
    """
    if "container" in name or name.startswith("nvidia-driver-pinning"):
        return False
    return _OF_DRIVER.match(name) is not None or _BESIDE.match(name) is not None


def driver_version(installed: Packages) -> str | None:
    """The version that most of the installed driver packages have; None where there is none."""
    found = [
        _version(p) for p in installed.packages if is_of_driver(p) and _there(p) and _has_version(p)
    ]
    return max(dict.fromkeys(found), key=found.count, default=None)


def _has_version(package: Package) -> bool:
    """A metapackage, or one for a kernel, has no version of the driver's form."""
    return re.match(r"\d{3}\.\d", package.upstream or "") is not None


CHECKS: tuple[Check, ...] = (supported, packages)
