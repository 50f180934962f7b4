"""Can a CUDA program start at all?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabric_tools.checks.driver import OTHER_USERSPACE
from fabric_tools.checks.fabric import REGISTERS_S
from fabric_tools.checks.gpu import LOST_GPU, because_lost
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import CudaInit, GpuRosters, PciDevices
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_RECORD = (
    "read the node with fabric-collect.pyz, which asks the CUDA library: cuda_init (cuda_init.json)"
)
_CUDA_REMEDIES = {
    802: "the NVSwitch fabric is not ready: see fabric.manager and fabric.state; in a virtual "
    "machine that was given single GPUs it is the host that has to register them",
    803: "library and loaded module are of different versions: see driver.stack_match",
    100: "no device: see driver.answers and the kernel log",
    999: "read dmesg for Xid; drain, reset the GPUs or reboot",
}
#: What makes CUDA answer so. A manager that something keeps down is itself explained by that.
_CAUSES = {802: ("fabric.manager",), 803: (OTHER_USERSPACE,)}


@check(
    "cuda.init",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="a CUDA program can start and sees every GPU",
    remedy="read dmesg and the fabric manager's journal; drain and reboot",
    follows=(*LOST_GPU, "driver.stack_match", "fabric.manager"),
)
def cuda_init(
    cuda: CudaInit | Missing,
    rosters: GpuRosters | Missing,
    pci: PciDevices | Missing,
    spec: Target | None,
) -> Iterator[Finding]:
    """``cuInit`` and the number of devices it then finds, from the driver's own library.

    nvidia-smi lists every GPU as healthy while the fabric is not ready and each CUDA program ends
    with error 802. A100 reports no fabric state at all: there this call is the only witness, so a
    folder of outputs without it is UNKNOWN, elsewhere a warning.
    """
    expected = f"cuInit 0, {spec.gpu.number} devices" if spec else "cuInit 0"
    if isinstance(cuda, Missing):
        # By the switches of the board: of a part of it they and their manager count as elsewhere.
        alone = (
            spec is not None
            and spec.fabric.nvswitch_pci_id.value is not None
            and not spec.fabric.reports_state.value
        )
        if cuda.recorded:
            yield unknown(NODE, cuda, expected)
        elif alone:
            yield replace(unknown(NODE, cuda, expected), remedy=_RECORD)
        else:
            remedy = "read the node with fabric-collect.pyz, which asks the CUDA library"
            actual = "no CUDA call was recorded"
            yield Finding(NODE, Status.WARN, expected, actual, (at(cuda),), remedy)
        return
    here = (at(cuda, cuda.line),)
    if cuda.code != 0:
        number = f"error {cuda.code}" if cuda.code is not None else "an error"
        actual = ": ".join(part for part in (number, cuda.name or cuda.text) if part)
        remedy = _CUDA_REMEDIES.get(cuda.code or 0, "")
        causes = _CAUSES.get(cuda.code or 0, ())
        # While the GPUs register with the fabric CUDA answers 802, on a healthy node as well.
        settles_s = REGISTERS_S if cuda.code == 802 else 0
        yield Finding(NODE, Status.FAIL, expected, actual, here, remedy, causes, settles_s)
        return
    actual = f"cuInit 0, {cuda.devices} devices"
    if spec is None or cuda.devices == spec.gpu.number:
        yield Finding(NODE, Status.PASS, expected, actual, here)
    else:
        because = because_lost(cuda.devices or 0, rosters, pci)
        yield Finding(NODE, Status.FAIL, expected, actual, here, because=because)


CHECKS: tuple[Check, ...] = (cuda_init,)
