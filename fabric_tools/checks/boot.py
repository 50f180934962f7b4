"""The next boot: would this node come back as the one that was proved?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.packages import driver_version, is_of_driver
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import BootKernel, NextBoot
from fabric_tools.models.facts import LoadedModule
from fabric_tools.models.system import DkmsModule, DkmsStatus, Packages
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


def where(boot: NextBoot, key: str) -> Evidence:
    """Evidence at one key, or at one kernel, of the collector's answer."""
    return at(boot, boot.lines.get(key, 0))


def cannot_tell(boot: NextBoot, expected: str = "") -> Finding:
    """The finding where nobody knows which kernel boots next."""
    remedy = "find out which entry the boot loader takes (grub.cfg, grubenv, bootctl) and make it "
    remedy += "one that can be told: GRUB_DEFAULT=0 or a saved entry"
    return Finding(NODE, Status.UNKNOWN, expected, boot.how, (where(boot, "how"),), remedy)


@check(
    "boot.kernel",
    phases=(Phase.BASE, Phase.DRIVER),
    title="the kernel that boots next is the one that runs",
    remedy="drain and reboot now, under control, then prove the node again; hold the kernel's "
    "packages so that it does not move by itself",
)
def kernel(boot: NextBoot) -> Iterator[Finding]:
    """What was proved is proved for the running kernel. Which one boots next is read from the boot
    loader's own menu and environment; "cannot tell" is UNKNOWN, never the newest by guess.

    Its image and its initramfs must be there. A pending reboot counts where a kernel package asked
    for it, or where nobody says who did.
    """
    if boot.next is None:
        yield cannot_tell(boot, boot.running)
        return
    found = boot.next_one
    assert found is not None
    wrong: list[str] = []
    if found.release != boot.running:
        wrong.append(f"{found.release} boots next ({boot.how})")
    if found.image is None:
        wrong.append(f"no image of {found.release} in /boot")
    if found.initramfs is None:
        wrong.append(f"no initramfs of {found.release} in /boot")
    asked = boot.reboot_required
    if asked is not None and (not asked or any(name.startswith("linux-") for name in asked)):
        wrong.append(f"a reboot is pending for {', '.join(asked[:4]) or 'a reason not told'}")
    status = Status.FAIL if wrong else Status.PASS
    actual = "; ".join(wrong) or f"{found.release} ({boot.how})"
    proof = (where(boot, "next"), where(boot, "reboot_required"))
    yield Finding(NODE, status, f"{boot.running} (running)", actual, proof)


@check(
    "boot.headers",
    phases=(Phase.DRIVER,),
    title="DKMS can build the driver for the kernel that boots next",
    remedy="install linux-headers-KERNEL (Debian, Ubuntu) or kernel-devel-KERNEL (RHEL) of exactly "
    "that kernel",
)
def headers(boot: NextBoot, installed: Packages | Missing) -> Iterator[Finding]:
    """Headers are needed where DKMS builds the module: by where its file lies, or because a DKMS
    package of the driver is installed. A precompiled module needs none.

    Without headers the next driver package installs and builds nothing, and a new kernel comes up
    without GPUs.
    """
    if boot.next is None:
        yield cannot_tell(boot)
        return
    found = boot.next_one
    assert found is not None
    proof = (where(boot, found.release),)
    if found.headers:
        yield Finding(NODE, Status.PASS, "headers", f"{found.release}: there", proof)
        return
    if isinstance(installed, Missing):
        yield unknown(NODE, installed, "whether the driver is built by DKMS")
        return
    by_dkms = [p.name for p in installed.installed() if "dkms" in p.name and is_of_driver(p)]
    if found.module is not None and found.module.dkms:
        by_dkms.append(found.module.filename)
    expected = f"headers of {found.release}"
    if by_dkms:
        actual = f"no headers of {found.release}, and DKMS builds the module ({by_dkms[0]})"
        yield Finding(NODE, Status.FAIL, expected, actual, proof)
    elif found.module is not None:
        actual = f"precompiled module, no headers needed: {found.module.filename}"
        yield Finding(NODE, Status.PASS, "headers where DKMS builds the module", actual, proof)
    else:
        actual = "no package of the driver is built by DKMS, no headers needed (see boot.module)"
        yield Finding(NODE, Status.PASS, "headers where DKMS builds the module", actual, proof)


