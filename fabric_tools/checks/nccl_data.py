"""One test of nccl-tests: did it end, was every element compared, and was every one right?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.nccl_said import Said, here, named, size
from fabric_tools.models.nccl import NcclMeasure, NcclRow, NcclRun
from fabric_tools.models.nccl_texts import NcclText
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.nccl_shape import shape_of

#: nccl-tests does not check these in place (``reportErrors`` in alltoall.cu and sendrecv.cu).
_ONLY_OUT_OF_PLACE = ("alltoall", "alltoallv", "sendrecv")
#: These only move data: any difference from what was sent is wrong, none is rounding.
_EXACT = ("all_gather", "broadcast", "gather", "scatter", *_ONLY_OUT_OF_PLACE)
_AGAIN = "run it again to its end with -c 1, and save all that it prints"
_CRASHED = "read its first error; see cuda.init and kernel.xid; run it again with NCCL_DEBUG=INFO"


def _halves(row: NcclRow) -> Iterator[tuple[str, NcclMeasure]]:
    if row.out_of_place is not None:
        yield "out of place", row.out_of_place
    if row.in_place is not None:
        yield "in place", row.in_place


def _wrong(run: NcclRun, exact: bool) -> tuple[int, str] | None:
    """Line and words of the first size with wrong elements."""
    for row in run.rows:
        for where, half in _halves(row):
            if half.wrong:
                return row.line, f"{half.wrong:g} wrong elements at {size(row.size_bytes)} {where}"
            if exact and half.max_delta:
                return row.line, f"a difference of {half.max_delta:g} at {size(row.size_bytes)}"
    return None


def _unchecked(run: NcclRun, collective: str | None) -> int | None:
    """Line of the first row that was not compared."""
    for row in run.rows:
        for where, half in _halves(row):
            if where == "in place" and collective in _ONLY_OUT_OF_PLACE:
                continue
            if row.size_bytes and half.wrong is None and half.max_delta is None:
                return row.line
    return None


def judge(run: NcclRun, text: NcclText) -> Said:
    """What one test says of its data. The worst sign anywhere in it counts."""
    shape = shape_of(run)
    name = named(run, shape.collective)
    wrong = _wrong(run, shape.collective in _EXACT)
    if wrong:
        return Said(Status.FAIL, f"{name}: {wrong[1]}", here(text, wrong[0]))
    if run.out_of_bounds or run.out_of_bounds_ok is False:
        actual = f"{name}: {run.out_of_bounds} values out of bounds"
        return Said(Status.FAIL, actual, here(text, run.out_of_bounds_line))
    if run.failures:
        first = run.failures[0]
        actual = f"{name} failed: {first.text[:120]}"
        return Said(Status.FAIL, actual, here(text, first.line), remedy=_CRASHED)
    if run.avg_busbw_ok is False:
        actual = f"{name}: the bandwidth that was asked for was not reached (Avg bus bandwidth)"
        return Said(Status.FAIL, actual, here(text, run.avg_busbw_line))
    line, doubt = _doubt(run, shape.collective, shape.ranks)
    if doubt:
        return Said(Status.UNKNOWN, f"{name}: {doubt}", here(text, line), remedy=_AGAIN)
    largest = max(row.size_bytes for row in run.rows)
    actual = f"{name}: {len(run.rows)} rows up to {size(largest)}, none wrong"
    return Said(Status.PASS, actual, here(text, run.out_of_bounds_line))


def _doubt(run: NcclRun, collective: str | None, ranks: int | None) -> tuple[int | None, str]:
    if not run.rows or not any(row.size_bytes for row in run.rows):
        return run.line, "no size was measured: it hung, or the text is cut"
    if run.rows_missing or run.unreadable_lines:
        line = run.unreadable_lines[0] if run.unreadable_lines else run.line
        return line, run.rows_missing or "a row is cut or garbled"
    if run.out_of_bounds is None or run.out_of_bounds_ok is None or not run.complete:
        return run.rows[-1].line, "no closing line (Out of bounds values): the text is cut"
    unchecked = _unchecked(run, collective)
    if run.validation == 0 or unchecked is not None:
        return unchecked or run.line, "the data was not compared (-c 0, N/A)"
    if ranks == 1:
        return run.line, "a single GPU exchanges nothing"
    return None, ""
