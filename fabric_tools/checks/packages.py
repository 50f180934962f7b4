"""What is installed: does it fit these GPUs, and is it one version?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import GpuRosters, LoadedModule
from fabric_tools.models.platform import DriverSpec
from fabric_tools.models.system import ModuleFile, Package, Packages
from fabric_tools.models.verdict import Status
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
#: versioned by date, and not the container toolkit.
_OF_DRIVER = re.compile(
    r"(?:lib)?nvidia-(?:compute|driver|kernel|utils|headless|dkms|fabricmanager|imex|open|gl|cfg1"
    r"|extra|decode|encode|fbc1|firmware|persistenced|modprobe|settings|xconfig|cuda|libs?|ml|smi)"
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
) -> Iterator[Finding]:
    """Driver, fabric manager, NSCQ and IMEX packages as dpkg or rpm lists them, and the module file
    that the next load would take.

    One package that moved alone (unattended upgrades) breaks CUDA at the next restart. Packages
    that were removed but left files behind (``rc``) are no installed packages. That all of them are
    right does not mean that the driver drives the GPU: see driver.answers and kernel.driver_faults.
    """
    for fact in (installed, on_disk):
        # Nobody saves modinfo by hand; but where it was asked and did not answer, it may say more.
        if isinstance(fact, Missing) and (fact.recorded or fact is installed):
            yield unknown(NODE, fact, "one version")
            return
    assert not isinstance(installed, Missing)
    found = [p for p in installed.packages if p.installed is not False and _is_of_driver(p)]
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
        versions.setdefault(package.upstream or "?", []).append(package)
    if not isinstance(on_disk, Missing):
        versions.setdefault(on_disk.version, [])
    common = runs or max(versions, key=lambda version: len(versions[version]))
    odd = {version: items for version, items in versions.items() if version != common}
    expected = f"{common}{' (loaded module)' if runs else ''}"
    if not odd:
        actual = f"{len(found)} packages of {common}"
        yield Finding(NODE, Status.PASS, expected, actual, (at(installed, found[0].line),))
        return
    shown = [
        f"{version}: {', '.join(p.name for p in items[:4]) or 'the module file'}"
        for version, items in odd.items()
    ]
    lines = [p.line for items in odd.values() for p in items[:1]]
    evidence = tuple(at(installed, line) for line in lines[:3]) or (at(on_disk),)
    yield Finding(NODE, Status.FAIL, expected, "; ".join(shown), evidence)


def _is_of_driver(package: Package) -> bool:
    """By name; a metapackage without a version of the driver's form does not count."""
    if _OF_DRIVER.match(package.name) is None or "container" in package.name:
        return False
    return re.fullmatch(r"\d{3}\.\d+(?:\.\d+)?", package.upstream or "") is not None


CHECKS: tuple[Check, ...] = (supported, packages)
