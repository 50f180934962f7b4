"""`nvidia-smi --query-gpu=... --format=csv`, with or without header and units.

Evidence: real captures of drivers 590 (212 columns) and older, a lost GPU, a GPU that requires a
reset; one B300 text is re-rendered from facts.
"""

from __future__ import annotations

import re

from fabric_tools.models.smi import SmiNote, SmiQuery, SmiQueryColumn, SmiQueryRow
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note, find_smi_error

PROBE = "nvidia_smi_query"

_HEADING = re.compile(
    r"([a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?: \[([A-Za-z%/]{1,12})\])?", re.ASCII
)
_KNOWN = {
    "index", "name", "uuid", "timestamp", "count", "serial", "pstate", "driver_version", "hostname",
    "gpu_name", "gpu_uuid", "gpu_bus_id", "compute_cap", "pid", "process_name", "vbios_version",
}  # fmt: skip
_NOT_THERE = {
    "[n/a]", "n/a", "[not supported]", "not supported", "",
    "[requested functionality has been deprecated]",
}  # fmt: skip
_ERROR_CELLS = {"unknown error", "err!", "gpu requires reset", "gpu is lost"}
# What a cell of a row without a heading looks like; other words could be any message.
_PLAIN_CELL = re.compile(
    r"[0-9]{1,15}(?:\.[0-9]{1,6}){0,3}(?: [A-Za-z%]{1,4})?|0x[0-9A-Fa-f]{1,16}|P[0-9]{1,2}"
    r"|(?:NVIDIA|Tesla|Quadro|GeForce) [\w /()-]{1,60}|(?:GPU|MIG)-[0-9a-f-]{8,60}"
    r"|(?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
    r"|\d{4}/\d\d/\d\d [\d:.]{8,14}|(?:Not )?Active|Enabled|Disabled|Yes|No|N/A"
    r"|\[[A-Za-z /]{2,60}\]",
    re.ASCII,
)
_NAMED = re.compile(
    r"for (?:GPU|gpu)\s?(\d{1,4})?(?::\s?)?"
    r"((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])?"
)
_ADDRESS = re.compile(r"(?:GPU|gpu)\s?((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_COMPLAINT = re.compile(r"Field \".*\" is not a valid field|Option .* is not|ERROR:|Error:|Failed ")
_MAX_COLUMNS = 1000


def _error(line: str, number: int) -> SmiNote:
    """``GPU3: 0000:04:00.0`` has index and address, ``GPU0000:02:00.0`` the address alone."""
    address = _ADDRESS.search(line)
    named = None if address else _NAMED.search(line)
    return SmiNote(
        line=number,
        text=line.strip()[:300],
        gpu=int(named[1]) if named and named[1] else None,
        bus_id=address[1] if address else named[2] if named else None,
    )


def _columns(cells: list[str]) -> tuple[SmiQueryColumn, ...] | None:
    found = [_HEADING.fullmatch(cell) for cell in cells]
    columns = [SmiQueryColumn(name=m[1], unit=m[2]) for m in found if m is not None]
    if len(columns) != len(cells):
        return None
    told = any(c.name in _KNOWN or "." in c.name or "_" in c.name for c in columns)
    return tuple(columns) if told else None


def _cell(value: str, unit: str | None) -> tuple[str | None, str | None]:
    """The value, and the error that stands in its place."""
    lowered = value.lower()
    if lowered in _NOT_THERE:
        return None, None
    if lowered in _ERROR_CELLS or (lowered[0] == "[" and lowered[-1] == "]"):
        return None, value.strip("[]")
    return (value.removesuffix(f" {unit}") if unit else value), None


def _row(number: int, cells: list[str], columns: tuple[SmiQueryColumn, ...]) -> SmiQueryRow:
    units = [column.unit for column in columns] or [None] * len(cells)
    read = [_cell(cell, unit) for cell, unit in zip(cells, units, strict=True)]
    return SmiQueryRow(
        line=number,
        cells=tuple(value for value, _ in read),
        unreadable={at: why for at, (_, why) in enumerate(read) if why is not None},
    )


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(", " if ", " in line else ",")]


def _checked(rows: list[tuple[int, list[str]]], width: int, ended: bool) -> bool:
    """Whether all rows are whole. A short row is a cut only at the very end of the text."""
    cut = len(rows[-1][1]) < width and not ended and len(rows) > 1
    if cut:
        rows.pop()
    for number, cells in rows:
        if len(cells) != width:
            raise ParseError(PROBE, number, f"{len(cells)} cells where {width} are due")
    return not cut


def parse_smi_query(text: str) -> SmiQuery:
    """Rows in order; error texts may stand before or between them."""
    lines = read_lines(PROBE, bare(text), max_chars=2 * MIB, max_lines=5000, max_line=20_000)
    columns: tuple[SmiQueryColumn, ...] = ()
    errors: list[SmiNote] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in numbered(lines):
        if find_smi_error([line]) is not None:
            errors.append(_error(line, number))
            continue
        if _COMPLAINT.match(line):
            raise ParseError(PROBE, number, f"nvidia-smi said: {line.strip()[:200]}")
        cells = _split(line.strip())
        if len(cells) > _MAX_COLUMNS:
            raise ParseError(PROBE, number, "too many columns")
        headings = _columns(cells)
        if headings is None:
            rows.append((number, cells))
        elif columns or rows:
            raise ParseError(PROBE, number, "a second heading (two queries?)")
        else:
            columns = headings
    if not rows:
        raise ParseError(PROBE, 0, "no row" + error_note(lines))
    if len({column.name for column in columns}) != len(columns):
        raise ParseError(PROBE, 0, "a column stands there twice")
    whole = _checked(rows, len(columns) or len(rows[0][1]), text.endswith("\n"))
    if not columns:
        for number, cells in rows:
            if sum(_PLAIN_CELL.fullmatch(cell) is not None for cell in cells) * 2 <= len(cells):
                raise ParseError(PROBE, number, f"not a row: {cells[0][:80]!r}" + error_note(lines))
    return SmiQuery(
        columns=columns,
        rows=tuple(_row(number, cells, columns) for number, cells in rows),
        errors=tuple(errors),
        # Without its newline the last cell may be cut.
        complete=whole and text.endswith("\n"),
    )
