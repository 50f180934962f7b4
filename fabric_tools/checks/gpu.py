"""Each GPU as the driver sees it: there, whole, and without memory or link faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, every_gpu, gpu
from fabric_tools.models.facts import (
    GpuFacts,
    GpuInventory,
    GpuRoster,
    GpuRosters,
    PciDevice,
    PciDevices,
)
from fabric_tools.models.platform import GpuSpec
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

Judgement = tuple[Status, str, str]  # status, actual, remedy


def each(
    inventory: GpuInventory, want: GpuSpec, expected: str, judge: Callable[[GpuFacts], Judgement]
) -> Iterator[Finding]:
    """One finding for each GPU the platform lists; a GPU that is not there cannot be judged."""
    for index in range(want.number):
        if index >= len(inventory.gpus):
            there = f"{len(inventory.gpus)} of {want.number} are there"
            actual = f"no GPU has this number: {there}, and numbers close up over a lost one"
            remedy = "which one is lost: see gpu.count and pci.gpu_count"
            yield Finding(gpu(index), Status.UNKNOWN, expected, actual, (at(inventory),), remedy)
            continue
        facts = inventory.gpus[index]
        status, actual, remedy = judge(facts)
        yield Finding(
            gpu(index),
            status,
            expected,
            f"{facts.bus_id}: {actual}",
            (at(inventory, facts.line),),
            remedy,
        )


@check(
    "gpu.count",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="the driver sees every GPU",
    remedy="read dmesg for Xid 79 and compare the bus addresses with lspci; drain and reboot",
    follows=("pci.gpu_count",),
)
def count(rosters: GpuRosters, pci: PciDevices | Missing, want: GpuSpec) -> Iterator[Finding]:
    """How many GPUs every list of GPUs that was recorded has (``-q``, the plain table, ``-L``, CSV,
    DCGM), and the tool's own "Attached GPUs".

    Where the tool's own count differs, only some GPUs were asked (``-i``): that is not the whole
    node. Two lists that differ are a fault of their own. Indices close up over a lost GPU, so its
    address is taken from lspci where that was recorded.
    """
    expected = f"{want.number}"
    whole = [roster for roster in rosters.rosters if roster.complete]
    evidence = tuple(at(r, r.gpus[0].line if r.gpus else 0) for r in rosters.rosters[:2])
    if not whole:
        actual = f"{len(rosters.best.gpus)} in an excerpt; record the whole of it"
        yield Finding(NODE, Status.UNKNOWN, expected, actual, evidence)
        return
    for roster in whole:
        if roster.attached_gpus not in (None, len(roster.gpus)):
            actual = f"{roster.attached_gpus} attached but {len(roster.gpus)} described"
            actual += "; record all of them"
            yield Finding(NODE, Status.UNKNOWN, expected, actual, (at(roster),))
            return
    numbers = {len(roster.gpus) for roster in whole}
    if len(numbers) > 1:
        actual = ", ".join(f"{len(roster.gpus)} in {roster.probe}" for roster in whole)
        yield Finding(NODE, Status.FAIL, expected, f"{actual}: they differ", evidence)
        return
    found = whole[0]
    names = [g.bus_id or g.product or "?" for g in found.gpus]
    actual = f"{len(found.gpus)}: {', '.join(names)}"
    status = Status.PASS if len(found.gpus) == want.number else Status.FAIL
    lost, extra = _missing_on_bus(found, pci)
    if lost or extra:
        status = Status.FAIL
    if lost and not isinstance(pci, Missing):
        actual += "; on the bus but not here: " + ", ".join(d.bus_id for d in lost)
        evidence += tuple(at(pci, device.line) for device in lost[:2])
    if extra:
        actual += "; here but not on the bus: " + ", ".join(extra)
    # The driver has all that is on the bus, and the bus has too few.
    all_of_them = not isinstance(pci, Missing) and len(gpus_on_bus(pci)) == len(found.gpus)
    because = ("pci.gpu_count",) if all_of_them and not lost and not extra else ()
    yield Finding(NODE, status, expected, actual, evidence, because=because)


#: Of which a fault may be why somebody counts fewer GPUs than there should be.
LOST_GPU = ("pci.gpu_count", "gpu.count")


def because_lost(
    number: int, rosters: GpuRosters | Missing, pci: PciDevices | Missing
) -> tuple[str, ...]:
    """What explains that somebody counts ``number`` GPUs: as many as the driver has, or the bus.

    Whoever lacks more of them than those two has lost them by a fault of its own.
    """
    driver = not isinstance(rosters, Missing) and len(rosters.best.gpus) == number
    bus = not isinstance(pci, Missing) and len(gpus_on_bus(pci)) == number
    return LOST_GPU if driver or bus else ()


def _missing_on_bus(
    roster: GpuRoster, pci: PciDevices | Missing
) -> tuple[list[PciDevice], list[str]]:
    """GPUs that only lspci lists, and addresses that only the driver lists."""
    seen = {short(g.bus_id) for g in roster.gpus if g.bus_id}
    if isinstance(pci, Missing) or not seen or not gpus_on_bus(pci):
        return [], []
    bus = {short(device.bus_id) for device in gpus_on_bus(pci)}
    lost = [device for device in gpus_on_bus(pci) if short(device.bus_id) not in seen]
    return lost, sorted(seen - bus)


def short(bus_id: str) -> str:
    """nvidia-smi writes 8 digits of PCI domain, lspci 4: compare without leading zeros."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


