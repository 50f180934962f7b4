"""The driver: does it answer, and is it one version from kernel to fabric manager?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import (
    FabricManagerVersion,
    GpuFacts,
    GpuInventory,
    GpuRosters,
    KernelModules,
    LoadedModule,
    NvlinkStatus,
    NvmlGpu,
    NvmlInventory,
    SmiAnswer,
    SmiVersion,
)
from fabric_tools.models.platform import NvlinkSpec, Target
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
    "gpu_unreadable": "a GPU wants a reset: read dmesg, drain, `nvidia-smi -r` for all GPUs of the "
    "board, or reboot; RMA if it returns",
    "insufficient_permissions": "run as root, or fix the modes of /dev/nvidia*",
    "library_not_found": "install the driver's userspace of the same version as the module",
}
USERSPACE = "userspace"
FABRIC_MANAGER = "fabric manager"
#: One of them is not of the loaded module's version: what that explains, it explains alone.
OTHER_USERSPACE = f"driver.stack_match@{USERSPACE}"
OTHER_MANAGER = f"driver.stack_match@{FABRIC_MANAGER}"


@check(
    "driver.answers",
    phases=(Phase.DRIVER,),
    title="nvidia-smi can talk to the driver and to every GPU",
    remedy="read dmesg and the driver's packages",
    follows=("driver.stack_match",),
    waivable=False,  # without a driver that answers, no other verdict on a GPU means anything
)
def answers(answer: SmiAnswer) -> Iterator[Finding]:
    """An error text of nvidia-smi is an answer: it names the fault before any number is read.

    Every call of nvidia-smi counts: one that hangs, is refused or fails beside others that answer
    is no healthy driver. "Unable to determine the device handle" may stand before otherwise good
    output; it means that a GPU is lost.
    """
    good = answer.error is None
    yield Finding(
        NODE,
        Status.PASS if good else Status.FAIL,
        "answers",
        "answers" if good else f"{answer.error}: {answer.text}",
        (at(answer, answer.line),),
        remedy=_ANSWER_REMEDIES.get(answer.error or "", ""),
        because=(OTHER_USERSPACE,) if answer.error == "driver_library_mismatch" else (),
    )


@check(
    "driver.modules",
    phases=(Phase.DRIVER,),
    title="the nvidia module is loaded and nouveau is not",
    remedy="blacklist nouveau and rebuild the initramfs, reboot once; `modprobe nvidia`",
)
def modules(loaded: KernelModules, spec: Target | None) -> Iterator[Finding]:
    """nouveau binds the GPUs first and keeps the nvidia module from them.

    On HGX B200 and B300 the subnet manager of the NVLink switches (nvlsm) also needs ib_umad.
    """
    switches = spec is not None and spec.fabric.subnet_manager.value
    needed = ("nvidia", "ib_umad") if switches else ("nvidia",)
    expected = f"{', '.join(needed)} loaded, nouveau not"
    bad = "nouveau" in loaded.lines
    shown = [f"{name} {'loaded' if name in loaded.lines else 'not loaded'}" for name in needed]
    actual = f"{', '.join(shown)}, nouveau {'loaded' if bad else 'not'}"
    line = loaded.lines.get("nouveau" if bad else "nvidia", 0)
    good = all(name in loaded.lines for name in needed) and not bad
    status = Status.PASS if good else Status.FAIL
    yield Finding(NODE, status, expected, actual, (at(loaded, line),))


def _parts(spec: Target) -> tuple[str, ...]:
    return (USERSPACE, FABRIC_MANAGER) if spec.fabric.manager.value else (USERSPACE,)


@check(
    "driver.stack_match",
    phases=(Phase.DRIVER,),
    title="loaded module = userspace = fabric manager, to the last digit",
    remedy="run playbooks/20-driver.yml; or install one version of all three by hand, keep it so "
    "(holds or the pinning package, not both), then drain and reload the module or reboot",
    subjects=_parts,
)
def stack_match(
    module: LoadedModule | Missing,
    userspace: SmiVersion | Missing,
    manager: FabricManagerVersion | Missing,
    rosters: GpuRosters | Missing,
    spec: Target,
) -> Iterator[Finding]:
    """Compares the module that runs now with what is installed beside it, and with the version
    that nvidia-smi was told by the driver.

    Where the module's own file was not recorded, the version that the running driver told
    nvidia-smi stands for it. The full version must be equal, not the branch: 550.127.05 and 550.120
    do not work together. The module on disk says nothing: after an upgrade without a reload the old
    one still runs. With a mismatch the fabric manager refuses to start and CUDA answers 802 or 803.
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
    told = None if isinstance(rosters, Missing) else rosters.best.driver_version
    runs, where = told, at(rosters)
    if not isinstance(module, Missing):
        runs, where = module.version, at(module, module.line)
    elif module.recorded:
        runs = None
    for subject, part in parts:
        if runs is None:
            assert isinstance(module, Missing)
            yield unknown(subject, module, "the version of the loaded module")
        elif isinstance(part, Missing):
            yield unknown(subject, part, runs)
        else:
            found: dict[str, str | None]
            if isinstance(part, FabricManagerVersion):
                found = {"": part.version}
            else:
                found = {"nvidia-smi": part.smi_version, "NVML": part.nvml_version}
                found["driver"] = part.driver_version
                found["driver told by nvidia-smi"] = told
            versions = {name: text for name, text in found.items() if text is not None}
            good = all(
                _is_part_of(text, runs) if name == "NVML" else text == runs
                for name, text in versions.items()
            )
            yield Finding(
                subject,
                Status.PASS if good else Status.FAIL,
                f"{runs} (loaded module)",
                ", ".join(f"{name} {text}".strip() for name, text in versions.items()),
                (at(part, part.line), where),
                remedy,
            )


