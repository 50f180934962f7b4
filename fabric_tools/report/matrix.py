"""The topology matrix as cells for a page: kind of connection, text, and the mark of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric_tools.models.nodemap import NodeMap
from fabric_tools.report.drawing import links_state, links_words, pair_value
from fabric_tools.report.marks import Mark, Marks
from fabric_tools.report.seats import gpu_numbers

#: What each kind of cell means, in the words of the legend that nvidia-smi prints, shortened.
LEGEND = {
    "nv": ("NV#", "that many NVLinks"),
    "near": ("PIX PXB", "PCIe bridges only"),
    "phb": ("PHB", "over a PCIe host bridge"),
    "node": ("NODE", "between host bridges of one NUMA node"),
    "sys": ("SYS", "between NUMA nodes"),
    "none": ("?", "not shown"),
}
_KINDS = {"X": "self", "PIX": "near", "PXB": "near", "PHB": "phb", "NODE": "node", "SYS": "sys"}


@dataclass(frozen=True, slots=True)
class Cell:
    """``kind`` and ``mark`` are class names; ``title`` names the checks that speak against it."""

    text: str
    kind: str
    mark: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU: what it is called, its cells, and what stands right of them."""

    name: str
    cells: tuple[Cell, ...]
    links: Cell | None = None
    numa: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table; ``heads`` are the columns' names."""

    heads: tuple[str, ...]
    rows: tuple[Row, ...]


def gpu_matrix(node: NodeMap, marks: Marks) -> Matrix | None:
    """GPU to GPU with the links of each; None where no matrix could be read."""
    numbers = gpu_numbers(node)
    if node.topology is None:
        return None
    rows = []
    for index in numbers:
        cells = tuple(_pair(node, marks, index, other) for other in numbers)
        rows.append(Row(f"GPU{index}", cells, _links(node, marks, index), _numa(node, index)))
    return Matrix(tuple(f"{index}" for index in numbers), tuple(rows))


def nic_matrix(node: NodeMap) -> Matrix | None:
    """NIC to GPU, one row a NIC so that many of them make a long table and no wide one."""
    topo = node.topology
    if topo is None or not topo.nics:
        return None
    numbers = gpu_numbers(node)
    rows = []
    for nic in topo.nics:
        cells = []
        for index in numbers:
            row = topo.row(f"GPU{index}")
            cells.append(_cell((row.cells.get(nic) if row else None) or "?"))
        rows.append(Row(f"{nic} {topo.nic_names.get(nic, '')}".strip(), tuple(cells)))
    return Matrix(tuple(f"{index}" for index in numbers), tuple(rows))


def _pair(node: NodeMap, marks: Marks, first: int, second: int) -> Cell:
    if first == second:
        return _cell("X")
    mark = marks.pairs.get((min(first, second), max(first, second)))
    return _cell(pair_value(node, first, second), mark)


def _links(node: NodeMap, marks: Marks, index: int) -> Cell:
    mark = marks.gpus.get(index)
    spoken = mark if mark and "nvlink.links" in mark.checks else None
    words = links_words(node, index).removesuffix(" links").removeprefix("links ")
    return _cell(words, spoken, kind=f"links-{links_state(node, index)}")


def _cell(text: str, mark: Mark | None = None, kind: str = "") -> Cell:
    kind = kind or _KINDS.get(text, "nv" if text.startswith("NV") else "none")
    if mark is None:
        return Cell(text, kind)
    title = f"{mark.status.value}: {', '.join(mark.checks)}"
    shown = text if text == mark.sign else f"{mark.sign}{text}"
    return Cell(shown, kind, f"mark-{mark.status.value}", title)


def _numa(node: NodeMap, index: int) -> str:
    row = node.topology.row(f"GPU{index}") if node.topology else None
    return (row.numa_affinity if row else None) or "?"


def used_kinds(tables: Sequence[Matrix | None]) -> list[tuple[str, str, str]]:
    """Class, letters and meaning of the kinds that the tables show."""
    kinds = {c.kind for table in tables if table for row in table.rows for c in row.cells}
    return [(kind, *LEGEND[kind]) for kind in LEGEND if kind in kinds]
