"""The topology matrix drawn for a terminal: faults stand out."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fabric_tools.models.facts import Topology
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.report.text import printable

_MAX_NAMED = 12
_PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")


def draw(topo: Topology, spec: PlatformSpec | None, console: Console) -> int:
    """Print GPU to GPU, then GPU to NIC. Returns how many GPU pairs differ from ``spec``.

    Without ``spec`` only the shape is shown: NVLink green, PCIe between GPUs yellow. Columns that
    do not fit the terminal go into a further table; no cell is ever shortened.
    """
    want = spec.nvlink.pair_kind.value if spec and spec.nvlink.mesh.value == "full" else None
    _tables(topo, topo.gpus, want, console)
    if topo.nics:
        _tables(topo, topo.nics, None, console)
        names = [f"{nic} {topo.nic_names[nic]}" for nic in topo.nics if nic in topo.nic_names]
        if names:
            console.print(Text(printable(", ".join(names)), "dim"))
    return _legend(topo, spec, console)


def _tables(topo: Topology, columns: tuple[str, ...], want: str | None, console: Console) -> None:
    """One table, or several of as many columns as the terminal is wide."""
    cells = [
        cell for row in topo.rows for name in columns if (cell := row.cells.get(name)) is not None
    ]
    head = max((len(name) for name in (*topo.gpus, "NUMA")), default=4)
    width = max((len(text) for text in (*columns, *cells)), default=4)
    # Each column costs its width, a blank on either side and one between columns.
    fit = max(1, (console.width - (head + 3) - (len("NUMA") + 3) - 2) // (width + 3))
    for start in range(0, len(columns), fit):
        part = columns[start : start + fit]
        table = Table(box=box.SIMPLE, pad_edge=False)
        table.add_column("", no_wrap=True)
        for name in part:
            table.add_column(printable(name), justify="center", no_wrap=True)
        table.add_column("NUMA", justify="center", no_wrap=True)
        for name in topo.gpus:
            row = topo.row(name)
            found = [_cell(topo, name, c, row.cells.get(c) if row else None, want) for c in part]
            numa = printable((row.numa_affinity if row else None) or "")
            table.add_row(Text(printable(name), "bold"), *found, numa)
        console.print(table)


def _cell(topo: Topology, row: str, column: str, value: str | None, want: str | None) -> Text:
    if value is None:
        return Text("?", "bold magenta")
    if value == "X":
        return Text("X", "dim")
    if row in topo.gpus and column in topo.gpus:
        if want is not None:
            return Text(value, "green") if value == want else Text(value, "bold white on red")
        return Text(value, "yellow" if value in _PCIE else "green")
    # GPU to NIC: PCIe bridges only is the GPU's own rail, which is what GPUDirect wants.
    return Text(value, "green" if value in ("PIX", "PXB") else "dim")


def _value(topo: Topology, first: str, second: str) -> str:
    row = topo.row(first)
    return (row.cells.get(second) if row else None) or "not shown"


def _legend(topo: Topology, spec: PlatformSpec | None, console: Console) -> int:
    pairs = [(a, b) for i, a in enumerate(topo.gpus) for b in topo.gpus[i + 1 :]]
    seen: dict[str, int] = {}
    for first, second in pairs:
        value = _value(topo, first, second)
        seen[value] = seen.get(value, 0) + 1
    summary = ", ".join(f"{number} {kind}" for kind, number in sorted(seen.items()))
    console.print(Text(f"{len(topo.gpus)} GPUs, {len(pairs)} pairs: {summary or 'none'}"))
    if spec is None:
        return 0
    if spec.gpu.count.value is None or spec.nvlink.mesh.value not in ("full", "listed"):
        text = f"{spec.id} does not say how every pair is joined: {spec.nvlink.mesh.source}"
        console.print(Text(text, "yellow"))
        return 0
    return _compared(topo, spec, pairs, console)


def _compared(
    topo: Topology, spec: PlatformSpec, pairs: list[tuple[str, str]], console: Console
) -> int:
    count = spec.gpu.number
    listed = spec.nvlink.pairs.value if spec.nvlink.pairs else {}
    kind = spec.nvlink.pair_kind.value
    expected = count * (count - 1) // 2
    differ = [
        f"{a}-{b} {_value(topo, a, b)}"
        for a, b in pairs
        if _value(topo, a, b) != listed.get(f"{a}-{b}", kind)
    ]
    wrong = len(differ) + max(0, expected - len(pairs))
    good = wrong == 0 and len(topo.gpus) == count
    outcome = (
        "all there" if good else f"{wrong} differ" if wrong else f"but of {len(topo.gpus)} GPUs"
    )
    text = f"{spec.id} wants {expected} pairs {kind or 'as listed'}: {outcome}"
    console.print(Text(text, "bold green" if good else "bold red"))
    if differ:
        more = f" and {len(differ) - _MAX_NAMED} more" if len(differ) > _MAX_NAMED else ""
        console.print(Text(printable(", ".join(differ[:_MAX_NAMED]) + more)))
    return 0 if good else max(wrong, 1)
