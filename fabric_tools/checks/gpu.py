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
from fabric_tools.models.platform import GpuSpec, Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: More remapped rows than a GPU has spares for. Azure NHC and oci-hpc use the same bound.
REMAP_UNCORRECTABLE_MAX = 512

Judgement = tuple[Status, str, str]  # status, actual, remedy


def each(
    inventory: GpuInventory, want: GpuSpec, expected: str, judge: Callable[[GpuFacts], Judgement]
) -> Iterator[Finding]:
    """One finding for each GPU the platform lists; a GPU that is not there cannot be judged."""
    for index in range(want.number):
        if index >= len(inventory.gpus):
            actual, remedy = "not listed by nvidia-smi", "find the lost GPU first: see gpu.count"
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
    yield Finding(NODE, status, expected, actual, evidence)


def _missing_on_bus(
    roster: GpuRoster, pci: PciDevices | Missing
) -> tuple[list[PciDevice], list[str]]:
    """GPUs that only lspci lists, and addresses that only the driver lists."""
    seen = {_short(g.bus_id) for g in roster.gpus if g.bus_id}
    if isinstance(pci, Missing) or not seen or not gpus_on_bus(pci):
        return [], []
    bus = {_short(device.bus_id) for device in gpus_on_bus(pci)}
    lost = [device for device in gpus_on_bus(pci) if _short(device.bus_id) not in seen]
    return lost, sorted(seen - bus)


def _short(bus_id: str) -> str:
    """nvidia-smi writes 8 digits of PCI domain, lspci 4: compare without leading zeros."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


@check(
    "gpu.identity",
    phases=(Phase.DRIVER,),
    title="every GPU is the platform's model and there once",
    remedy="a foreign GPU was fitted, or the wrong platform is declared",
    subjects=every_gpu,
)
def identity(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Product name and PCI id must be one of the platform file's, the same for all GPUs; every UUID
    must be there once.
    """
    uuids = Counter(g.uuid for g in inventory.gpus)
    kinds = Counter(g.pci_device_id for g in inventory.gpus if g.pci_device_id in want.models.value)
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
        return Status.PASS if good else Status.FAIL, actual, ""

    expected = " or ".join(f"{name} ({pci})" for pci, name in want.models.value.items())
    yield from each(inventory, want, expected, judge)


