"""Signs that rows of an nccl-tests table are missing, although what is there reads well.

Evidence: real captures with elided and deleted rows below an intact footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fabric_tools.models.nccl import NcclRow

#: Below it the tool rounds sizes down to whole elements per rank, so steps are uneven.
_EVEN_FROM = 1024 * 1024


@dataclass(frozen=True)
class Sweep:
    """The sizes that the configuration line announces."""

    min_bytes: int
    max_bytes: int
    step: int
    by_factor: bool

    def steps(self) -> int | None:
        """How many sizes there are; None where the line makes no sense."""
        if self.min_bytes > self.max_bytes:
            return None
        if not self.by_factor:
            return (self.max_bytes - self.min_bytes) // self.step + 1 if self.step > 0 else 1
        if self.step < 2 or self.min_bytes < 1:
            return None
        count, size = 0, self.min_bytes
        while size <= self.max_bytes:
            count, size = count + 1, size * self.step
        return count


def mean_busbw(rows: Sequence[NcclRow]) -> float | None:
    """Mean of every bus bandwidth, as the tool averages; None if a cell is N/A."""
    cells = [half for row in rows for half in (row.out_of_place, row.in_place) if half]
    values = [half.busbw_gbytes_s for half in cells if half.busbw_gbytes_s is not None]
    if not cells or len(values) != len(cells):
        return None
    return sum(values) / len(values)


def _uneven(sizes: Sequence[int]) -> bool:
    pairs = list(pairwise(sizes))
    if len(pairs) < 2:
        return False
    ratios = [after / before for before, after in pairs]
    gaps = [after - before for before, after in pairs]
    return max(ratios) > 1.4 * min(ratios) and max(gaps) > 1.4 * min(gaps)


def _gap(rows: Sequence[NcclRow]) -> bool:
    series: list[int] = []
    previous: tuple[str, str | None, int | None] | None = None
    for row in rows:
        kind = (row.type, row.redop, row.root)
        if series and (kind != previous or row.size_bytes <= series[-1]):
            if _uneven(series):
                return True
            series = []
        previous = kind
        if row.size_bytes >= _EVEN_FROM:
            series.append(row.size_bytes)
    return _uneven(series)


def agrees(mean: float, average: float, slack: float) -> bool:
    """Whether the mean of the rows is the printed average. ``slack``: what rounding may cost."""
    return abs(mean - average) <= 1.1 * slack + 1e-5 * abs(average) + 1e-9


def missing(
    rows: Sequence[NcclRow], sweep: Sweep | None, average: float | None, slack: float
) -> str | None:
    """Why rows are known to be missing, None if nothing speaks for it.

    ``slack``: what rounding of the printed cells may have moved the mean.
    """
    if not rows:
        return "no row"
    steps = sweep.steps() if sweep else None
    if steps and len(rows) % steps:
        return f"{len(rows)} rows where the sizes asked for make {steps}"
    mean = mean_busbw(rows)
    if average is not None and mean is not None and not agrees(mean, average, slack):
        return f"the rows average {mean:.6g}, the footer says {average:.6g}"
    if not steps and _gap(rows):
        return "a size is left out"
    return None
