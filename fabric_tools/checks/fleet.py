"""Nodes compared with each other: one that differs from the rest is the one to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from fabric_tools.checks.registry import Check, Finding, Kind, at, check, unknown
from fabric_tools.models.fabric_ports import RdmaPorts
from fabric_tools.models.facts import GpuInventory, KernelRelease
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


def _one_of(values: set[str]) -> str | None:
    return "/".join(sorted(values)) or None


#: What should be one over a fleet, and how a node tells it.
_TOLD: dict[str, Callable[[GpuInventory], str | None]] = {
    "driver": lambda inventory: inventory.driver_version,
    "GPU": lambda inventory: _one_of({g.product for g in inventory.gpus if g.product}),
    "VBIOS": lambda inventory: _one_of(
        {g.vbios_version for g in inventory.gpus if g.vbios_version}
    ),
    "power limit": lambda inventory: _one_of(
        {f"{g.power_limit_w:g} W" for g in inventory.gpus if g.power_limit_w is not None}
    ),
}


@check(
    "fleet.same_stack",
    phases=(Phase.DRIVER,),
    title="this node has the driver, firmware, power limit and kernel of the others",
    remedy="bring the odd node to what the others have; where there is no majority, decide first",
    kind=Kind.GROUP,
)
def same_stack(
    inventories: Mapping[str, GpuInventory | Missing],
    kernels: Mapping[str, KernelRelease | Missing],
    nics: Mapping[str, RdmaPorts | Missing],
) -> Iterator[Finding]:
    """Every value against what most of the nodes have. A node of another driver, VBIOS or NIC
    firmware makes a job slow or fail for all of them. Without a majority every node fails. The
    firmware of the NICs, by chip, is compared where any node tells it.
    """
    told: dict[str, dict[str, str | None]] = {}
    for host, inventory in inventories.items():
        if isinstance(inventory, Missing):
            continue
        told[host] = {name: tell(inventory) for name, tell in _TOLD.items()}
        kernel = kernels[host]
        told[host]["kernel"] = None if isinstance(kernel, Missing) else kernel.release
        told[host]["NIC firmware"] = _firmware(nics[host])
    if not any(values["NIC firmware"] for values in told.values()):
        for values in told.values():
            del values["NIC firmware"]
    common = {name: _most([values[name] for values in told.values()]) for name in _names(told)}
    for host, inventory in inventories.items():
        if isinstance(inventory, Missing):
            yield unknown(host, inventory, "the same as the others")
            continue
        twin = _twin(host, inventory, inventories)
        if twin:
            why = f"the same GPUs as {twin}: one node, given twice"
            yield Finding(host, Status.UNKNOWN, "another node", why, (at(inventory),), _TWICE)
            continue
        yield _compared(host, told, common, inventory, kernels[host])


_TWICE = "give each node once"


def _twin(
    host: str, inventory: GpuInventory, inventories: Mapping[str, GpuInventory | Missing]
) -> str:
    """Another host of the list that has GPUs of this one, or ""."""
    mine = {gpu.uuid for gpu in inventory.gpus if gpu.uuid}
    for other, found in inventories.items():
        if other == host or isinstance(found, Missing):
            continue
        if mine & {gpu.uuid for gpu in found.gpus}:
            return other
    return ""


def _compared(
    host: str,
    told: dict[str, dict[str, str | None]],
    common: dict[str, str | None],
    inventory: GpuInventory,
    kernel: KernelRelease | Missing,
) -> Finding:
    mine = told[host]
    odd = [n for n, value in mine.items() if value is not None and value != common[n]]
    lost = [n for n, value in mine.items() if value is None]
    shown = odd or lost or list(mine)
    expected = ", ".join(f"{n} {common[n] or 'one for all'}" for n in shown)
    actual = ", ".join(f"{n} {mine[n] or 'not told'}" for n in shown)
    split = [n for n in odd if common[n] is None]
    if split:  # no majority: who has what
        actual += "; " + "; ".join(
            f"{other}: " + ", ".join(f"{n} {values[n] or 'not told'}" for n in split)
            for other, values in list(told.items())[:6]
            if other != host
        )
    status = Status.FAIL if odd else Status.UNKNOWN if lost else Status.PASS
    if len(told) < 2:
        status, actual = Status.UNKNOWN, f"{actual}; no other node could be read"
    here = (
        (at(kernel, kernel.line),) if isinstance(kernel, KernelRelease) and "kernel" in odd else ()
    )
    return Finding(host, status, expected, actual, (*here, at(inventory)))


def _firmware(nics: RdmaPorts | Missing) -> str | None:
    if isinstance(nics, Missing):
        return None
    return _one_of({f"{p.device_type or 'NIC'} {p.firmware}" for p in nics.ports if p.firmware})


def _names(told: dict[str, dict[str, str | None]]) -> list[str]:
    return list(next(iter(told.values()), {}))


def _most(values: list[str | None]) -> str | None:
    """What more than half of the nodes that tell it say; None where nothing is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    value, number = Counter(known).most_common(1)[0]
    return value if number * 2 > len(known) else None


CHECKS: tuple[Check, ...] = (same_stack,)
