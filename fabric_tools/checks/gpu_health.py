"""Each GPU as it runs: what the driver asks for, its PCIe link, clocks, power and temperature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabric_tools.checks.gpu import Judgement, each, short
from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.checks.registry import Check, Finding, check, every_gpu, gpu
from fabric_tools.models.facts import GpuFacts, GpuInventory, PciDevices
from fabric_tools.models.platform import GpuSpec
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


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
    follows=("pci.gpu_link",),
)
def pcie(inventory: GpuInventory, pci: PciDevices | Missing, want: GpuSpec) -> Iterator[Finding]:
    """Greatest generation that GPU and slot can do together, and the width now.

    The current generation falls at idle and is not judged here.
    """

    def judge(facts: GpuFacts) -> Judgement:
        gen, width = facts.pcie_gen_max, facts.pcie_width_current
        if gen is None or width is None:
            return Status.UNKNOWN, "link not reported", ""
        actual = f"at most gen {gen}, now x{width}"
        if width != want.pcie_width.value:
            return want.pcie_width.differs, actual, ""
        good = gen == want.pcie_gen.value
        return Status.PASS if good else want.pcie_gen.differs, actual, ""

    expected = f"gen {want.pcie_gen.value}, x{want.pcie_width.value}"
    same = _seen_on_bus(inventory, pci)
    for finding in each(inventory, want, expected, judge):
        yield replace(finding, because=("pci.gpu_link",) if finding.subject in same else ())


def _seen_on_bus(inventory: GpuInventory, pci: PciDevices | Missing) -> set[str]:
    """GPUs that have the same number, address and width on the bus. Over a GPU that is lost the
    driver's numbers close up and the bus's may not: then one number is two cards.
    """
    if isinstance(pci, Missing):
        return set()
    pairs = enumerate(zip(inventory.gpus, gpus_on_bus(pci), strict=False))
    return {
        gpu(index)
        for index, (facts, device) in pairs
        if short(facts.bus_id or "") == short(device.bus_id)
        and facts.pcie_width_current == device.link_sta_width
    }


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
        actual = f"{now:g} W, default {default:g} W"
        if now != default:
            return Status.FAIL, actual, ""
        return Status.PASS if default in watts else want.power_limit_w.differs, actual, ""

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


CHECKS: tuple[Check, ...] = (recovery, pcie, throttle, power_limit, temperature)
