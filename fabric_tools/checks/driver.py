"""The driver: does it answer, and is it one version from kernel to fabric manager?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import (
    FabricManagerVersion,
    GpuInventory,
    KernelModules,
    LoadedModule,
    NvmlInventory,
    SmiAnswer,
    SmiVersion,
)
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_ANSWER_REMEDIES = {
    "driver_library_mismatch": "packages were upgraded under the loaded module: drain the node, "
    "then reload the module or reboot; hold the packages",
    "driver_not_loaded": "modprobe nvidia, read dmesg; after a kernel upgrade the module may not "
    "be built for the running kernel",
    "no_devices": "the module drives no GPU: read dmesg for a probe that failed",
    "gpu_lost": "a GPU no longer answers: read dmesg for Xid 79, drain, reboot; RMA if it returns",
    "insufficient_permissions": "run as root, or fix the modes of /dev/nvidia*",
    "library_not_found": "install the driver's userspace of the same version as the module",
}


@check(
    "driver.answers",
    phases=(Phase.DRIVER,),
    title="nvidia-smi can talk to the driver and to every GPU",
    remedy="read dmesg and the driver's packages",
)
def answers(answer: SmiAnswer) -> Iterator[Finding]:
    """An error text of nvidia-smi is an answer: it names the fault before any number is read.

    "Unable to determine the device handle" may stand before otherwise good output; it means that
    a GPU is lost.
    """
    good = answer.error is None
    yield Finding(
        NODE,
        Status.PASS if good else Status.FAIL,
        "answers",
        "answers" if good else f"{answer.error}: {answer.text}",
        (at(answer, answer.line),),
        remedy=_ANSWER_REMEDIES.get(answer.error or "", ""),
    )


@check(
    "driver.modules",
    phases=(Phase.DRIVER,),
    title="the nvidia module is loaded and nouveau is not",
    remedy="blacklist nouveau and rebuild the initramfs, reboot once; `modprobe nvidia`",
)
def modules(loaded: KernelModules) -> Iterator[Finding]:
    """nouveau binds the GPUs first and keeps the nvidia module from them."""
    expected = "nvidia loaded, nouveau not"
    has, bad = "nvidia" in loaded.lines, "nouveau" in loaded.lines
    actual = f"nvidia {'loaded' if has else 'not loaded'}, nouveau {'loaded' if bad else 'not'}"
    line = loaded.lines.get("nouveau" if bad else "nvidia", 0)
    status = Status.PASS if has and not bad else Status.FAIL
    yield Finding(NODE, status, expected, actual, (at(loaded, line),))


USERSPACE = "userspace"
FABRIC_MANAGER = "fabric manager"


def _parts(spec: PlatformSpec) -> tuple[str, ...]:
    return (USERSPACE, FABRIC_MANAGER) if spec.fabric.manager.value else (USERSPACE,)


@check(
    "driver.stack_match",
    phases=(Phase.DRIVER,),
    title="loaded module = userspace = fabric manager, to the last digit",
    remedy="install one version of all three (and hold them), then reload the module or reboot",
    subjects=_parts,
)
def stack_match(
    module: LoadedModule | Missing,
    userspace: SmiVersion | Missing,
    manager: FabricManagerVersion | Missing,
    spec: PlatformSpec,
) -> Iterator[Finding]:
    """Compares the module that runs now with what is installed beside it.

    The full version must be equal, not the branch: 550.127.05 and 550.120 do not work together.
    The module on disk says nothing: after an upgrade without a reload the old one still runs. With
    a mismatch the fabric manager refuses to start and CUDA answers 802 or 803.
    """
    parts: list[tuple[str, SmiVersion | FabricManagerVersion | Missing]] = [(USERSPACE, userspace)]
    if spec.fabric.manager.value:
        parts.append((FABRIC_MANAGER, manager))
    remedy = ""
    installed = {
        fact.smi_version if isinstance(fact, SmiVersion) else fact.version
        for fact in (userspace, manager)
        if not isinstance(fact, Missing)
    }
    if len(parts) == 2 and len(installed) == 1:
        remedy = "the packages agree, only the loaded module is another: drain, then reload the "
        remedy += "module or reboot; hold the packages"
    for subject, part in parts:
        if isinstance(module, Missing):
            yield unknown(subject, module, "the version of the loaded module")
        elif isinstance(part, Missing):
            yield unknown(subject, part, module.version)
        else:
            version = part.smi_version if isinstance(part, SmiVersion) else part.version
            good = version == module.version
            if isinstance(part, SmiVersion) and part.nvml_version is not None:
                good = good and _is_part_of(part.nvml_version, module.version)
                version = f"{version} (NVML {part.nvml_version})"
            yield Finding(
                subject,
                Status.PASS if good else Status.FAIL,
                f"{module.version} (loaded module)",
                version,
                (at(part, part.line), at(module, module.line)),
                remedy,
            )


def _is_part_of(nvml: str, module: str) -> bool:
    """nvidia-smi prints NVML's version without the last part (550.107 of 550.107.02); the library
    itself may print it behind a CUDA major (12.570.172.08).
    """
    parts, whole = nvml.split("."), module.split(".")
    return parts == whole[: len(parts)] or parts[1:] == whole[: len(parts) - 1]


@check(
    "driver.nvml_agrees",
    phases=(Phase.DRIVER,),
    title="the NVML library and nvidia-smi tell the same",
    remedy="two versions of the library are installed, or the node changed while it was read: "
    "collect again, then look for a second libnvidia-ml.so.1",
)
def nvml_agrees(inventory: GpuInventory, nvml: NvmlInventory | Missing) -> Iterator[Finding]:
    """Two sources of the same facts must agree on driver, GPUs and fabric state.

    A folder of outputs saved by hand has no NVML reading: that is a warning, not a proof.
    """
    expected = "the same driver, GPUs and fabric state"
    if isinstance(nvml, Missing):
        if nvml.recorded:
            yield unknown(NODE, nvml, expected)
        else:
            actual = "only nvidia-smi was recorded, nothing to compare with"
            remedy = "read the node with fabric-collect.pyz to have both"
            yield Finding(NODE, Status.WARN, expected, actual, (at(inventory),), remedy)
        return
    differ = list(_differences(inventory, nvml))
    status = Status.FAIL if differ else Status.PASS
    actual = "; ".join(differ) or f"{len(nvml.gpus)} GPUs, {nvml.driver_version}"
    yield Finding(NODE, status, expected, actual, (at(nvml), at(inventory)))


def _differences(inventory: GpuInventory, nvml: NvmlInventory) -> Iterator[str]:
    if inventory.driver_version != nvml.driver_version:
        yield f"driver {inventory.driver_version} and {nvml.driver_version}"
    for gpu in nvml.gpus:
        if not gpu.reachable:
            yield f"NVML cannot reach GPU {gpu.index}"
    smi = {gpu.uuid: gpu for gpu in inventory.gpus}
    lib = {gpu.uuid: gpu for gpu in nvml.gpus if gpu.reachable}
    for uuid in sorted(str(u) for u in smi.keys() ^ lib.keys()):
        yield f"{uuid} only in {'nvidia-smi' if uuid in smi else 'NVML'}"
    for uuid in sorted(str(u) for u in smi.keys() & lib.keys()):
        mine, theirs = smi[uuid].fabric.state, lib[uuid].fabric_state
        if mine and theirs and mine != theirs:
            yield f"{uuid}: fabric {mine} and {theirs}"


CHECKS: tuple[Check, ...] = (answers, modules, stack_match, nvml_agrees)
