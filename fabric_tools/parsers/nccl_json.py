"""JSON of nccl-tests (``-J FILE``).

Evidence: written after nccl-tests' source and a schema-derived sample; no real capture (format
unverified). Booleans are the strings "true" and "false".
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from fabric_tools.models.nccl import NcclDevice, NcclMeasure, NcclRow, NcclRun, NcclTests
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import Finder, int_of, list_of, load_json, note
from fabric_tools.parsers.bounded import object_of as _object_of
from fabric_tools.parsers.bounded import text_of as _text_of
from fabric_tools.parsers.nccl_rows import Sweep, missing

PROBE = "nccl_tests"
_MAX_ROWS = 20_000


def _object(value: Any, what: str) -> dict[str, Any]:
    return _object_of(PROBE, value, what)


def _number(item: dict[str, Any], key: str) -> float | None:
    value = item.get(key)
    if value is None or value == "nan":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e18:
        raise ParseError(PROBE, 0, f"{key} is not a number")
    return float(value)


def _flag(item: dict[str, Any], key: str) -> bool | None:
    value = item.get(key)
    if value in ("true", True):
        return True
    if value in ("false", False):
        return False
    if value in (None, "unchecked"):
        return None
    raise ParseError(PROBE, 0, f"{key} is neither true nor false")


def _need(value: int | None, what: str) -> int:
    if value is None or value < 0:
        raise ParseError(PROBE, 0, f"{what} is missing")
    return value


def _half(row: dict[str, Any], key: str) -> NcclMeasure | None:
    if row.get(key) is None:
        return None
    half = _object(row[key], key)
    time_key = "cpu_time" if "cpu_time" in half else "time"
    for needed in (time_key, "alg_bw", "bus_bw", "nwrong"):
        if needed not in half:
            raise ParseError(PROBE, 0, f"{key} has no {needed}")
    return NcclMeasure(
        time_us=_number(half, time_key),
        algbw_gbytes_s=_number(half, "alg_bw"),
        busbw_gbytes_s=_number(half, "bus_bw"),
        wrong=_number(half, "nwrong"),
    )


def _root(row: dict[str, Any]) -> int | None:
    value = row.get("root")
    if isinstance(value, str):
        stripped = value.strip()
        if stripped == "-1" or (stripped.isascii() and stripped.isdigit() and len(stripped) < 7):
            return int(stripped)
        raise ParseError(PROBE, 0, "root is not a number")
    return int_of(PROBE, row, "root")


def _row(value: Any, lines: Finder) -> NcclRow:
    row = _object(value, "a result")
    kind = _text_of(PROBE, row, "type")
    if kind is None:
        raise ParseError(PROBE, 0, "a result has no type")
    return NcclRow(
        line=lines.key("size"),
        size_bytes=_need(int_of(PROBE, row, "size"), "size"),
        count=_need(int_of(PROBE, row, "count"), "count"),
        type=kind,
        redop=_text_of(PROBE, row, "redop"),
        root=_root(row),
        out_of_place=_half(row, "out_of_place"),
        in_place=_half(row, "in_place"),
    )


def _device(value: Any, lines: Finder) -> NcclDevice:
    item = _object(value, "a device")
    texts = {key: _text_of(PROBE, item, key) for key in ("hostname", "device_hex", "device_info")}
    return NcclDevice(
        line=lines.key("rank"),
        rank=_need(int_of(PROBE, item, "rank"), "rank"),
        group=int_of(PROBE, item, "group"),
        pid=int_of(PROBE, item, "pid"),
        host=texts["hostname"] or "",
        device=_need(int_of(PROBE, item, "device"), "device"),
        bus_id=texts["device_hex"] or "",
        name=texts["device_info"] or "",
    )


def _collective(top: dict[str, Any]) -> str | None:
    args = top.get("args")
    if not isinstance(args, list) or not args or not isinstance(args[0], str):
        return None
    name = PurePosixPath(args[0]).name.removesuffix("_mpi")
    return name.removesuffix("_perf") if name.endswith("_perf") else None


def _sweep(config: dict[str, Any]) -> Sweep | None:
    low, high = int_of(PROBE, config, "minimum_bytes"), int_of(PROBE, config, "maximum_bytes")
    factor, step = int_of(PROBE, config, "step_factor"), int_of(PROBE, config, "step_bytes")
    if low is None or high is None or (factor is None and step is None):
        return None
    return Sweep(low, high, factor or step or 0, factor is not None)


def _version(top: dict[str, Any]) -> str | None:
    code = int_of(PROBE, top, "nccl_version")
    if code is None or code < 20900:
        return None
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"


def _slack(rows: list[NcclRow]) -> float:
    cells = [h.busbw_gbytes_s or 0.0 for r in rows for h in (r.out_of_place, r.in_place) if h]
    return max([0.01, *(1e-6 * cell for cell in cells)])


def _top(text: str) -> dict[str, Any]:
    top = _object(load_json(PROBE, text), "the text")
    if "results" not in top or "version" not in top:
        raise ParseError(PROBE, 0, "no version and results: not the report of nccl-tests")
    return top


def _bounds(top: dict[str, Any]) -> tuple[int | None, bool | None]:
    bounds = _object(top.get("out_of_bounds") or {}, "out_of_bounds")
    count, okay = int_of(PROBE, bounds, "count"), _flag(bounds, "okay")
    if count is not None and okay is not None and okay != (count == 0):
        raise ParseError(PROBE, 0, "out_of_bounds: count and okay contradict each other")
    return count, okay


def _said(error: Any) -> str:
    """An error as text, whatever form it has; "" where it says nothing."""
    if error is None or isinstance(error, str):
        return (error or "").strip()
    return json.dumps(error, ensure_ascii=False)


def parse_nccl_json(text: str) -> NcclTests:
    """The one test of a JSON report."""
    top, lines = _top(text), Finder(text)
    results = list_of(PROBE, top["results"], "results")
    if len(results) > _MAX_ROWS:
        raise ParseError(PROBE, 0, "too many results")
    config = _object(top.get("config") or {}, "config")
    listed = list_of(PROBE, config.get("devices") or [], "devices")
    devices = tuple(_device(item, lines) for item in listed)
    rows = [_row(item, lines) for item in results]
    count, okay = _bounds(top)
    average = _object(top.get("average_bus_bandwidth") or {}, "average_bus_bandwidth")
    bandwidth = _number(average, "bandwidth")
    gone = missing(rows, _sweep(config), bandwidth, _slack(rows))
    errors = list_of(PROBE, top.get("errors") or [], "errors")
    run = NcclRun(
        line=1,
        layout="json",
        collective=_collective(top),
        ranks=max((device.rank for device in devices), default=-1) + 1 or None,
        devices=devices,
        nccl_version=_version(top),
        validation=int_of(PROBE, config, "validation"),
        min_bytes=int_of(PROBE, config, "minimum_bytes"),
        max_bytes=int_of(PROBE, config, "maximum_bytes"),
        error_column="#wrong",
        rows=tuple(rows),
        rows_missing=gone,
        out_of_bounds=count,
        out_of_bounds_ok=okay,
        out_of_bounds_line=lines.key("out_of_bounds") if count is not None else None,
        avg_busbw_gbytes_s=bandwidth,
        avg_busbw_ok=_flag(average, "okay"),
        avg_busbw_line=lines.key("average_bus_bandwidth") if average else None,
        failures=tuple(note(0, e) for e in map(_said, errors) if e)[:100],
        complete=gone is None and count is not None and okay is not None,
    )
    return NcclTests(runs=(run,))
