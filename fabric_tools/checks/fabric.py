"""The NVSwitch fabric: the daemon that runs it, and what each GPU remembers of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabric_tools.checks.driver import OTHER_MANAGER
from fabric_tools.checks.gpu import Judgement, each
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, every_gpu, gpu, unknown
from fabric_tools.models.dcgm import FabricManagerLog, FmEvent
from fabric_tools.models.facts import GpuFabric, GpuFacts, GpuInventory, UnitState
from fabric_tools.models.platform import Target
from fabric_tools.models.smi import FabricStates
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: What the fabric manager refuses to start with, the deepest cause first.
_KEEPS_IT_DOWN = ("pci.nvswitch_count", OTHER_MANAGER)
#: Seconds that the GPUs may be "In Progress" after the manager started; a choice of ours.
REGISTERS_S = 60
_DEAD = ("failed", "inactive", "deactivating")


def _no_manager(spec: Target) -> str:
    manager = spec.fabric.manager
    return "" if manager.value else f"no fabric manager on this platform ({manager.source})"


def _no_state(spec: Target) -> str:
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


def _starting(unit: UnitState) -> bool:
    """For the first time since somebody asked for it; one that is started again has failed."""
    return unit.active == "activating" and not (unit.sub or "").startswith("auto-restart")


def _dead(unit: UnitState) -> bool:
    return unit.load in ("not-found", "masked") or unit.active in _DEAD


def _kept_down_by(unit: UnitState) -> tuple[str, ...]:
    """One that nobody started, or that is masked, is down for another reason."""
    return _KEEPS_IT_DOWN if unit.active == "failed" else ()


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
    follows=("pci.nvswitch_count", "driver.stack_match"),
)
def manager(unit: UnitState) -> Iterator[Finding]:
    """Without it new CUDA programs get error 802, while nvidia-smi lists every GPU as healthy."""
    expected = "active, enabled"
    actual = f"{_shown(unit)}, {unit.enabled or 'enablement not reported'}"
    evidence = (at(unit, unit.line),)
    if unit.unit != UNIT:
        yield Finding(NODE, Status.UNKNOWN, expected, f"{actual}: another unit", evidence)
    elif _dead(unit):
        yield Finding(NODE, Status.FAIL, expected, actual, evidence, because=_kept_down_by(unit))
    elif not _running(unit):
        actual, settles_s = f"{actual}, {unit.sub}", REGISTERS_S if _starting(unit) else 0
        yield Finding(NODE, Status.UNKNOWN, expected, actual, evidence, settles_s=settles_s)
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
    follows=("pci.nvswitch_count", "driver.stack_match", "fabric.manager"),
)
def state(
    inventory: GpuInventory | Missing, unit: UnitState | Missing, spec: Target
) -> Iterator[Finding]:
    """State, status and health per GPU, believed only while the fabric manager runs.

    The driver latches "Completed / Success": on real nodes it was still shown days after the
    manager had been killed, with NVLS broken. "Completed" beside a health line that is not well
    (Unhealthy, Degraded, Route Unhealthy) is a fault. Where the manager runs elsewhere (a tray of
    an NVL72 rack, a virtual machine with a part of the board) only the state itself can be read.
    """
    manager = spec.fabric.manager.value
    expected = "Completed, Success" + (", fabric manager active" if manager else "")
    missing = inventory if isinstance(inventory, Missing) else None
    if missing is None and manager:
        if isinstance(unit, Missing):
            missing = unit
        elif unit.unit != UNIT:
            why = f"{unit.unit} is another unit"
            missing = Missing(unit.probe, why, recorded=True, line=unit.line)
    if missing is not None or isinstance(inventory, Missing):
        assert missing is not None
        for index in range(spec.gpu.number):
            yield unknown(f"GPU {index}", missing, expected)
        return
    service = unit if manager and isinstance(unit, UnitState) else None
    # A dead manager explains whatever the GPUs say of the fabric; one that runs registers them.
    causes: tuple[str, ...] = ()
    if service is not None and _dead(service):
        causes = (*_kept_down_by(service), "fabric.manager")
    wait = {gpu(i) for i, g in enumerate(inventory.gpus) if _settles(g.fabric, service)}
    for finding in each(inventory, spec.gpu, expected, lambda facts: _judge(facts, service)):
        settles_s = REGISTERS_S if finding.subject in wait else 0
        yield replace(finding, because=causes, settles_s=settles_s)


def _settles(fabric: GpuFabric, unit: UnitState | None) -> bool:
    """What a healthy GPU says while the manager starts, and then registers it."""
    if unit is None or not (_running(unit) or _starting(unit)):
        return False
    remembered = (fabric.state, fabric.status) == ("Completed", "Success")
    registers = fabric.state in ("Not Started", "In Progress")
    return registers or (_starting(unit) and remembered)


def _judge(facts: GpuFacts, unit: UnitState | None) -> Judgement:
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
    if unit is not None and not _running(unit):
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


@check(
    "fabric.registration",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="no GPU waits for the fabric, and none remembers one that is dead",
    remedy="start the fabric manager; if it runs, drain and reset all GPUs with it stopped; in a "
    "virtual machine that was given single GPUs the host has to register them",
)
def registration(
    states: FabricStates, unit: UnitState | Missing, spec: Target | None
) -> Iterator[Finding]:
    """The fabric state where ``fabric.state`` cannot tell: the platform is not known, or only a
    part of ``nvidia-smi -q`` was saved. Of a whole one on a known platform it has nothing to add.

    "In Progress" that stays means error 802 for every CUDA program. "Completed" beside a fabric
    manager that is dead is remembered, not true. A GPU without a fabric (N/A) waits for none.
    """
    expected = "no GPU In Progress or unhealthy"
    told = spec is not None and spec.fabric.reports_state.value
    blocks = [b for b in states.blocks if not told or b.gpu is None]
    if states.blocks and not blocks:
        actual = "every GPU is judged by fabric.state"
        yield Finding(NODE, Status.PASS, expected, actual, (at(states, states.blocks[0].line),))
        return
    found: list[tuple[Status, str, int]] = []
    for block in blocks:
        name = f"GPU {block.gpu}" if block.gpu is not None else "a GPU"
        status, words = _registered(block.fabric, unit, spec)
        found.append((status, f"{name}: {words}", block.line))
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)
    worst = min((status for status, _, _ in found), key=order.index, default=Status.UNKNOWN)
    shown = [(text, line) for status, text, line in found if status is worst]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    actual = "; ".join(text for text, _ in shown[:3]) + more
    evidence = tuple(at(states, line) for _, line in shown[:2]) or (at(states),)
    yield Finding(NODE, worst, expected, actual or "no GPU shown", evidence)


def _registered(
    fabric: GpuFabric, unit: UnitState | Missing, spec: Target | None
) -> tuple[Status, str]:
    if fabric.state in (None, "Not Supported"):
        return Status.PASS, "no fabric state"
    if fabric.state != "Completed" or fabric.status != "Success":
        return Status.FAIL, f"{fabric.state}, {fabric.status or 'no status'}"
    health, words = _health(fabric.health)
    if health in (Status.FAIL, Status.UNKNOWN):
        return health, f"Completed, but {words}"
    elsewhere = spec is not None and not spec.fabric.manager.value
    local = isinstance(unit, UnitState) and unit.unit == UNIT and not elsewhere
    # Without the package there never was a manager here: it runs elsewhere.
    if local and isinstance(unit, UnitState) and unit.load != "not-found" and _dead(unit):
        return Status.FAIL, f"Completed, but {_shown(unit)}: a remembered state"
    return health, f"Completed, Success{f', {words}' if words else ''}"


#: What a line of the log means for the node, by the kind of event.
_LOG_FAIL = {
    "version_mismatch": "driver and fabric manager are of different versions",
    "nvswitch_count": "an NVSwitch is missing",
    "multicast_handle": "NVLS: the manager was restarted without a reset of the GPUs",
    "nothing_to_do": "no NVSwitch was found",
    "failed": "the manager failed",
}


@check(
    "fabric.log",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="the fabric manager has reported no fault since it started",
    remedy="version: see driver.stack_match; NVSwitch: see pci.nvswitch_count and kernel.sxid; "
    "NVLS: drain, stop it, reset all GPUs, start it",
    not_applicable=_no_manager,
)
def log(log: FabricManagerLog | Missing) -> Iterator[Finding]:
    """Its log file or journal, from its last start on: errors of the kinds that break CUDA or NVLS,
    and NVSwitch errors. A non-fatal one is a warning.
    """
    expected = "no fault since the last start"
    if isinstance(log, Missing):
        if log.recorded:
            yield unknown(NODE, log, expected)
        else:
            remedy = "read /var/log/fabricmanager.log or `journalctl -u nvidia-fabricmanager`"
            actual = "the log was not recorded"
            yield Finding(NODE, Status.WARN, expected, actual, (at(log),), remedy)
        return
    since = _since(log.events, ("started", "configured"))
    # That the switches could be configured does not undo a fatal error of one since the start.
    fatal = [e for e in _since(log.events, ("started",)) if e.kind == "sxid" and e.fatal]
    bad = [*fatal, *(e for e in since if _breaks(e))]
    odd = [e for e in since if (e.kind == "error" and not _breaks(e)) or _nonfatal(e)]
    shown = [
        _LOG_FAIL.get(e.kind, "") or (f"SXid {e.sxid}" if e.kind == "sxid" else e.text[:80])
        for e in (bad or odd)
    ]
    actual = "; ".join(dict.fromkeys(shown)) or f"none in {log.line_count} lines"
    status = Status.FAIL if bad else Status.WARN if odd else Status.PASS
    if log.state in ("failed", "inactive") and not bad:
        status, actual = Status.FAIL, f"the log ends with the manager {log.state}"
    evidence = tuple(at(log, e.line) for e in (bad or odd)[:3]) or (at(log),)
    yield Finding(NODE, status, expected, actual, evidence)


#: What the manager itself calls worse than an error, or says that it has switched off.
_LOG_WORST = ("CRITICAL", "FATAL", "ALERT", "EMERG")
_LOG_OFF = re.compile(r"\b(?:GPU|NVSwitch)\b.{0,80}\bwill be disabled\b", re.IGNORECASE)


def _since(events: Sequence[FmEvent], kinds: tuple[str, ...]) -> Sequence[FmEvent]:
    """What came after the last event of these kinds; everything where there is none."""
    starts = [n for n, event in enumerate(events) if event.kind in kinds]
    return events[starts[-1] + 1 :] if starts else events


def _nonfatal(event: FmEvent) -> bool:
    return event.kind == "sxid" and not event.fatal


def _breaks(event: FmEvent) -> bool:
    if event.kind in _LOG_FAIL:
        return True
    worst = event.level in _LOG_WORST or _LOG_OFF.search(event.text) is not None
    return event.kind == "error" and worst


CHECKS: tuple[Check, ...] = (manager, state, registration, log)
