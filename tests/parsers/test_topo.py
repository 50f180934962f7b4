"""Topology matrices: every recorded one against its label, then the hard cases."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.models.facts import Topology
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.topo import parse_topology

TOPO = of_kind("topo")
GOOD = [s for s in TOPO if "error" not in s.label]
BAD = [s for s in TOPO if "error" in s.label]

TWO = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"


def _cell(topology: Topology, a: str, b: str) -> str | None:
    for row, column in ((a, b), (b, a)):
        found = topology.row(row)
        if found is not None and column in found.cells:
            return found.cells[column]
    return None


@pytest.mark.parametrize("sample", GOOD, ids=lambda s: s.file)
def test_matrix(sample: Sample) -> None:
    label, topology = sample.label, parse_topology(sample.text)
    assert len(topology.gpus) == label["gpu_count"]
    assert list(topology.nics) == label["nic_columns"]
    assert topology.nic_names == (label["nic_legend"] or {})
    names = list(topology.gpus)
    pairs = {
        f"{a}-{b}": cell
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if (cell := _cell(topology, a, b)) is not None
    }
    assert pairs == label["pairs"]
    assert topology.gpu_rows_whole is label["complete"]


@pytest.mark.parametrize("sample", GOOD, ids=lambda s: s.file)
def test_nics_and_affinity(sample: Sample) -> None:
    topology = parse_topology(sample.text)
    for gpu, cells in sample.label["gpu_nic"].items():
        row = topology.row(gpu)
        got = {} if row is None else {n: row.cells[n] for n in topology.nics if n in row.cells}
        assert got == cells, gpu
    for gpu, cells in sample.label["affinity"].items():
        row = topology.row(gpu)
        # Facts hold None for N/A; labels keep what was printed.
        want = {key: None if value == "N/A" else value for key, value in cells.items()}
        assert want == {
            "cpu": row and row.cpu_affinity,
            "numa": row and row.numa_affinity,
            "gpu_numa_id": row and row.gpu_numa_id,
        }, gpu


@pytest.mark.parametrize("sample", GOOD, ids=lambda s: s.file)
def test_nic_rows(sample: Sample) -> None:
    cut = sample.name.split("_")[0] in {"t26", "t49", "t51"}
    assert parse_topology(sample.text).nic_rows_whole is not cut


@pytest.mark.parametrize("sample", GOOD, ids=lambda s: s.file)
@pytest.mark.parametrize("change", ["crlf", "banner", "no_ansi_end"])
def test_same_reading_however_saved(sample: Sample, change: str) -> None:
    text = sample.text
    changed = {
        "crlf": text.replace("\n", "\r\n"),
        "banner": "user@host:~$ nvidia-smi topo -m\n" + text,
        "no_ansi_end": text.replace("\x1b[0m", ""),
    }[change]
    shift = changed.count("\n") - text.count("\n")
    rows = tuple(
        row.model_copy(update={"line": row.line + shift}) for row in parse_topology(text).rows
    )
    assert parse_topology(changed) == parse_topology(text).model_copy(update={"rows": rows})


@pytest.mark.parametrize("sample", BAD, ids=lambda s: s.file)
def test_error_text_is_quoted(sample: Sample) -> None:
    with pytest.raises(ParseError) as caught:
        parse_topology(sample.text)
    assert sample.text.splitlines()[0].strip() in caught.value.why
    assert caught.value.probe == "nvidia_smi_topo"


def test_every_cut_is_seen() -> None:
    """No cut of a whole matrix may read as a whole matrix."""
    text = text_of("t24_")
    real = {row.name: row.cells for row in parse_topology(text).rows}
    body = text[: text.index("Legend:")].rstrip()
    for end in range(1, len(body)):
        try:
            topology = parse_topology(body[:end])
        except ParseError:
            continue
        assert not (topology.gpu_rows_whole and topology.nic_rows_whole)
        for row in topology.rows:
            assert row.cells.items() <= real[row.name].items()


def test_cut_cell_is_dropped() -> None:
    topology = parse_topology("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNV1")
    row = topology.row("GPU0")
    assert row is not None
    assert row.cells == {"GPU0": "X", "GPU1": "NV18"}
    assert not topology.gpu_rows_whole


def test_empty_affinity_cells_do_not_shift() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\t1\n"
    row = parse_topology(text).rows[0]
    assert (row.cpu_affinity, row.numa_affinity, row.gpu_numa_id) == (None, None, "1")
    row = parse_topology(text.replace("\t\t\t\t1", "\t0-3\t\t\tN/A")).rows[0]
    assert (row.cpu_affinity, row.numa_affinity, row.gpu_numa_id) == ("0-3", None, None)


def test_empty_affinity_cells_in_spaces() -> None:
    text = "        GPU0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    text += "GPU0     X{}0               N/A\n"
    row = parse_topology(text.format(" " * 22)).rows[0]
    assert (row.cpu_affinity, row.numa_affinity) == (None, "0")
    # Not below any heading: its column cannot be told.
    row = parse_topology(text.format(" " * 12)).rows[0]
    assert (row.cpu_affinity, row.numa_affinity) == (None, None)


def test_fused_headings() -> None:
    text = "\tGPU0\tmlx5_0CPU AffinityNUMA AffinityGPU NUMA ID\nGPU0\t X \tPIX\t0-3\t0\t\tN/A\n"
    topology = parse_topology(text)
    assert topology.nics == ("mlx5_0",)
    assert topology.rows[0].numa_affinity == "0"


ROW0, ROW1, NIC0 = (
    "GPU0\t X \tNV18\tPIX\t0-3\t0\t\tN/A\n",
    "GPU1\tNV18\t X \tSYS\t0-3\t0\t\tN/A\n",
    "NIC0\tPIX\tSYS\t X \n",
)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (TWO + ROW0 + ROW1.replace("NV18", "NV4") + NIC0, 2, "GPU1-GPU0 is NV4"),
        (TWO + ROW0 + ROW1.replace("SYS", "PIX") + NIC0, 3, "NIC0-GPU1 is SYS"),
        (TWO + ROW0.replace("PIX", "P1X") + ROW1 + NIC0, 2, "P1X"),
        (TWO + ROW0.replace("NV18", "NVX") + ROW1 + NIC0, 2, "NVX"),
        (TWO + ROW0.replace(" X ", "NV18") + ROW1 + NIC0, 2, "diagonal"),
        (TWO + ROW0.replace("PIX", " X ") + ROW1 + NIC0, 2, "diagonal"),
        (TWO + ROW0 + ROW0 + ROW1, 3, "two rows"),
        (TWO + "GPU0\t X \tNV18\n" + ROW1 + NIC0, 2, "2 cells"),
        (TWO + ROW0.replace("PIX", "PIX\tPIX") + ROW1, 2, "more than 3"),
        (TWO + ROW0 + ROW1 + NIC0.replace(" X ", " X \tPIX"), 4, "more than 3"),
        (TWO + ROW0.replace("0-3\t0", "0-3\t0\t7") + ROW1, 2, "headings"),
        (TWO + ROW0.replace("0-3", "all") + ROW1, 2, "affinity"),
        (TWO + ROW0 + ROW1.replace("GPU1", "GPU9"), 3, "GPU9"),
        (TWO + ROW0 + ROW1 + NIC0 + TWO, 5, "not a cell"),
        (TWO.replace("GPU1", "GPU0") + ROW0, 1, "twice"),
        (TWO.replace("NUMA Affinity", "Numa Affinity") + ROW0, 1, "not known"),
        (TWO + ROW0 + "GPU1\tNV18\n\nLegend:\n", 3, "1 cells"),
        ("", 0, "no header"),
        (ROW0 + ROW1, 0, "no header"),
    ],
)
def test_contradictions(text: str, line: int, word: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_topology(text)
    assert word in caught.value.why
    assert caught.value.line == line