@check(
    "gpu.identity",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every GPU is the platform's model and there once",
    remedy="a foreign GPU was fitted, or the wrong platform is declared",
    subjects=every_gpu,
)
def identity(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Product name and PCI id must be one of the platform file's, and with the VBIOS the same for
    all GPUs; every UUID must be there once.
    """
    uuids = Counter(g.uuid for g in inventory.gpus)
    kinds = Counter(g.pci_device_id for g in inventory.gpus if g.pci_device_id in want.models.value)
    boards = Counter(g.vbios_version for g in inventory.gpus if g.vbios_version)
    usual = [board for board, number in boards.items() if number * 2 > sum(boards.values())]
    common = [kind for kind, number in kinds.items() if number * 2 > sum(kinds.values())]

    def judge(facts: GpuFacts) -> Judgement:
        if facts.product is None or facts.uuid is None:
            return Status.UNKNOWN, "no product name or UUID", ""
        actual = f"{facts.product} ({facts.pci_device_id or 'no PCI id'})"
        if facts.pci_device_id is None or not facts.uuid.startswith("GPU-"):
            return Status.UNKNOWN, f"{actual}, UUID {facts.uuid}", ""
        if uuids[facts.uuid] > 1:
            return Status.FAIL, f"UUID {facts.uuid} stands {uuids[facts.uuid]} times", ""
        good = want.models.value.get(facts.pci_device_id) == facts.product
        if good and facts.pci_device_id not in common:
            return Status.FAIL, f"{actual}; most of this node are another model", ""
        if good and facts.vbios_version and facts.vbios_version not in usual:
            why = f"VBIOS {facts.vbios_version}, most of this node have another"
            return Status.FAIL, f"{actual}; {why}", "flash one VBIOS on all GPUs of the node"
        return Status.PASS if good else Status.FAIL, actual, ""

    expected = " or ".join(f"{name} ({pci})" for pci, name in want.models.value.items())
    yield from each(inventory, want, expected, judge)


_BROKEN = ("requires reset", "is lost")


@check(
    "gpu.readable",
    phases=(Phase.DRIVER,),
    title="the driver can read every value of every GPU",
    remedy="drain and reset the GPU (`nvidia-smi -r`), look again; read dmesg",
    subjects=every_gpu,
)
def readable(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """A value printed as "Unknown Error" or "GPU requires reset" is a failed reading, not a zero.

    It is not the same as N/A, which older drivers and other GPUs print for what they do not have.
    """

    def judge(facts: GpuFacts) -> Judgement:
        if not facts.unreadable:
            return Status.PASS, "every value read", ""
        shown = [f"{name}: {word}" for name, word in list(facts.unreadable.items())[:4]]
        actual = ", ".join(shown) + (" ..." if len(facts.unreadable) > 4 else "")
        lost = any(word in text.lower() for text in facts.unreadable.values() for word in _BROKEN)
        remedy = "" if lost else "drain and reset the GPU (`nvidia-smi -r`), look again; read dmesg"
        return Status.FAIL if lost else Status.UNKNOWN, actual, remedy

    yield from each(inventory, want, "no failed reading", judge)


@check(
    "gpu.mig",
    phases=(Phase.DRIVER,),
    title="MIG is off, now and after the next reset",
    remedy="drain; `nvidia-smi -mig 0`, then reset the GPUs",
    subjects=every_gpu,
)
def mig(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """A partitioned GPU does not take part in NVLink, and its links cannot be read."""

    def judge(facts: GpuFacts) -> Judgement:
        modes = (facts.mig_mode, facts.mig_pending)
        actual = f"now {modes[0] or 'not reported'}, pending {modes[1] or 'not reported'}"
        if any(mode not in ("Enabled", "Disabled") for mode in modes):
            return Status.UNKNOWN, actual, ""
        return Status.PASS if modes == ("Disabled", "Disabled") else Status.FAIL, actual, ""

    yield from each(inventory, want, "Disabled, pending Disabled", judge)


CHECKS: tuple[Check, ...] = (count, readable, identity, mig)
