"""What moved between two states of a node, or between two sets of inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fabric_tools.ledger.record import ABSENT
from fabric_tools.models.ledger import NodeState

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