@check(
    "gpu.ecc_mode",
    phases=(Phase.DRIVER,),
    title="ECC is on, now and after the next reset",
    remedy="`nvidia-smi -e 1`, then reset the GPUs or reboot",
    subjects=every_gpu,
)
def ecc_mode(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Current and pending mode. "Unknown Error" means that the driver could not read it."""
    wanted = want.ecc.value

    def judge(facts: GpuFacts) -> Judgement:
        modes = (facts.ecc_mode_current, facts.ecc_mode_pending)
        actual = f"now {modes[0] or 'not reported'}, pending {modes[1] or 'not reported'}"
        if any(mode not in ("Enabled", "Disabled") for mode in modes):
            return Status.UNKNOWN, actual, "the driver cannot read it: reset the GPU, look again"
        return Status.PASS if modes == (wanted, wanted) else Status.FAIL, actual, ""

    yield from each(inventory, want, f"{wanted}, pending {wanted}", judge)


@check(
    "gpu.ecc_errors",
    phases=(Phase.DRIVER,),
    title="no uncorrectable memory error since the driver was loaded",
    remedy="drain, reset the GPU, test again; RMA only if it comes back or row remapping fails",
    subjects=every_gpu,
)
def ecc_errors(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Volatile uncorrectable errors (SRAM and DRAM) must be 0.

    Errors over the card's life are a warning: a double-bit error leads to a row remap and a reset,
    not to an RMA by itself. The SRAM threshold flag is the vendor's own sign for replacement.
    """

    def judge(facts: GpuFacts) -> Judgement:
        now, life = facts.ecc_volatile, facts.ecc_aggregate
        if now.sram_uncorrectable is None or now.dram_uncorrectable is None:
            return Status.UNKNOWN, "counters not reported", ""
        actual = f"volatile SRAM {now.sram_uncorrectable}, DRAM {now.dram_uncorrectable}"
        if life.sram_threshold_exceeded:
            return Status.FAIL, f"{actual}; SRAM threshold exceeded", "replace the GPU (RMA)"
        if now.sram_uncorrectable or now.dram_uncorrectable:
            return Status.FAIL, actual, ""
        old = (life.sram_uncorrectable or 0) + (life.dram_uncorrectable or 0)
        if old:
            return Status.WARN, f"{actual}; {old} over its life", "watch this GPU"
        return Status.PASS, actual, ""

    yield from each(inventory, want, "volatile uncorrectable 0", judge)


def _no_remap(spec: Target) -> str:
    remap = spec.gpu.row_remap
    return "" if remap.value else f"no row remapping on this GPU ({remap.source})"


@check(
    "gpu.row_remap",
    phases=(Phase.DRIVER,),
    title="no row remap is pending or has failed",
    remedy="pending: drain and reset the GPU; failed: replace it (RMA)",
    subjects=every_gpu,
    not_applicable=_no_remap,
)
def row_remap(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """A pending remap takes effect at the next GPU reset; a failed one means no spare row is left.

    Remapped rows by themselves are normal for a card's life, up to 512 uncorrectable ones.
    """

    def judge(facts: GpuFacts) -> Judgement:
        pending, failure = facts.remap_pending, facts.remap_failure
        rows = facts.remap_uncorrectable
        actual = f"pending {pending}, failed {failure}, {rows} uncorrectable rows"
        if failure == "Yes":
            return Status.FAIL, actual, "replace the GPU (RMA)"
        if pending == "Yes":
            return Status.FAIL, actual, "drain and reset the GPU, then look again"
        if pending != "No" or failure != "No" or rows is None:
            return Status.UNKNOWN, actual, ""
        return Status.FAIL if rows > REMAP_UNCORRECTABLE_MAX else Status.PASS, actual, ""

    yield from each(inventory, want, "pending No, failed No", judge)


@check(
    "gpu.recovery",
    phases=(Phase.DRIVER,),
    title="the driver asks for no reset or reboot",
    remedy="drain the node and do what the driver asks for, then look again",
    subjects=every_gpu,
)
def recovery(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """The driver's own conclusion, in its three forms: Recovery Action, Reset Required, and Drain
    and Reset Recommended. Any of them may ask; one that is not printed does not.
    """

    def judge(facts: GpuFacts) -> Judgement:
        told = {
            "action": (facts.recovery_action, "None"),
            "reset required": (facts.reset_required, "No"),
            "drain and reset recommended": (facts.drain_and_reset, "No"),
        }
        said = {name: pair for name, pair in told.items() if pair[0] is not None}
        if not said:
            return Status.UNKNOWN, "not reported", ""
        good = all(value == fine for value, fine in said.values())
        actual = ", ".join(f"{name} {value}" for name, (value, _) in said.items())
        return Status.PASS if good else Status.FAIL, actual, ""

    yield from each(inventory, want, "no action", judge)


@check(
    "gpu.pcie",
    phases=(Phase.DRIVER,),
    title="every GPU has its full PCIe link, as the driver sees it",
    remedy="reseat the GPU or its riser; compare the BIOS link settings with a good node",
    subjects=every_gpu,
)
def pcie(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Greatest generation that GPU and slot can do together, and the width now.

    The current generation falls at idle and is not judged here.
    """

    def judge(facts: GpuFacts) -> Judgement:
        gen, width = facts.pcie_gen_max, facts.pcie_width_current
        if gen is None or width is None:
            return Status.UNKNOWN, "link not reported", ""
        good = gen == want.pcie_gen.value and width == want.pcie_width.value
        return Status.PASS if good else Status.FAIL, f"at most gen {gen}, now x{width}", ""

    expected = f"gen {want.pcie_gen.value}, x{want.pcie_width.value}"
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


#: nvml.h, nvmlClocksEventReasons: what the hardware does to save itself, and what is normal.
_THROTTLE_FAIL = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_THROTTLE_WARN = ("sw_thermal_slowdown",)


@check(
    "gpu.throttle",
    phases=(Phase.DRIVER,),
    title="nothing but load and settings holds the clocks down",
    remedy="thermal: look at inlet temperature, fans and the heat sink; power brake: look at the "
    "power supplies and their cables",
    subjects=every_gpu,
)
def throttle(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Clocks event (throttle) reasons: hardware slowdown, hardware thermal slowdown and power brake
    fail, software thermal slowdown warns. Idle, application clocks, the software power cap and sync
    boost are normal.
    """

    def judge(facts: GpuFacts) -> Judgement:
        told = [name for name in (*_THROTTLE_FAIL, *_THROTTLE_WARN) if name in facts.throttle]
        if len(told) < len(_THROTTLE_FAIL) + len(_THROTTLE_WARN):
            return Status.UNKNOWN, "reasons not reported", ""
        active = [name for name, on in facts.throttle.items() if on]
        actual = ", ".join(active) or "none active"
        if any(name in active for name in _THROTTLE_FAIL):
            return Status.FAIL, actual, ""
        return Status.WARN if set(active) & set(_THROTTLE_WARN) else Status.PASS, actual, ""

    yield from each(inventory, want, "no hardware or thermal slowdown", judge)


@check(
    "gpu.power_limit",
    phases=(Phase.DRIVER,),
    title="every GPU may draw the power it was sold with",
    remedy="`nvidia-smi -pl` back to the default, or find out who lowered it; a lower default is "
    "another board or another VBIOS",
    subjects=every_gpu,
)
def power_limit(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """The limit in force equals the board's default, and the default is the platform's.

    A limit that somebody lowered costs bandwidth and tokens and shows up nowhere else.
    """
    watts = want.power_limit_w.value
    expected = f"{' or '.join(f'{value:g}' for value in watts)} W, the default in force"

    def judge(facts: GpuFacts) -> Judgement:
        now, default = facts.power_limit_w, facts.power_default_w
        if now is None or default is None:
            return Status.UNKNOWN, "limit not reported", ""
        good = now == default and default in watts
        return Status.PASS if good else Status.FAIL, f"{now:g} W, default {default:g} W", ""

    yield from each(inventory, want, expected, judge)


@check(
    "gpu.temperature",
    phases=(Phase.DRIVER,),
    title="every GPU is far enough from the temperature at which it slows down",
    remedy="compare the GPUs with each other: one hot GPU is a heat sink or a fan, all hot is the "
    "inlet; under load look again at idle",
    subjects=every_gpu,
)
def temperature(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Margin to slowdown (T.Limit) where the GPU tells it, else the temperature; and the memory's.

    From Hopper on the GPU tells the distance, and no absolute number means anything. Too warm is a
    warning while the GPU does not slow down (see gpu.throttle), a fault once nothing is left.
    """
    low, hot, memory_hot = (
        want.tlimit_margin_min_c.value,
        want.temperature_max_c.value,
        want.memory_temperature_max_c.value,
    )

    def judge(facts: GpuFacts) -> Judgement:
        memory = facts.memory_temperature_c
        too_hot = memory is not None and memory > memory_hot
        shown = f", memory {memory} C" if memory is not None else ""
        if facts.tlimit_c is not None:
            actual = f"{facts.tlimit_c} C to slowdown{shown}"
            bad, warm = facts.tlimit_c <= 0, facts.tlimit_c < low
        elif facts.temperature_c is not None:
            actual = f"{facts.temperature_c} C{shown}"
            bad, warm = facts.temperature_c > hot, facts.temperature_c > hot - low
        else:
            return Status.UNKNOWN, "temperature not reported", ""
        if bad or too_hot:
            return Status.FAIL, actual, ""
        return Status.WARN if warm else Status.PASS, actual, ""

    expected = f"at least {low} C to slowdown (else at most {hot} C), memory at most {memory_hot} C"
    yield from each(inventory, want, expected, judge)


CHECKS: tuple[Check, ...] = (
    count,
    readable,
    identity,
    mig,
    ecc_mode,
    ecc_errors,
    row_remap,
    recovery,
    pcie,
    throttle,
    power_limit,
    temperature,
)
