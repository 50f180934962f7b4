"""One test of nccl-tests against the platform's figure: which figure, and does it reach it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric_tools.checks.nccl_said import Said, here, named, size
from fabric_tools.models.nccl import NcclDebug, NcclRow, NcclRun, NvlsState
from fabric_tools.models.nccl_texts import NcclText
from fabric_tools.models.platform import NcclGate, Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.nccl_shape import Shape, hosts_of, shape_of

#: A gate warns at or a little below what was measured on good nodes. Half as much again was never
#: measured anywhere: the table is then of another machine, of another unit, or made up. Over NICs
#: the double: on two nodes a tree crosses the wire once where a ring does almost twice
#: (NVIDIA in nccl-tests#196), and busbw is computed as if it were a ring.
_BELIEVABLE, _BELIEVABLE_OVER_NICS = 1.5, 2.0

_NVLS_REMEDY = (
    "the figure is that of a ring, so NVLS is off: run it again with NCCL_DEBUG=INFO and look for "
    "'NVLS multicast support is available'; NCCL_NVLS_ENABLE must not be 0; see fabric.manager and "
    "fabric.state (a manager that was restarted needs a reset of all GPUs)"
)
_AGAIN = "run it again to its end: `all_reduce_perf -b 8 -e 16G -f 2 -g 8 -c 1`, and save all of it"
_CLIFF_REMEDY = (
    "larger messages are much slower than smaller ones: congestion between nodes (PFC, ECN, "
    "traffic class, adaptive routing), another job, or throttling; repeat it on the idle node"
)
_BY_HAND = "compare it with a node of the same kind that is known to be good, or waive this check"
_RAILS = "declare the compute NICs of this host as rails with port_gbits_s in the inventory"


_OFF: dict[NvlsState, str] = {
    "failed": "NVLS failed",
    "disabled_by_environment": "NVLS is disabled by NCCL_NVLS_ENABLE",
    "unavailable": "NVLS is not available",
}


def why_no_nvls(logs: Sequence[NcclDebug]) -> str:
    """Why NVLS was not used, by NCCL's logs; "" where none says so. A forced algorithm counts."""
    states = {log.nvls for log in logs}
    for state, why in _OFF.items():
        if state in states:
            return why
    for log in logs:
        words = log.environment.get("NCCL_ALGO", "").lower()
        if words and ("nvls" in words) == words.startswith("^"):
            return f"NCCL_ALGO is {log.environment['NCCL_ALGO'][:40]}"
    return ""


def network_of(spec: Target) -> str | None:
    """``8x400g``: compute NICs by the inventory's rails, else by the platform; None not known."""
    speed, count = spec.nic.port_gbits_s.value, spec.nic.count.value
    if spec.site.rails:
        speeds = {rail.port_gbits_s or speed for rail in spec.site.rails}
        speed, count = speeds.pop() if len(speeds) == 1 else None, len(spec.site.rails)
    return f"{count}x{speed}g" if count and speed else None


def _nodes(run: NcclRun, shape: Shape, log: NcclDebug | None, spec: Target) -> int | None:
    """Hosts by the list of ranks, by NCCL's log, else by how many GPUs a node has."""
    listed = hosts_of(run, shape)
    if listed is not None:
        return listed
    if log is not None and log.nodes is not None:
        return log.nodes
    names = len({device.host for device in run.devices})
    if shape.ranks is None:
        return None
    if shape.ranks <= spec.gpu.number and names <= 1:
        return 1
    full, rest = divmod(shape.ranks, spec.gpu.number)
    return max(full, names) if not rest else None


#: From this size on bandwidth grows with the size or stays; small ones are all latency.
_GROWS_FROM = 1 << 20
#: Changes of algorithm and protocol cost less than this; congestion costs more.
_FALL = 1 / 3


def cliff(run: NcclRun, text: NcclText) -> Said | None:
    """Whether larger sizes are far slower than a smaller one, which no machine does by itself."""
    rows = sorted((row for row in run.rows if row.size_bytes >= _GROWS_FROM), key=_size_of)
    low: dict[int, NcclRow] = {}
    words = ""
    for side in ("out_of_place", "in_place"):
        top, at_size = 0.0, 0
        for row in rows:
            half = getattr(row, side)
            value = half.busbw_gbytes_s if half is not None else None
            if value is None:
                continue
            if value < top * _FALL:
                low[row.size_bytes] = row
                words = words or (
                    f"{value:g} GB/s at {size(row.size_bytes)} where {size(at_size)} had {top:g}"
                )
            elif value > top:
                top, at_size = value, row.size_bytes
    if not low:
        return None
    status = Status.FAIL if len(low) > 1 else Status.WARN
    name = named(run, shape_of(run).collective)
    place = here(text, low[min(low)].line)
    return Said(status, f"{name}: {words}", place, "no fall at larger sizes", _CLIFF_REMEDY)


def _size_of(row: NcclRow) -> int:
    return row.size_bytes


def _offers(gates: Sequence[NcclGate]) -> str:
    offers = dict.fromkeys(
        f"{g.ranks} ranks on {g.nodes} node{'s' if g.nodes > 1 else ''} over {g.fabric}"
        for g in gates
    )
    return f"all_reduce of {', '.join(offers)}"


def _largest(run: NcclRun) -> tuple[NcclRow, float] | None:
    """The row of the largest size with the lowest figure; in place and out of place both count."""
    sizes = [row.size_bytes for row in run.rows]
    if not sizes or max(sizes) == 0:
        return None
    found: list[tuple[float, int, NcclRow]] = []
    for row in run.rows:
        if row.size_bytes == max(sizes):
            for half in (row.out_of_place, row.in_place):
                if half is not None and half.busbw_gbytes_s is not None:
                    found.append((half.busbw_gbytes_s, row.line, row))
    if not found:
        return None
    value, _, row = min(found, key=lambda item: item[:2])
    return row, value