def _is_part_of(nvml: str, module: str) -> bool:
    """nvidia-smi prints NVML's version without the last part (550.107 of 550.107.02), the library
    itself behind the CUDA major (12.570.172.08).
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
def nvml_agrees(
    inventory: GpuInventory,
    nvml: NvmlInventory | Missing,
    links: NvlinkStatus | Missing,
    want: NvlinkSpec,
) -> Iterator[Finding]:
    """Two sources of the same facts must agree: driver, GPUs, ECC, row remap, PCIe, fabric state.

    On a platform that uses all NVLinks, one that NVML calls down fails, unless nvidia-smi calls it
    down too: then both agree, and nvlink.links names it. A call that NVML refuses
    for another reason than "Not Supported" is UNKNOWN; a lost GPU fails.

    A folder of outputs saved by hand has no NVML reading: that is a warning, not a proof.
    """
    expected = "the same in both"
    if isinstance(nvml, Missing):
        if nvml.recorded:
            yield unknown(NODE, nvml, expected)
        else:
            actual = "only nvidia-smi was recorded, nothing to compare with"
            remedy = "read the node with fabric-collect.pyz to have both"
            yield Finding(NODE, Status.WARN, expected, actual, (at(inventory),), remedy)
        return
    differ, refused = list(_differences(inventory, nvml, links, want)), _refusals(nvml)
    status = Status.FAIL if differ else Status.UNKNOWN if refused else Status.PASS
    actual = "; ".join((differ or refused)[:6]) or f"{len(nvml.gpus)} GPUs, {nvml.driver_version}"
    yield Finding(NODE, status, expected, actual, (at(nvml), at(inventory)))


#: What NVML answers for something that this GPU or library does not have.
_NO_SUCH_THING = ("Not Supported", "Function Not Found")
_LOST = ("GPU is lost", "GPU requires restart", "GPU requires reset")


def _differences(
    inventory: GpuInventory,
    nvml: NvmlInventory,
    status: NvlinkStatus | Missing,
    want: NvlinkSpec,
) -> Iterator[str]:
    if inventory.driver_version != nvml.driver_version:
        yield f"driver {inventory.driver_version} and {nvml.driver_version}"
    library, driver = nvml.nvml_version, nvml.driver_version
    if library and driver and not _is_part_of(library, driver):
        yield f"NVML library {library}"
    if nvml.count != len(inventory.gpus):
        yield f"{len(inventory.gpus)} GPUs and {nvml.count}"
    for refusal in nvml.errors:
        if any(word in refusal.error for word in _LOST):
            yield f"NVML on GPU {refusal.gpu}: {refusal.error}"
    for gpu in nvml.gpus:
        if not gpu.reachable:
            yield f"NVML cannot reach GPU {gpu.index}"
        links = gpu.nvlinks_active or ()
        few = False in links and links.count(True) < want.links_per_gpu.value
        if few and links.count(False) > _links_down(status, gpu.index):
            yield f"NVML calls {links.count(False)} NVLinks of GPU {gpu.index} down"
    smi = {gpu.uuid: gpu for gpu in inventory.gpus}
    lib = {gpu.uuid: gpu for gpu in nvml.gpus if gpu.reachable}
    for uuid in sorted(smi.keys() ^ lib.keys(), key=str):
        yield f"{uuid} only in {'nvidia-smi' if uuid in smi else 'NVML'}"
    for uuid in sorted(smi.keys() & lib.keys(), key=str):
        for name, (mine, theirs) in _pairs(smi[uuid], lib[uuid]).items():
            if mine is not None and theirs is not None and mine != theirs:
                yield f"{uuid}: {name} {mine} and {theirs}"


def _links_down(status: NvlinkStatus | Missing, index: int) -> int:
    """How many links of one GPU `nvidia-smi nvlink -s` shows down; 0 where it does not tell."""
    shown = () if isinstance(status, Missing) else status.gpus
    return sum(link.gbytes_s is None for gpu in shown if gpu.index == index for link in gpu.links)


def _pairs(smi: GpuFacts, nvml: NvmlGpu) -> dict[str, tuple[object, object]]:
    """What both sources tell of one GPU, in the same form."""
    ecc, rows, now = nvml.ecc_mode, nvml.remapped_rows, smi.ecc_volatile
    words = {True: "Enabled", False: "Disabled"}
    flag = {True: "Yes", False: "No"}
    total = None
    if now.sram_uncorrectable is not None and now.dram_uncorrectable is not None:
        total = now.sram_uncorrectable + now.dram_uncorrectable
    return {
        "product": (smi.product, nvml.product),
        "PCI id": (smi.pci_device_id, nvml.pci_device_id),
        "fabric": (smi.fabric.state, nvml.fabric_state),
        "ECC": (smi.ecc_mode_current, ecc and words[ecc[0]]),
        "uncorrectable errors": (total, nvml.ecc_volatile_uncorrectable),
        "remap pending": (smi.remap_pending, rows and flag[bool(rows[2])]),
        "remap failed": (smi.remap_failure, rows and flag[bool(rows[3])]),
        "PCIe width": (smi.pcie_width_current, nvml.pcie_width_current),
    }


def _refusals(nvml: NvmlInventory) -> list[str]:
    """Calls that failed for another reason than that there is no such thing."""
    return [
        f"GPU {refusal.gpu} {refusal.field}: {refusal.error}"
        for refusal in nvml.errors
        if not any(word in refusal.error for word in _NO_SUCH_THING)
    ]


CHECKS: tuple[Check, ...] = (answers, modules, stack_match, nvml_agrees)
