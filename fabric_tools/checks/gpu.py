"""Each GPU as the driver sees it: there, whole, and without memory or link faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, every_gpu, gpu
from fabric_tools.models.facts import GpuFacts, GpuInventory, PciDevices
from fabric_tools.models.platform import GpuSpec, PlatformSpec
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: More remapped rows than a GPU has spares for. Azure NHC and oci-hpc use the same bound.
REMAP_UNCORRECTABLE_MAX = 512

Judgement = tuple[Status, str, str]  # status, actual, remedy


def each(
    inventory: GpuInventory, want: GpuSpec, expected: str, judge: Callable[[GpuFacts], Judgement]
) -> Iterator[Finding]:
    """One finding for each GPU the platform lists; a GPU that is not there cannot be judged."""
    for index in range(want.count.value):
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
def count(inventory: GpuInventory, pci: PciDevices | Missing, want: GpuSpec) -> Iterator[Finding]:
    """The number of GPUs that nvidia-smi describes, and its own "Attached GPUs".

    When they differ, only some GPUs were asked (``-i``): that is not the whole node. Indices close
    up over a lost GPU, so its address is taken from lspci where that was recorded.
    """
    found, attached = len(inventory.gpus), inventory.attached_gpus
    first = inventory.gpus[0].line if inventory.gpus else 0
    evidence: tuple[Evidence, ...] = (at(inventory, first),)
    if attached is not None and attached != found:
        actual = f"{attached} attached but {found} described; record all of them"
        yield Finding(NODE, Status.UNKNOWN, f"{want.count.value}", actual, evidence)
        return
    status = Status.PASS if found == want.count.value else Status.FAIL
    actual = f"{found}: {', '.join(g.bus_id for g in inventory.gpus)}"
    if not isinstance(pci, Missing) and gpus_on_bus(pci):
        seen = {_short(g.bus_id) for g in inventory.gpus}
        bus = {_short(device.bus_id) for device in gpus_on_bus(pci)}
        lost = [device for device in gpus_on_bus(pci) if _short(device.bus_id) not in seen]
        if lost:
            status = Status.FAIL
            actual += "; on the bus but not here: " + ", ".join(d.bus_id for d in lost)
            evidence += tuple(at(pci, device.line) for device in lost[:2])
        if seen - bus:
            status = Status.FAIL
            actual += "; here but not on the bus: " + ", ".join(sorted(seen - bus))
    yield Finding(NODE, status, f"{want.count.value}", actual, evidence)


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
    """Product name and PCI id must equal the platform file's; every UUID must be there once."""
    uuids = Counter(g.uuid for g in inventory.gpus)

    def judge(facts: GpuFacts) -> Judgement:
        if facts.product is None or facts.uuid is None:
            return Status.UNKNOWN, "no product name or UUID", ""
        actual = f"{facts.product} ({facts.pci_device_id or 'no PCI id'})"
        if facts.pci_device_id is None or not facts.uuid.startswith("GPU-"):
            return Status.UNKNOWN, f"{actual}, UUID {facts.uuid}", ""
        if uuids[facts.uuid] > 1:
            return Status.FAIL, f"UUID {facts.uuid} stands {uuids[facts.uuid]} times", ""
        good = (facts.product, facts.pci_device_id) == (want.product.value, want.pci_id.value)
        return Status.PASS if good else Status.FAIL, actual, ""

    yield from each(inventory, want, f"{want.product.value} ({want.pci_id.value})", judge)


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


def _no_remap(spec: PlatformSpec) -> str:
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
)