def judge(run: NcclRun, text: NcclText, off: str, spec: Target) -> Said:
    """What the largest size of one test says."""
    shape = shape_of(run)
    name = named(run, shape.collective)
    told = f" ({', '.join(shape.notes)})" if shape.notes else ""
    place = here(text, run.line)
    best = _largest(run)
    if best is None:
        return Said(Status.UNKNOWN, f"{name}: no size was measured", place, remedy=_AGAIN)
    row, value = best
    place = here(text, row.line)
    shown = f"{name}: {value:g} GB/s at {size(row.size_bytes)}{told}"
    if shape.doubt:
        return Said(Status.UNKNOWN, f"{shown}; {shape.doubt}", place, remedy=_AGAIN)
    gates, why, remedy = _gates(run, shape, text.log, spec)
    if not gates:
        actual = f"{shown}; {why}"
        return Said(Status.UNKNOWN, actual, place, remedy=remedy, comparable=False)
    times = _BELIEVABLE if gates[0].fabric == "nvlink" else _BELIEVABLE_OVER_NICS
    if value > times * max(gate.warn_below for gate in gates):
        actual = f"{shown}, more than was ever measured on such a node"
        return Said(Status.UNKNOWN, actual, place, _wanted(gates[0]), _AGAIN)
    found = _against(gates, off, row, value, Said(Status.PASS, shown, place))
    return _trusted(run, found)


def _gates(
    run: NcclRun, shape: Shape, log: NcclDebug | None, spec: Target
) -> tuple[list[NcclGate], str, str]:
    """The gates for this case, and why there is none."""
    if not spec.nccl:
        return [], "this platform has no figure to compare with", _BY_HAND
    offers = f"there are figures for {_offers(spec.nccl)}"
    again = "run all_reduce_perf over all GPUs"
    if shape.collective is None:
        return [], f"the collective is not printed; {offers}", _AGAIN
    of_kind = [gate for gate in spec.nccl if gate.collective == shape.collective]
    if not of_kind:
        return [], f"no figure for {shape.collective}; {offers}", again
    if shape.ranks is None:
        return [], f"the number of ranks is not printed; {offers}", _AGAIN
    nodes = _nodes(run, shape, log, spec)
    ranks = f"{shape.ranks} ranks"
    if nodes is None:
        return [], f"on how many nodes the {ranks} were is not printed; {offers}", _AGAIN
    case = f"{ranks} on {nodes} node{'s' if nodes != 1 else ''}"
    fits = [gate for gate in of_kind if (gate.nodes, gate.ranks) == (nodes, shape.ranks)]
    if not fits:
        return [], f"no figure for {case}; {offers}", again
    network = network_of(spec)
    chosen = [gate for gate in fits if gate.fabric in ("nvlink", network)]
    if chosen:
        return chosen, "", ""
    if network is None:
        return [], f"{case}, the network is not known; {offers}", _RAILS
    return [], f"no figure for {case} over {network}; {offers}", _RAILS


def _wanted(gate: NcclGate) -> str:
    over = f"over {gate.fabric}" if gate.nodes > 1 else "inside one node"
    return (
        f"{gate.collective} of {gate.ranks} ranks {over} by {gate.algorithm}: "
        f"{gate.warn_below:g} GB/s, fails below {gate.fail_below:g}, from {size(gate.min_bytes)}"
    )


def _against(gates: list[NcclGate], off: str, row: NcclRow, value: float, said: Said) -> Said:
    by = {gate.algorithm: gate for gate in gates}
    nvls, ring = by.get("nvls"), by.get("ring")
    gate = ring if nvls is None or off else nvls
    if gate is None:
        assert nvls is not None
        actual = f"{said.actual}; {off}, and there is no figure for a ring"
        return replace(said, status=Status.UNKNOWN, actual=actual, expected=_wanted(nvls))
    said = replace(said, expected=_wanted(gate))
    if row.size_bytes < gate.min_bytes:
        actual = f"{said.actual}; the figure holds from {size(gate.min_bytes)} on"
        remedy = f"run it again with -e {gate.min_bytes >> 30}G or more"
        return replace(said, status=Status.UNKNOWN, actual=actual, remedy=remedy, comparable=False)
    if value < gate.fail_below:
        slow = ring is not None and gate is nvls and value >= ring.fail_below
        return replace(said, status=Status.FAIL, remedy=_NVLS_REMEDY if slow else "")
    if value < gate.warn_below:
        return replace(said, status=Status.WARN)
    if nvls is not None and off:
        actual = f"{said.actual}, good for a ring; {off}"
        remedy = "take the variable away and run it again: this says nothing of NVLS"
        if "NCCL_" not in off:
            remedy = "see nccl.transport"
        return replace(said, status=Status.WARN, actual=actual, remedy=remedy)
    return said


def _trusted(run: NcclRun, said: Said) -> Said:
    """A good figure counts only where the test ended well."""
    if said.status not in (Status.PASS, Status.WARN):
        return said
    why = ""
    if run.failures or run.avg_busbw_ok is False or run.out_of_bounds_ok is False:
        why = "the test failed"
    elif not run.complete:
        why = run.rows_missing or "no closing line"
    if not why:
        return said
    return replace(said, status=Status.UNKNOWN, actual=f"{said.actual}; {why}", remedy=_AGAIN)
