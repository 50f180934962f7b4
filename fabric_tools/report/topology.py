"""The topology matrix drawn for a terminal: faults stand out."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fabric_tools.models.facts import Topology
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.report.text import printable

_PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")


def draw(topo: Topology, spec: PlatformSpec | None, console: Console) -> int:
    """Print the matrix. Returns the number of GPU pairs that differ from the platform.

    Without ``spec`` only the shape is shown: NVLink green, PCIe between GPUs yellow.
    """
    want = spec.nvlink.pair_kind.value if spec else None
    table = Table(box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    table.add_column("")
    for name in (*topo.gpus, *topo.nics):
        table.add_column(_heading(topo, name), justify="center")
    numa = any(row.numa_affinity for row in topo.rows)
    if numa:
        table.add_column("NUMA", justify="center")
    for row in topo.rows:
        cells = [
            _cell(topo, row.name, name, row.cells.get(name), want) for name in table_names(topo)
        ]
        table.add_row(Text(_heading(topo, row.name), "bold"), *cells,
                      *([row.numa_affinity or ""] if numa else []))  # fmt: skip
    console.print(table)
    return _legend(topo, spec, console)


def table_names(topo: Topology) -> tuple[str, ...]:
    """Columns in the order drawn."""
    return (*topo.gpus, *topo.nics)


def _heading(topo: Topology, name: str) -> str:
    legend = topo.nic_names.get(name)
    return printable(f"{name}\n{legend}" if legend else name)


def _cell(topo: Topology, row: str, column: str, value: str | None, want: str | None) -> Text:
    if value is None:
        return Text("?", "bold magenta")
    if value == "X":
        return Text("X", "dim")
    if row in topo.gpus and column in topo.gpus:
        if want is not None:
            return Text(value, "green") if value == want else Text(value, "bold white on red")
        return Text(value, "yellow" if value in _PCIE else "green")
    # GPU to NIC: one PCIe bridge is what GPUDirect wants, crossing sockets is the wrong rail.
    return Text(value, {"PIX": "green", "PXB": "green", "SYS": "yellow"}.get(value, "default"))


def _legend(topo: Topology, spec: PlatformSpec | None, console: Console) -> int:
    pairs = [(a, b) for i, a in enumerate(topo.gpus) for b in topo.gpus[i + 1 :]]
    seen: dict[str, int] = {}
    for first, second in pairs:
        row = topo.row(first)
        value = (row.cells.get(second) if row else None) or "not shown"
        seen[value] = seen.get(value, 0) + 1
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(seen.items()))
    console.print(Text(f"{len(topo.gpus)} GPUs, {len(pairs)} pairs: {summary or 'none'}"))
    if spec is None:
        return 0
    count, want = spec.gpu.count.value, spec.nvlink.pair_kind.value
    expected = count * (count - 1) // 2
    wrong = max(expected, len(pairs)) - seen.get(want, 0)
    good = wrong == 0 and len(topo.gpus) == count
    text = f"{spec.id} wants {expected} pairs {want}: " + (
        "all there" if good else f"{wrong} differ"
    )
    console.print(Text(text, "bold green" if good else "bold red"))
    return wrong
