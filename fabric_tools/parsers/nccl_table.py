"""The table of nccl-tests: its heading says the columns, a row must have exactly these.

Evidence: real captures of the "error" layout (with redop, with root, with neither), of the
"#wrong" layout in three spacings and with "#iters"; the oldest "bytes N type op ... res" heading
is re-rendered from facts; "cputime", "timestamp" and per-iteration columns follow nccl-tests'
source (format unverified).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fabric_tools.models.nccl import NcclMeasure, NcclRow

_NAMES = {"bytes": "size", "N": "count", "op": "redop", "cputime": "time", "wrong": "#wrong"}
_LEAD = ("size", "count", "type", "redop", "root")
_CHECKS = ("#wrong", "error", "res")
_EXTRA = ("#iters", "iters", "timestamp", "i_min", "i_max", "i_p99", "i_cv%")
_NUMBER = re.compile(r"\d{1,20}(?:\.(\d{1,12}))?(?:e([+-]?\d{1,3}))?", re.ASCII)
_SIZE = re.compile(r"\d{1,18}", re.ASCII)
_ROOT = re.compile(r"-1|\d{1,6}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]{0,15}", re.ASCII)
_ROW_LIKE = re.compile(r"\s*\d{1,20}\s+\d{1,20}\s+[a-z][a-z0-9_]{0,15}(?:\s|$)", re.ASCII)


class Unreadable(ValueError):
    """A heading or row that is cut or garbled."""


@dataclass(frozen=True)
class Layout:
    """Columns in order: lead columns by name, measures as ``0.time`` or ``1.#wrong``."""

    lead: tuple[str, ...]
    columns: tuple[str, ...]
    check: str
    halves: int


def is_heading(words: list[str]) -> bool:
    """Whether these words begin the heading of a table."""
    return words[:3] in (["size", "count", "type"], ["bytes", "N", "type"])


def read_heading(words: list[str]) -> Layout:
    """The columns of a heading line."""
    names = [_NAMES.get(word, word) for word in words]
    start = names.index("time") if "time" in names else 0
    lead, columns, checks, half = tuple(names[:start]), names[:start], set(), -1
    if not start or any(name not in _LEAD for name in lead) or len(set(lead)) != len(lead):
        raise Unreadable("columns before the first time")
    for name in names[start:]:
        if name == "time":
            half += 1
        elif name in _CHECKS:
            checks.add(name)
        elif name not in ("algbw", "busbw", *_EXTRA):
            raise Unreadable(f"unknown column {name[:20]!r}")
        columns.append(f"{half}.{'check' if name in _CHECKS else name}")
        if name == "timestamp":
            columns.append("clock")
    for number in range(half + 1):
        wanted = {f"{number}.{name}" for name in ("time", "algbw", "busbw", "check")}
        if not wanted <= set(columns):
            raise Unreadable("a half of the heading is cut")
    if half not in (0, 1) or len(checks) != 1 or len(set(columns)) != len(columns):
        raise Unreadable("not one or two measurements")
    return Layout(lead, tuple(columns), checks.pop(), half + 1)


def is_row(line: str) -> bool:
    """Whether a line starts like a row: size, count, type."""
    return _ROW_LIKE.match(line) is not None


def is_number(word: str) -> bool:
    """A cell of a measurement."""
    return word == "N/A" or _NUMBER.fullmatch(word) is not None


def _value(word: str) -> float | None:
    if word == "N/A":
        return None
    if _NUMBER.fullmatch(word) is None or not math.isfinite(float(word)):
        raise Unreadable(f"not a number: {word[:20]!r}")
    return float(word)


def half_unit(word: str) -> float:
    """Half of the last printed digit: what rounding may have cost."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        return 0.0
    return 0.5 * 10.0 ** (int(match[2] or 0) - len(match[1] or ""))


def _measure(cells: dict[str, str], half: int, check: str) -> NcclMeasure:
    checked = _value(cells[f"{half}.check"])
    return NcclMeasure(
        time_us=_value(cells[f"{half}.time"]),
        algbw_gbytes_s=_value(cells[f"{half}.algbw"]),
        busbw_gbytes_s=_value(cells[f"{half}.busbw"]),
        wrong=checked if check == "#wrong" else None,
        max_delta=checked if check != "#wrong" else None,
    )


def lead_is_whole(layout: Layout, words: list[str]) -> bool:
    """Exactly the columns before the first time (the rest may follow behind log lines)."""
    forms = {"size": _SIZE, "count": _SIZE, "root": _ROOT}
    return len(words) == len(layout.lead) and all(
        forms.get(name, _WORD).fullmatch(word)
        for name, word in zip(layout.lead, words, strict=False)
    )


def layout_of_row(words: list[str]) -> Layout | None:
    """The layout of a row whose heading was cut off: only the newest has redop and root both."""
    names = [*_LEAD, *("time", "algbw", "busbw", "#wrong") * 2]
    layout = read_heading(names)
    whole = len(words) == len(names) and lead_is_whole(layout, words[:5])
    return layout if whole and all(map(is_number, words[5:])) else None


def read_row(layout: Layout, words: list[str], number: int) -> tuple[NcclRow, float]:
    """A row, and half of the last digit of its bus bandwidths, summed."""
    lead = len(layout.lead)
    if len(words) != len(layout.columns) or not lead_is_whole(layout, words[:lead]):
        raise Unreadable("not the columns of the heading")
    cells = dict(zip(layout.columns, words, strict=False))
    row = NcclRow(
        line=number,
        size_bytes=int(cells["size"]),
        count=int(cells["count"]),
        type=cells["type"],
        redop=cells.get("redop"),
        root=int(cells["root"]) if "root" in cells else None,
        out_of_place=_measure(cells, 0, layout.check),
        in_place=_measure(cells, 1, layout.check) if layout.halves == 2 else None,
    )
    return row, sum(half_unit(cells[f"{half}.busbw"]) for half in range(layout.halves))
