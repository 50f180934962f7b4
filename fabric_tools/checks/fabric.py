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


UNIT = "nvidia-fabricmanager.service"


def _running(unit: UnitState) -> bool:
    """Everything that systemd says of it must agree that it runs."""
    return (
        unit.active == "active"
        and unit.sub == "running"
        and unit.load in (None, "loaded")
        and unit.result in (None, "success")
    )


def _dead(unit: UnitState) -> bool:
    return unit.load in ("not-found", "masked") or unit.active in _DEAD


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
    if unit.unit != UNIT:
        yield Finding(NODE, Status.UNKNOWN, expected, f"{actual}: another unit", evidence)
    elif _dead(unit):
        yield Finding(NODE, Status.FAIL, expected, actual, evidence)
    elif not _running(unit):
        yield Finding(NODE, Status.UNKNOWN, expected, f"{actual}, {unit.sub}", evidence)
    elif unit.enabled == "enabled":
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
    manager had been killed, with NVLS broken. "Completed" beside a
    health line that is not well (Unhealthy, Degraded, Route Unhealthy) is a fault.
    """
    expected = "Completed, Success, fabric manager active"
    for fact in (inventory, unit):
        if isinstance(fact, Missing):
            for index in range(want.count.value):
                yield unknown(f"GPU {index}", fact, expected)
            return
    assert not isinstance(inventory, Missing) and not isinstance(unit, Missing)
    if unit.unit != UNIT:
        wrong = Missing(unit.probe, f"{unit.unit} is another unit", recorded=True, line=unit.line)
        for index in range(want.count.value):
            yield unknown(f"GPU {index}", wrong, expected)
        return
    yield from each(inventory, want, expected, lambda facts: _judge(facts, unit))


def _judge(facts: GpuFacts, unit: UnitState) -> Judgement:
    fabric = facts.fabric
    actual = f"{fabric.state or 'not reported'}, {fabric.status or 'no status'}"
    health, words = _health(fabric.health)
    actual += f", health: {words}" if words else ""
    if fabric.state is None:
        return Status.UNKNOWN, actual, ""
    if fabric.state != "Completed" or fabric.status != "Success":
        return Status.FAIL, actual, ""
    if health in (Status.FAIL, Status.UNKNOWN):
        return health, actual, "registered, but the fabric is unhealthy: read the manager's log"
    if not _running(unit):
        status = Status.FAIL if _dead(unit) else Status.UNKNOWN
        return (
            status,
            f"{actual}, but {_shown(unit)}: a remembered state",
            ("drain, reset all GPUs (`nvidia-smi -r`) with the fabric manager stopped, start it"),
        )
    return health, actual, ""


#: What each line under Fabric / Health says when all is well, and when only capacity is missing
#: (nvml.h: NVML_GPU_FABRIC_HEALTH_*). "partition_assigned" is a state, not a fault.
_HEALTHY = {"summary": ("Healthy",), "bandwidth": ("Full",)}
_LIMITED = {"summary": ("Limited Capacity",)}
_FINE_FLAG, _BAD_FLAG = ("False", "No", "Not Active"), ("True", "Yes", "Active")


def _health(lines: dict[str, str]) -> tuple[Status, str]:
    """The worst of the health lines that the driver printed, and those that are not well."""
    found: list[tuple[Status, str]] = []
    for name, value in lines.items():
        if name == "partition_assigned" or value in _HEALTHY.get(name, _FINE_FLAG):
            continue
        if value in _LIMITED.get(name, ()):
            status = Status.WARN
        else:
            known = name in _HEALTHY or value in _BAD_FLAG
            status = Status.FAIL if known else Status.UNKNOWN
        found.append((status, f"{name} {value}"))
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN)
    worst = min((status for status, _ in found), key=order.index, default=Status.PASS)
    return worst, ", ".join(text for _, text in found)


CHECKS: tuple[Check, ...] = (manager, state)
