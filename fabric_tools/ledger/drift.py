"""What moved between two states of a node, or between two sets of inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fabric_tools.errors import Exit
from fabric_tools.ledger.record import ABSENT, Inputs, short, state_of
from fabric_tools.models.ledger import HostDrift, LedgerEntry, NodeState
from fabric_tools.models.snapshot import Snapshot

#: Clocks of node and controller may differ by this much; beyond it a time is not believed.
CLOCK_SKEW = timedelta(minutes=10)
#: What a measurement under load depends on. Packages are not among them: what they change shows in
#: what runs once it is loaded.
LOAD_BEARING = frozenset({"kernel", "os", "driver", "userspace", "fabric_manager", "gpu", "nic"})


@dataclass(frozen=True, slots=True)
class Moved:
    """``changed``: each ``name: then -> now``. ``untold``: what cannot be compared, and why."""

    changed: tuple[str, ...]
    untold: tuple[str, ...]


def family(name: str) -> str:
    """``gpu`` of ``gpu 3``."""
    return name.partition(" ")[0]


def compare_states(then: NodeState, now: NodeState, only: Collection[str] | None = None) -> Moved:
    """Name by name; ``only`` these families. What was not read on either side is not equal."""
    untold = []
    for name in {**then.unknown, **now.unknown}:
        if only is None or name in only:
            side, why = ("now", now.unknown[name]) if name in now.unknown else (
                "then", then.unknown[name])  # fmt: skip
            untold.append(f"{name}: not known {side} ({why})")
    unread = {*then.unknown, *now.unknown}
    changed = []
    for name in {**then.values, **now.values}:
        kind = family(name)
        if kind in unread or (only is not None and kind not in only):
            continue
        if name == kind and any(
            family(n) == kind and n != name for n in (*then.values, *now.values)
        ):
            continue  # "gpu: absent": each GPU of the other side is named by itself
        before, after = then.values.get(name, ABSENT), now.values.get(name, ABSENT)
        if before != after:
            changed.append(f"{name}: {before} -> {after}")
    return Moved(tuple(changed), tuple(untold))


def changed_inputs(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the inputs whose content differs, or that one side does not have."""
    return tuple(sorted(name for name in {**then, **now} if then.get(name) != now.get(name)))


def _not_since(entry: LedgerEntry, taken: datetime | None, as_of: datetime) -> list[str]:
    """Why a reading is none of the time since the entry."""
    if taken is None:
        return ["the reading does not say when it was taken"]
    when = f"the reading was taken {taken:%Y-%m-%d %H:%M}"
    if taken > as_of + CLOCK_SKEW:
        return [f"{when}, which is not yet"]
    if taken < entry.recorded_at - CLOCK_SKEW:
        return [f"{when}, before the proof ({entry.recorded_at:%Y-%m-%d %H:%M})"]
    return []


def drift_of(
    entry: LedgerEntry,
    snapshot: Snapshot,
    inputs: Inputs | None,
    *,
    host: str,
    as_of: datetime,
) -> HostDrift:
    """What moved since an entry. ``inputs`` None: not compared, and said so.

    A reboot is a change: what was proved was proved before it. A reading that is older than the
    proof, or of a time that is not yet, says nothing of what came after.
    """
    moved = compare_states(entry.state, state_of(snapshot))
    changed, untold, left_out = list(moved.changed), list(moved.untold), []
    untold = [*_not_since(entry, snapshot.started_at, as_of), *untold]
    for name, then, now in (
        ("boot id", entry.boot_id, snapshot.host.boot_id),
        ("machine id", entry.machine_id, snapshot.host.machine_id),
    ):
        if not then or not now or snapshot.redacted:
            untold.insert(0, f"{name}: {'redacted' if snapshot.redacted else 'not known'}")
        elif then != now:
            changed.insert(0, f"{name}: {short(then)} -> {short(now)}")
    if inputs is None:
        left_out.append("inputs (give --host-vars)")
    else:
        unmade = {name for name in entry.inputs if not inputs.parts.get(name)}
        same = {name: value for name, value in entry.inputs.items() if name not in unmade}
        names = changed_inputs(same, {n: v for n, v in inputs.parts.items() if v})
        changed += [f"input {name}: changed" for name in names]
        left_out += [f"input {name}" for name in sorted(unmade) if entry.inputs[name]]
    code = Exit.UNKNOWN if untold else Exit.OPEN
    return HostDrift(
        host=host,
        phase=entry.phase,
        proved_at=entry.recorded_at,
        changed=tuple(changed),
        untold=tuple(untold),
        left_out=tuple(left_out),
        exit_code=Exit.CLOSED if changed else code,
    )
