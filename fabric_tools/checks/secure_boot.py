"""Secure Boot: will the next kernel accept the nvidia module?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.boot import cannot_tell, where
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import BootModule, MokKeys, NextBoot
from fabric_tools.models.system import SecureBoot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: How Canonical's own signing keys, which Ubuntu's kernels are built with, call themselves.
#: Precompiled linux-modules-nvidia packages are signed with them (packages.ubuntu.com).
_BUILT_IN = "Canonical Ltd."


@check(
    "boot.secure_boot",
    phases=(Phase.DRIVER,),
    title="with Secure Boot on, the next kernel's nvidia module is signed by a key it trusts",
    remedy="enrol the key that DKMS signs with (`mokutil --import /var/lib/dkms/mok.pub`, then "
    "confirm on the console at the next boot), or use precompiled modules that are signed",
)
def secure_boot(
    boot: NextBoot, state: SecureBoot | Missing, keys: MokKeys | Missing
) -> Iterator[Finding]:
    """A module without a signature, or signed by a key that is not enrolled, is refused at load:
    the node comes back without GPUs.

    Off, or started without EFI, anything loads. A module of Canonical's needs no enrolled key, the
    kernel has theirs built in; every other signer must be among the machine owner's keys. That
    there is no module at all is boot.module's finding.
    """
    if boot.next is None:
        yield cannot_tell(boot)
        return
    if isinstance(state, Missing):
        if boot.efi:
            yield unknown(NODE, state)
        else:
            actual = "started without EFI (no /sys/firmware/efi): no Secure Boot"
            yield Finding(NODE, Status.PASS, "off, or signed", actual, (where(boot, "efi"),))
        return
    if not state.enabled:
        actual = "Secure Boot is off" if state.efi else "no EFI: no Secure Boot"
        yield Finding(NODE, Status.PASS, "off, or signed", actual, (at(state, state.line),))
        return
    found = boot.next_one
    assert found is not None
    if found.module is None and found.module_note != "not found":
        proof = (where(boot, found.release),)
        actual = f"on; cannot tell the signer: {found.module_note}"
        yield Finding(NODE, Status.UNKNOWN, "signed", actual, proof, "run `modinfo nvidia`")
    elif found.module is None:
        proof = (where(boot, found.release),)
        actual = f"on; no module for {found.release} to be signed (see boot.module)"
        yield Finding(NODE, Status.PASS, "signed", actual, proof)
    else:
        yield _signature(boot, found.module, state, keys)


def _signature(
    boot: NextBoot, module: BootModule, state: SecureBoot, keys: MokKeys | Missing
) -> Finding:
    expected = "signed by a key that the kernel trusts (Secure Boot is on)"
    proof = (at(state, state.line), where(boot, boot.next or ""))
    if not module.signer:
        actual = f"{module.filename} is not signed"
        return Finding(NODE, Status.FAIL, expected, actual, proof)
    if module.signer.startswith(_BUILT_IN) and not module.dkms:
        actual = f"signed by {module.signer}, built into the kernel"
        return Finding(NODE, Status.PASS, expected, actual, proof)
    if isinstance(keys, Missing):
        return unknown(NODE, keys, expected)
    if module.signer in keys.lines:
        actual = f"signed by {module.signer}, which is enrolled"
        key = at(keys, keys.lines[module.signer])
        return Finding(NODE, Status.PASS, expected, actual, (*proof, key))
    shown = ", ".join(list(keys.lines)[:3]) or "none"
    actual = f"signed by {module.signer}, which is not enrolled (enrolled: {shown})"
    return Finding(NODE, Status.FAIL, expected, actual, (*proof, at(keys)))


CHECKS: tuple[Check, ...] = (secure_boot,)
