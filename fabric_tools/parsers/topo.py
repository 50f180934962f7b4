"""`nvidia-smi topo -m`: how GPUs and NICs reach each other.

Evidence: 27 real captures (drivers 4xx to 595, A100 to GB200, V100 hybrids, 4-GPU boards, VMs) and
6 re-rendered from facts. Layouts seen: tabs, spaces, both, ANSI around the header, 0 to 3
affinity columns, empty affinity cells, NIC columns by number or by name, rows cut by pasting; cells
that grew together are from a public report of 36 NIC columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric_tools.models.facts import Topology, TopologyRow
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines
from fabric_tools.parsers.smi_answer import error_note

PROBE = "nvidia_smi_topo"

# Headings are found by shape because some copies print them without anything in between.
# A device name is in small letters (but P before a PCI domain: roceP2p1s0), so that it ends where
# "CPU Affinity" begins.
_HEADING = re.compile(
    r"GPU NUMA ID|CPU Affinity|NUMA Affinity|GPU\d+|NIC\d+|[a-z][a-z0-9_]*(?:P\d[a-z0-9_]*)?"
)
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,3}", re.ASCII)
# Wide tables lose the blanks between columns on their way through logs: NODENODE, PIXPIX.
_FUSED = re.compile(r"(?:X|SYS|NODE|PHB|PXB|PIX|NV\d{1,2}){2,}", re.ASCII)
_PART = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,2}", re.ASCII)
_CPU_LIST = re.compile(r"N/A|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", re.ASCII)
_ROW_NAME = re.compile(r"GPU\d+|NIC\d+|mlx\d+_\w+")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)$")
_TOKEN = re.compile(r"\S+")


@dataclass(frozen=True)
class _Header:
    line: int
    columns: tuple[str, ...]
    affinity: tuple[str, ...]
    starts: tuple[int, ...]  # of the affinity headings, with tabs expanded
    tabs: bool

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name.startswith("GPU"))

    @property
    def nics(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if not name.startswith("GPU"))


def _header(lines: list[str]) -> _Header:
    for number, line in enumerate(lines, start=1):
        if not re.match(r"\s*GPU\d", line):
            continue
        left = _HEADING.sub("", line).strip()
        if left and "Affinity" not in line:
            continue
        if left:
            raise ParseError(PROBE, number, f"a heading that is not known: {left[:40]!r}")
        found = list(_HEADING.finditer(line.expandtabs()))
        names = [match.group() for match in found]
        columns = [name for name in names if name not in _AFFINITY]
        affinity = tuple(names[len(columns) :])
        if len(set(names)) != len(names) or set(affinity) & set(columns):
            raise ParseError(PROBE, number, "a heading stands there twice or out of order")
        if any(name not in _AFFINITY for name in affinity):
            raise ParseError(PROBE, number, "a GPU or NIC column after the affinity columns")
        starts = tuple(match.start() for match in found[len(columns) :])
        return _Header(number, tuple(columns), affinity, starts, "\t" in line and "  " not in line)
    raise ParseError(PROBE, 0, "no header line with GPU columns" + error_note(lines))


def _affinity(head: _Header, line: str, number: int, end: int) -> dict[str, str]:
    """The cells right of the matrix. Fewer than headings: only those whose place is certain."""
    rest = line[end:]
    values = list(_TOKEN.finditer(rest))
    for value in values:
        if not _CPU_LIST.fullmatch(value.group()):
            raise ParseError(PROBE, number, f"not an affinity cell: {value.group()[:40]!r}")
    if len(values) > len(head.affinity):
        raise ParseError(PROBE, number, f"{len(values)} cells under {len(head.affinity)} headings")
    if len(values) == len(head.affinity):
        return dict(zip(head.affinity, (value.group() for value in values), strict=True))
    if head.tabs and "\t" in rest:
        # nvidia-smi puts two tabs before the last of three columns.
        cells = [cell.strip() for cell in rest.split("\t")[1:]]
        places = {"CPU Affinity": 0, "NUMA Affinity": 1, "GPU NUMA ID": 3}
        placed = {name: places[name] for name in head.affinity if places[name] < len(cells)}
        return {name: cells[place] for name, place in placed.items() if " " not in cells[place]}
    wide = line.expandtabs()
    offset = len(line[:end].expandtabs())
    at = {match.start() + offset: match.group() for match in _TOKEN.finditer(wide[offset:])}
    return {n: at[s] for n, s in zip(head.affinity, head.starts, strict=True) if s in at}


def _cells(head: _Header, name: str, found: list[re.Match[str]], number: int) -> dict[str, str]:
    cells: dict[str, str] = {}
    for column, match in zip(head.columns, found, strict=False):
        cell = match.group()
        if not _CELL.fullmatch(cell):
            raise ParseError(PROBE, number, f"{name}-{column}: not a cell: {cell[:40]!r}")
        if (cell == "X") != (column == name):
            raise ParseError(PROBE, number, f"{name}-{column}: X belongs on the diagonal: {cell}")
        cells[column] = cell
    return cells


def _tokens(line: str) -> list[re.Match[str]]:
    """Words of a row; one that is several cells is taken apart, which is possible in one way."""
    found: list[re.Match[str]] = []
    for match in _TOKEN.finditer(line):
        if _FUSED.fullmatch(match.group()):
            found.extend(_PART.finditer(line, match.start(), match.end()))
        else:
            found.append(match)
    return found


def _row(head: _Header, line: str, number: int, last: bool, unended: bool) -> TopologyRow:
    """``last``: nothing follows, so the row may be cut; ``unended``: not even a newline."""
    name, found = line.split(maxsplit=1)[0], _tokens(line)[1:]
    width = len(head.columns)
    if len(found) < width:
        if not last:
            raise ParseError(PROBE, number, f"{name}: {len(found)} cells under {width} headings")
        # The last cell of a cut row may itself be cut: NV1 of NV18.
        return TopologyRow(name=name, line=number, cells=_cells(head, name, found[:-1], number))
    cells = _cells(head, name, found, number)
    more = found[width:]
    if more and (name in head.nics or _CELL.fullmatch(more[0].group())):
        raise ParseError(PROBE, number, f"{name}: more than {width} cells")
    if unended and not more and cells[head.columns[-1]] != "X":
        del cells[head.columns[-1]]  # may be cut as well
    if unended and len(more) < len(head.affinity):
        return TopologyRow(name=name, line=number, cells=cells)
    beside = _affinity(head, line, number, found[width - 1].end()) if name in head.gpus else {}
    told = {key: value for key, value in beside.items() if value not in ("", "N/A")}
    return TopologyRow(
        name=name,
        line=number,
        cells=cells,
        cpu_affinity=told.get("CPU Affinity"),
        numa_affinity=told.get("NUMA Affinity"),
        gpu_numa_id=told.get("GPU NUMA ID"),
    )


def _rows(head: _Header, lines: list[str]) -> dict[str, TopologyRow]:
    rows: dict[str, TopologyRow] = {}
    end = max((n for n, line in enumerate(lines, start=1) if line.strip()), default=0)
    for number, line in enumerate(lines[head.line :], start=head.line + 1):
        words = line.split(maxsplit=2)
        if not words or not (words[0] in head.columns or _ROW_NAME.fullmatch(words[0])):
            continue
        if len(words) == 1 and number == end:
            continue  # the name may be cut too
        if words[0] not in head.columns:
            raise ParseError(PROBE, number, f"{words[0][:40]}: a row or header without a column")
        row = _row(head, line, number, number == end, number == len(lines))
        if row.name in rows:
            raise ParseError(PROBE, number, f"{row.name} has two rows")
        rows[row.name] = row
    return rows


def _check_symmetry(rows: dict[str, TopologyRow]) -> None:
    for row in rows.values():
        for name, cell in row.cells.items():
            back = rows[name].cells.get(row.name) if name in rows else None
            if back is not None and back != cell:
                why = f"{row.name}-{name} is {cell}, but {name}-{row.name} is {back}"
                raise ParseError(PROBE, row.line, why)


def _legend(lines: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    start = next((n for n, line in enumerate(lines) if line.strip() == "NIC Legend:"), len(lines))
    for number, line in enumerate(lines[start:], start=start + 1):
        match = _LEGEND.match(line)
        if match is None:
            continue
        if names.setdefault(match[1], match[2]) != match[2]:
            raise ParseError(PROBE, number, f"two names for {match[1]}")
    return names


def _whole(rows: dict[str, TopologyRow], names: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    return all(name in rows and all(c in rows[name].cells for c in columns) for name in names)


def parse_topology(text: str) -> Topology:
    """The matrix as printed. What is cut off is marked, what contradicts itself is refused."""
    lines = bare_lines(PROBE, text, 50_000, 20_000)
    head = _header(lines)
    rows = _rows(head, lines)
    _check_symmetry(rows)
    return Topology(
        gpus=head.gpus,
        nics=head.nics,
        rows=tuple(rows.values()),
        nic_names=_legend(lines),
        gpu_rows_whole=_whole(rows, head.gpus, head.gpus),
        nic_rows_whole=_whole(rows, head.nics, head.columns),
    )
