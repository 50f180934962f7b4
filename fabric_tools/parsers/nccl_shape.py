"""What an nccl-tests table tells of its test although it is not printed: collective and ranks.

Evidence: ``busbw = algbw * 2(n-1)/n`` for all_reduce, ``(n-1)/n`` or 1 for every other collective
(nccl-tests, doc/PERFORMANCE.md); both figures are printed with two decimals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fabric_tools.models.nccl import NcclRow, NcclRun

#: No platform file has more GPUs in one node; a test of more ranks went over several.
MOST_GPUS = 8
#: busbw = algbw * (n-1)/n.
_FRACTION = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
#: More than rounding makes of a factor of 1; the least of all_reduce above it is 4/3.
_ABOVE_ONE = 1.05
#: How far retyped figures may be from the factor of the ranks that are listed.
_NEAR = 0.01
_MOST_RANKS = 1_000_000
#: Below it the rounding of the printed figures leaves no number of ranks out.
_LEAST_GBYTES_S = 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """``notes``: what was computed and not printed. ``doubt``: why the text contradicts itself."""

    collective: str | None
    ranks: int | None
    notes: tuple[str, ...] = ()
    doubt: str = ""


def _rounding(value: float) -> float:
    """What rounding may have cost; the tool drops decimals of figures that need the room."""
    return 0.0055 if value < 1000 else 0.055 if value < 10_000 else 0.55


@dataclass(frozen=True, slots=True)
class _Factor:
    """busbw/algbw: what every row allows (``low`` above ``high``: nothing), and the middle row."""

    low: float
    high: float
    middle: float


def _factor(rows: tuple[NcclRow, ...]) -> _Factor | None:
    """None where no row is precise enough."""
    low, high, each = 0.0, math.inf, []
    for row in rows:
        for half in (row.out_of_place, row.in_place):
            if half is None or half.algbw_gbytes_s is None or half.busbw_gbytes_s is None:
                continue
            alg, bus = half.algbw_gbytes_s, half.busbw_gbytes_s
            if alg < _LEAST_GBYTES_S or bus <= 0:
                continue
            low = max(low, (bus - _rounding(bus)) / (alg + _rounding(alg)))
            high = min(high, (bus + _rounding(bus)) / (alg - _rounding(alg)))
            each.append(bus / alg)
    return _Factor(low, high, sorted(each)[len(each) // 2]) if each else None


def _whole(low: float, high: float) -> range:
    first = max(2, math.ceil(low - 1e-9))
    last = _MOST_RANKS if high > _MOST_RANKS else math.floor(high + 1e-9)
    return range(first, max(first, last + 1))


def _ranks_all_reduce(low: float, high: float) -> range:
    """Every n of which 2(n-1)/n lies between the two. Empty where there is none."""
    if low > high or low >= 2 or high < 1:
        return range(0)
    return _whole(2 / (2 - low), math.inf if high >= 2 else 2 / (2 - high))


def _ranks_fraction(low: float, high: float) -> range:
    """The same for (n-1)/n."""
    if low > high or low >= 1:
        return range(0)
    return _whole(1 / (1 - low), math.inf if high >= 1 else 1 / (1 - high))


def shape_of(run: NcclRun) -> Shape:
    """Collective and ranks, printed or computed, and whether the two agree."""
    collective, ranks = run.collective, run.ranks
    factor = _factor(run.rows)
    if factor is None or collective not in (None, "all_reduce", *_FRACTION):
        return Shape(collective, ranks)
    notes: list[str] = []
    if collective is None and factor.middle > _ABOVE_ONE:
        collective = "all_reduce"
        notes.append("all_reduce by busbw / algbw")
    if collective == "all_reduce":
        return _all_reduce(ranks, factor, notes)
    fits = _ranks_fraction(factor.low, factor.high) if factor.high < 1 else range(0)
    return _computed(collective, fits, notes) if ranks is None else Shape(collective, ranks)


def _all_reduce(ranks: int | None, factor: _Factor, notes: list[str]) -> Shape:
    fits = _ranks_all_reduce(factor.low, factor.high)
    if ranks is None:
        return _computed("all_reduce", fits, notes)
    if ranks in fits:
        return Shape("all_reduce", ranks, tuple(notes))
    if fits and ranks < fits[0]:
        return _computed("all_reduce", fits, [*notes, f"the list of ranks is cut at {ranks}"])
    wanted = 2 * (ranks - 1) / ranks
    doubt = ""
    if abs(factor.middle - wanted) > _NEAR * wanted:
        doubt = f"busbw / algbw is {factor.middle:.4g}, of {ranks} ranks it is {wanted:.4g}"
    return Shape("all_reduce", ranks, tuple(notes), doubt)


def _computed(collective: str | None, fits: range, notes: list[str]) -> Shape:
    if len(fits) != 1:
        return Shape(collective, None, tuple(notes))
    return Shape(collective, fits[0], (*notes, f"{fits[0]} ranks by busbw / algbw"))


def hosts_of(run: NcclRun, shape: Shape) -> int | None:
    """How many hosts the list of ranks shows; None where it is missing or cut.

    Containers may all have one name: then a GPU that stands there twice is on another host.
    """
    if not run.devices or len(run.devices) != run.ranks or shape.ranks != run.ranks:
        return None
    hosts = {device.host for device in run.devices}
    places = {(device.host, device.bus_id) for device in run.devices}
    if len(hosts) == 1 and 1 < len(places) < len(run.devices):
        return -(-len(run.devices) // len(places))
    return len(hosts)


def over_hosts(run: NcclRun) -> bool | None:
    """Whether the test went over several hosts; None where nothing tells."""
    shape = shape_of(run)
    hosts = hosts_of(run, shape)
    if hosts is not None:
        return hosts > 1
    if len({device.host for device in run.devices}) > 1:
        return True
    return True if shape.ranks is not None and shape.ranks > MOST_GPUS else None
