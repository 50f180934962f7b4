"""The NVSwitch fabric: the daemon that runs it, and what each GPU remembers of it."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.gpu import Judgement, each
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, every_gpu, unknown
from fabric_tools.models.facts import GpuFacts, GpuInventory, UnitState
from fabric_tools.models.platform import GpuSpec, PlatformSpec
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_DEAD = ("failed", "inactive", "deactivating")


def _no_manager(spec: PlatformSpec) -> str:
    manager = spec.fabric.manager
    return "" if manager.value else f"no fabric manager on this platform ({manager.source})"


def _no_state(spec: PlatformSpec) -> str:
    state = spec.fabric.reports_state
    return "" if state.value else f"this GPU reports no fabric state ({state.source})"


def _running(unit: UnitState) -> bool:
    return unit.active == "active" and unit.sub in (None, "running") and unit.load != "masked"


def _shown(unit: UnitState) -> str:
    if unit.load in ("not-found", "masked"):
        return f"{unit.unit} {unit.load}"
    why = f" ({unit.result})" if unit.result and unit.result != "success" else ""
    return f"{unit.unit} {unit.active}{why}"


@check(
    "fabric.manager",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="the fabric manager runs, and will after a reboot",
    remedy="if driver.stack_match or pci.nvswitch_count failed, mend that first; then drain, stop "
    "it, reset all GPUs (`nvidia-smi -r`), `systemctl enable --now nvidia-fabricmanager`, and read "
    "its journal",
    not_applicable=_no_manager,
)
def manager(unit: UnitState) -> Iterator[Finding]:
    """Without it new CUDA programs get error 802, while nvidia-smi lists every GPU as healthy."""
    expected = "active, enabled"
    actual = f"{_shown(unit)}, {unit.enabled or 'enablement not reported'}"
    evidence = (at(unit, unit.line),)
    if unit.load in ("not-found", "masked") or unit.active in _DEAD:
        yield Finding(NODE, Status.FAIL, expected, actual, evidence)
    elif not _running(unit):
        yield Finding(NODE, Status.UNKNOWN, expected, actual, evidence)
    elif unit.enabled in ("enabled", "enabled-runtime", "static"):
        yield Finding(NODE, Status.PASS, expected, actual, evidence)
    else:
        remedy = "it would not start after a reboot: `systemctl enable nvidia-fabricmanager`"
        yield Finding(NODE, Status.WARN, expected, actual, evidence, remedy)


@check(
    "fabric.state",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every GPU is registered with a fabric that is alive",
    remedy="In Progress: see fabric.manager; if it runs, drain and reset all GPUs with it stopped",
    subjects=every_gpu,
    not_applicable=_no_state,
)
def state(
    inventory: GpuInventory | Missing, unit: UnitState | Missing, want: GpuSpec
) -> Iterator[Finding]:
    """State, status and health per GPU, believed only while the fabric manager runs.

    The driver latches "Completed / Success": on real nodes it was still shown days after the
    manager had been killed, with NVLS broken. "Completed" beside health "Unhealthy" is a fault.
    """
    expected = "Completed, Success, fabric manager active"
    for fact in (inventory, unit):
        if isinstance(fact, Missing):
            for index in range(want.count.value):
                yield unknown(f"GPU {index}", fact, expected)
            return
    assert not isinstance(inventory, Missing) and not isinstance(unit, Missing)
    yield from each(inventory, want, expected, lambda facts: _judge(facts, unit))


def _judge(facts: GpuFacts, unit: UnitState) -> Judgement:
    fabric = facts.fabric
    actual = f"{fabric.state or 'not reported'}, {fabric.status or 'no status'}"
    if fabric.health_summary:
        actual += f", health {fabric.health_summary}"
    if fabric.state is None:
        return Status.UNKNOWN, actual, ""
    if fabric.state != "Completed" or fabric.status != "Success":
        return Status.FAIL, actual, ""
    if fabric.health_summary not in (None, "Healthy", "Limited Capacity"):
        return (
            Status.FAIL,
            actual,
            "registered, but the fabric is unhealthy: read the manager's log",
        )
    if not _running(unit):
        dead = unit.active in _DEAD or unit.load in ("not-found", "masked")
        status = Status.FAIL if dead else Status.UNKNOWN
        return (
            status,
            f"{actual}, but {_shown(unit)}: a remembered state",
            ("drain, reset all GPUs (`nvidia-smi -r`) with the fabric manager stopped, start it"),
        )
    warn = fabric.health_summary == "Limited Capacity"
    return Status.WARN if warn else Status.PASS, actual, ""


CHECKS: tuple[Check, ...] = (manager, state)