@check(
    "boot.module",
    phases=(Phase.DRIVER,),
    title="the kernel that boots next has the nvidia module of the installed driver",
    remedy="`dkms install nvidia/VERSION -k KERNEL`, or the linux-modules-nvidia package of that "
    "kernel; read dkms' make.log where it does not build",
)
def module(
    boot: NextBoot,
    dkms: DkmsStatus | Missing,
    installed: Packages | Missing,
    loaded: LoadedModule | Missing,
) -> Iterator[Finding]:
    """The module file that ``modinfo -k KERNEL`` finds, and what DKMS says of it.

    Its version is compared with the installed driver packages, not with the loaded module: after an
    upgrade without a reload the next boot is right, and driver.stack_match names what runs. Where
    the next kernel is the running one, another version of the file is driver.packages' finding and
    only a warning here. A module of DKMS must be "installed": "added" and "built" are not there at
    the next boot, and "Diff between built and installed module" means that what lies there is not
    what DKMS built.
    """
    if boot.next is None:
        yield cannot_tell(boot)
        return
    found = boot.next_one
    assert found is not None
    version = None if isinstance(installed, Missing) else driver_version(installed)
    if version is None and not isinstance(loaded, Missing):
        version = loaded.version
    expected = f"nvidia {version or 'of the installed driver'} for {found.release}"
    proof = (where(boot, found.release),)
    if found.module is None:
        if found.module_note != "not found":
            actual = f"cannot tell: {found.module_note}"
            yield Finding(NODE, Status.UNKNOWN, expected, actual, proof, "run `modinfo nvidia`")
            return
        actual = f"no nvidia module for {found.release}{_dkms_says(found, dkms)}"
        yield Finding(NODE, Status.FAIL, expected, actual, proof)
    elif version is None:
        lost = installed if isinstance(installed, Missing) else loaded
        assert isinstance(lost, Missing)
        yield unknown(NODE, lost, expected)
    else:
        yield _module_file(boot, found, version, dkms)


def _module_file(
    boot: NextBoot, found: BootKernel, version: str, dkms: DkmsStatus | Missing
) -> Finding:
    expected = f"nvidia {version} for {found.release}"
    proof = (where(boot, found.release),)
    assert found.module is not None
    actual = f"{found.module.version}: {found.module.filename}"
    if found.module.version != version:
        named = found.release == boot.running
        actual += " (named by driver.packages)" if named else ""
        return Finding(NODE, Status.WARN if named else Status.FAIL, expected, actual, proof)
    if not found.module.dkms:
        return Finding(NODE, Status.PASS, expected, f"{actual} (precompiled)", proof)
    if isinstance(dkms, Missing):
        return unknown(NODE, dkms, expected)
    row = _row(found, dkms)
    good = row is not None and row.state.startswith("installed") and "Diff" not in (row.note or "")
    actual += _dkms_says(found, dkms)
    status = Status.PASS if good else Status.FAIL
    return Finding(NODE, status, expected, actual, (*proof, at(dkms, row.line if row else 0)))


def _row(found: BootKernel, dkms: DkmsStatus) -> DkmsModule | None:
    """What DKMS says of this kernel's module, or of the version that the file has."""
    rows = [m for m in dkms.modules if m.name.startswith("nvidia")]
    version = found.module.version if found.module else None
    mine = [m for m in rows if m.kernel == found.release and version in (None, m.version)]
    added = [m for m in rows if m.kernel is None and version in (None, m.version)]
    return next(iter(mine or added), None)


def _dkms_says(found: BootKernel, dkms: DkmsStatus | Missing) -> str:
    if isinstance(dkms, Missing):
        return ""
    row = _row(found, dkms)
    if row is None:
        return f"; dkms knows none for {found.release}"
    return f"; dkms: {row.version} {row.state}{f' ({row.note})' if row.note else ''}"


@check(
    "boot.nouveau",
    phases=(Phase.DRIVER,),
    title="nouveau cannot take the GPUs at the next boot",
    remedy="`blacklist nouveau` and `options nouveau modeset=0` in /etc/modprobe.d/NAME.conf, then "
    "`update-initramfs -u` (Debian, Ubuntu) or `dracut -f` (RHEL)",
)
def nouveau(boot: NextBoot) -> Iterator[Finding]:
    """The modprobe configuration must forbid it, also inside the next kernel's initramfs where
    nouveau lies in there: that one is read first. That nouveau is loaded now is driver.modules'
    finding.
    """
    if boot.next is None:
        yield cannot_tell(boot)
        return
    expected = "blacklisted, also in the initramfs"
    forbids = [conf for conf in boot.modprobe if conf.forbids]
    proof = (where(boot, "modprobe"), where(boot, "initramfs"))
    inside = boot.initramfs
    names = {conf.file.rpartition("/")[2] for conf in forbids}
    if not forbids:
        actual = "nothing in the modprobe configuration forbids nouveau"
        yield Finding(NODE, Status.FAIL, expected, actual, proof)
    elif inside.path is None:
        actual = f"blacklisted in {forbids[0].file}; no initramfs to look into (see boot.kernel)"
        yield Finding(NODE, Status.PASS, expected, actual, proof)
    elif inside.nouveau is None:
        remedy = f"list {inside.path} with lsinitramfs (initramfs-tools) or lsinitrd (dracut)"
        yield Finding(NODE, Status.UNKNOWN, expected, inside.note, proof, remedy)
    elif inside.nouveau and not names & set(inside.conf):
        actual = f"nouveau is in {inside.path}, the blacklist ({forbids[0].file}) is not"
        yield Finding(NODE, Status.FAIL, expected, actual, proof)
    else:
        shown = "in the initramfs with the blacklist" if inside.nouveau else "not in the initramfs"
        actual = f"blacklisted in {forbids[0].file}; {shown}"
        yield Finding(NODE, Status.PASS, expected, actual, proof)


CHECKS: tuple[Check, ...] = (kernel, headers, module, nouveau)
