"""What stands on the PCI bus: seen before any driver is installed."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, every_gpu, gpu
from fabric_tools.models.facts import PciDevice, PciDevices
from fabric_tools.models.platform import FabricSpec, GpuSpec, Target
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_NO_IDS = "lspci printed no numeric ids; record it as `lspci -D -nn -vv`"


def gpus_on_bus(pci: PciDevices) -> list[PciDevice]:
    """NVIDIA display controllers (PCI class 03xx), in bus order."""
    return [
        device
        for device in pci.devices
        if (device.device_class or "").startswith("03")
        and (device.vendor_device or "").startswith("10de:")
    ]


def _has_ids(pci: PciDevices) -> bool:
    return any(device.vendor_device for device in pci.devices)


def _addresses(devices: list[PciDevice]) -> str:
    return ", ".join(device.bus_id for device in devices) or "none"


@check(
    "pci.gpu_count",
    phases=(Phase.PREFLIGHT,),
    title="every GPU is on the PCI bus, and of the right model",
    remedy="power the node off fully and on; if the GPU stays away, reseat it or call the vendor",
)
def gpu_count(pci: PciDevices, want: GpuSpec) -> Iterator[Finding]:
    """Counts display controllers of NVIDIA by exact PCI id.

    A GPU that fell off the bus is still listed until the next boot, but reads as all ones ("rev
    ff"); after a boot it is missing. nvidia-smi then numbers the remaining ones 0-6 without a gap.
    """
    models = want.models.value
    expected = f"{want.number} x {' or '.join(models)}"
    if not _has_ids(pci):
        yield Finding(NODE, Status.UNKNOWN, expected, _NO_IDS, (at(pci),))
        return
    found = gpus_on_bus(pci)
    silent = [device for device in found if not device.answers]
    alive = [device for device in found if device.answers]
    right = [device for device in alive if device.vendor_device in models]
    other = [device for device in alive if device not in right]
    ids = sorted({device.vendor_device or "" for device in right})
    actual = f"{len(right)} x {' and '.join(ids) or expected}: {_addresses(right)}"
    if other:
        actual += "; other: " + ", ".join(f"{d.bus_id} {d.vendor_device}" for d in other)
    if silent:
        actual += f"; does not answer (rev ff): {_addresses(silent)}"
    good = len(right) == want.number and len(ids) == 1 and not other and not silent
    evidence = tuple(at(pci, device.line) for device in (silent or other or right)[:1])
    yield Finding(NODE, Status.PASS if good else Status.FAIL, expected, actual, evidence)


def no_switches(spec: Target) -> str:
    """Why a check about NVSwitches does not apply, or nothing."""
    count = spec.fabric.nvswitch_count
    return f"no NVSwitch on this platform ({count.source})" if count.value == 0 else ""


@check(
    "pci.nvswitch_count",
    phases=(Phase.PREFLIGHT,),
    title="every NVSwitch is on the PCI bus",
    remedy="power cycle; in a VM pass every NVSwitch through; else call the vendor",
    not_applicable=no_switches,
)
def nvswitch_count(pci: PciDevices, want: FabricSpec) -> Iterator[Finding]:
    """Counts NVSwitches by exact PCI id.

    With one missing the fabric manager aborts ("number of NVSwitches don't match with any
    supported system topology") and no CUDA program starts (error 802).
    """
    expected = f"{want.nvswitch_count.value} x {want.nvswitch_pci_id.value}"
    if not _has_ids(pci):
        yield Finding(NODE, Status.UNKNOWN, expected, _NO_IDS, (at(pci),))
        return
    listed = [d for d in pci.devices if d.vendor_device == want.nvswitch_pci_id.value]
    found = [device for device in listed if device.answers]
    silent = [device for device in listed if not device.answers]
    good = len(found) == want.nvswitch_count.value and not silent
    actual = f"{len(found)} x {want.nvswitch_pci_id.value}: {_addresses(found)}"
    if silent:
        actual += f"; does not answer (rev ff): {_addresses(silent)}"
    evidence = tuple(at(pci, device.line) for device in found[:1]) or (at(pci),)
    yield Finding(NODE, Status.PASS if good else Status.FAIL, expected, actual, evidence)


@check(
    "pci.gpu_link",
    phases=(Phase.PREFLIGHT,),
    title="every GPU has its full PCIe link",
    remedy="reseat the GPU or its riser; compare the BIOS link settings with a good node",
    subjects=every_gpu,
)
def gpu_link(pci: PciDevices, want: GpuSpec) -> Iterator[Finding]:
    """Width must be the platform's now; speed only as the link's capability.

    A GPU lowers the speed of an idle link to save power ("2.5GT/s (downgraded)"), so the current
    speed proves nothing at idle. The width does not change with load: x8 of x16 is a fault.
    GPUs are numbered in bus order, as nvidia-smi does.
    """
    expected = f"capable of {want.pcie_gt_s.value:g} GT/s x{want.pcie_width.value}, "
    expected += f"now x{want.pcie_width.value}"
    found = gpus_on_bus(pci)
    if not _has_ids(pci):
        for index in range(want.number):
            yield Finding(gpu(index), Status.UNKNOWN, expected, _NO_IDS, (at(pci),))
        return
    for index in range(want.number):
        if index >= len(found):
            remedy = "find the lost GPU first: see pci.gpu_count"
            yield Finding(
                gpu(index), Status.UNKNOWN, expected, "not on the bus", (at(pci),), remedy
            )
            continue
        yield _link(pci, gpu(index), found[index], want, expected)


def _link(
    pci: PciDevices, subject: str, device: PciDevice, want: GpuSpec, expected: str
) -> Finding:
    evidence = (at(pci, device.link_line or device.line),)
    if not device.answers:
        return Finding(
            subject,
            Status.FAIL,
            expected,
            f"{device.bus_id}: does not answer (rev ff), it has fallen off the bus",
            evidence,
            "read dmesg for Xid 79; drain and reboot; RMA if it returns",
        )
    if device.link_cap_gt_s is None or device.link_sta_width is None:
        why = "access denied (run as root)" if device.access_denied else "no link lines (use -vv)"
        return Finding(subject, Status.UNKNOWN, expected, f"{device.bus_id}: {why}", evidence)
    actual = f"{device.bus_id}: capable of {device.link_cap_gt_s:g} GT/s "
    actual += f"x{device.link_cap_width}, now x{device.link_sta_width}"
    status = Status.PASS
    if device.link_cap_gt_s != want.pcie_gt_s.value:
        status = want.pcie_gen.differs
    if {device.link_cap_width, device.link_sta_width} != {want.pcie_width.value}:
        status = want.pcie_width.differs
    if (device.link_sta_width or 0) < (device.link_cap_width or 0):
        status = Status.FAIL
    return Finding(subject, status, expected, actual, evidence)


CHECKS: tuple[Check, ...] = (gpu_count, nvswitch_count, gpu_link)
