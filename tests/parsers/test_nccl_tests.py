"""nccl-tests: every sample against its label; prefixes, cuts, several tests, split rows, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from corpus import Sample
from network_corpus import of_kind, text_of

from fabric_tools.models.nccl import NcclRow, NcclRun
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.nccl_rows import mean_busbw
from fabric_tools.parsers.nccl_tests import parse_nccl_tests

SAMPLES = of_kind("nccl")
GOOD = text_of("n14")
JSON = text_of("n46")


def _one(text: str) -> NcclRun:
    (run,) = parse_nccl_tests(text).runs
    return run


def _best(rows: tuple[NcclRow, ...], half: str) -> dict[str, Any] | None:
    best: dict[str, Any] | None = None
    for row in rows:
        value = getattr(row, half).busbw_gbytes_s
        if best is None or value > best["busbw"]:
            best = {"busbw": value, "size": row.size_bytes}
    return best


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_label(sample: Sample) -> None:
    label, runs = sample.label, parse_nccl_tests(sample.text).runs
    run = runs[0]
    assert len(runs) == label.get("tests_in_log", 1)
    assert run.collective == (label["collective"] if label["collective_in_text"] else None)
    assert run.ranks == label["ranks"]
    assert len(run.rows) == label["sizes"]
    assert run.avg_busbw_gbytes_s == label["avg_busbw"]
    assert run.out_of_bounds == label["out_of_bounds"]
    assert run.complete is label["complete"]
    if label["out_of_bounds_status"] is not None:
        assert run.out_of_bounds_ok is (label["out_of_bounds_status"] == "OK")
    assert _best(run.rows, "out_of_place") == label["max_busbw_out_of_place"]
    assert _best(run.rows, "in_place") == label["max_busbw_in_place"]
    if run.error_column is not None:
        assert run.error_column == label.get("error_column", "#wrong")
    _wrong(run, label["wrong"])
    _rows(run, label)
    if run.layout == "text":
        lines = sample.text.split("\n")
        for row in run.rows:
            assert str(row.size_bytes) in lines[row.line - 1]
            assert str(row.count) in lines[row.line - 1]


def _wrong(run: NcclRun, label: dict[str, Any] | None) -> None:
    halves = [half for row in run.rows for half in (row.out_of_place, row.in_place) if half]
    if label is None:
        assert not halves
        return
    name = "max_delta" if "max_delta" in label else "wrong"
    cells = [getattr(half, name) for half in halves]
    assert cells.count(None) == label["na_cells"]
    values = [cell for cell in cells if cell is not None]
    if name == "max_delta":
        assert max(values, default=None) == label["max_delta"]
    else:
        assert sum(values) == label["sum"]
        assert len([value for value in values if value]) == label["nonzero_cells"]


def _rows(run: NcclRun, label: dict[str, Any]) -> None:
    sizes = [row.size_bytes for row in run.rows]
    if "distinct_sizes" in label:
        assert len(set(sizes)) == label["distinct_sizes"]
        assert (sizes[0] if sizes else None) == label["first_size"]
        assert (sizes[-1] if sizes else None) == label["last_size"]
    if label.get("last_row"):
        last = run.rows[-1]
        assert last.out_of_place
        assert last.in_place
        assert last.out_of_place.busbw_gbytes_s == label["last_row"]["oop_busbw"]
        assert last.in_place.busbw_gbytes_s == label["last_row"]["ip_busbw"]
    if label.get("avg_recomputed") is not None:
        mean = mean_busbw(run.rows)
        assert mean is not None
        assert abs(mean - label["avg_recomputed"]) < 0.0001
    if "avg_status" in label:
        assert run.avg_busbw_ok is (label["avg_status"] == "OK")


def test_second_test_of_the_log() -> None:
    second = parse_nccl_tests(text_of("n37")).runs[1]
    assert (second.collective, second.ranks, second.rows) == ("all_reduce", 12, ())
    assert not second.complete


def test_details() -> None:
    run = _one(text_of("n12"))
    assert (run.nccl_version, run.tests_version, run.validation) == ("2.29.3+cuda13.1", "2.17.9", 1)
    assert [device.rank for device in run.devices] == [0, 7, 8, 15]
    assert (run.devices[-1].bus_id, run.devices[-1].name) == ("0000:da:00", "NVIDIA A100-SXM4-40GB")
    assert run.rows[0].root == -1
    assert _one(text_of("n31")).rows[0].root == 0
    assert _one(text_of("n31")).rows[0].redop is None
    assert _one(text_of("n27")).validation == 0
    crash = _one(text_of("n39"))
    assert "unhandled cuda error" in crash.failures[0].text
    assert [note.line for note in _one(text_of("n33")).failures] == [15]


ROW = "  2147483648     536870912     float     sum      -1   8722.7  246.20  461.62      0"
LINES = GOOD.split("\n")
ROW_LINES = [i for i, line in enumerate(LINES) if " float " in line]


WHOLE = [s for s in SAMPLES if s.label["complete"] and not s.text.startswith("{")]


@pytest.mark.parametrize("sample", WHOLE, ids=lambda s: s.name)
def test_a_missing_row_is_noticed(sample: Sample) -> None:
    lines = sample.text.split("\n")
    for row in parse_nccl_tests(sample.text).runs[0].rows:
        run = parse_nccl_tests("\n".join(lines[: row.line - 1] + lines[row.line :])).runs[0]
        assert not run.complete
        assert run.rows_missing


@pytest.mark.parametrize("sample", WHOLE, ids=lambda s: s.name)
def test_no_cut_text_is_complete(sample: Sample) -> None:
    """Cut before the out-of-bounds line, no test may look finished."""
    text = sample.text
    end = text.index("Out of bounds")
    for at in range(0, end, 97):
        try:
            runs = parse_nccl_tests(text[:at]).runs
        except ParseError:
            continue
        assert not any(run.complete for run in runs)


def test_missing_row_without_configuration() -> None:
    table = GOOD.replace("464.075", "464.075").split("\n")
    kept = [line for line in table if "Avg bus" not in line and "4294967296    107" not in line]
    run = _one("\n".join(kept))
    assert run.rows_missing == "a size is left out"


def test_configuration_counts_rows() -> None:
    text = text_of("n20").replace("maxBytes 134217728", "maxBytes 268435456")
    assert _one(text).rows_missing == "25 rows where the sizes asked for make 26"
    lowered = text.replace(
        "#\n# Using", "#\n# Reducing maxBytes to 134217728 due to memory\n# Using"
    )
    assert _one(lowered).complete


def test_scientific_wrong() -> None:
    text = GOOD.replace("461.62      0", "461.62  1e+05").replace(": 0 OK", ": 1 FAILED")
    half = _one(text).rows[1].out_of_place
    assert half
    assert half.wrong == 100000


def test_row_split_by_log_lines() -> None:
    head, tail = ROW[:54], ROW[54:]
    log = "node-1:1942267:1942300 [0] NCCL INFO Connected all rings"
    split = next(line for line in LINES if line.startswith(ROW))
    text = GOOD.replace(split, f"{head}{log}\n{log}\n{tail}{split[len(ROW) :]}")
    whole, run = _one(GOOD), _one(text)
    assert run.complete
    assert [row.model_dump(exclude={"line"}) for row in run.rows] == [
        row.model_dump(exclude={"line"}) for row in whole.rows
    ]


@pytest.mark.parametrize(
    "prefix",
    ["0: ", " 0: ", "[1,0]<stdout>:", "[prterun-n1-77@1,0]<stdout>: ", "[0] ", "node-1: ",
     "2026-01-01T10:00:00.123456789Z ", "[pod/launcher-x/main] "],
)  # fmt: skip
def test_prefixes(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\r\n" for line in GOOD.split("\n"))
    run, whole = _one(text), _one(GOOD)
    assert run.complete
    assert (run.ranks, len(run.rows)) == (whole.ranks, len(whole.rows))
    assert [r.in_place for r in run.rows] == [r.in_place for r in whole.rows]


def test_each_rank_its_own_test() -> None:
    """nccl-tests built without MPI: every process runs alone, and mpirun mixes their lines."""
    mixed = "".join(f"[1,0]<stdout>:{x}\n[1,1]<stdout>:{x}\n" for x in GOOD.split("\n"))
    first, second = parse_nccl_tests(mixed).runs
    assert first.complete
    assert second.complete
    plain = "".join(f"{line}\n{line}\n" for line in GOOD.split("\n"))
    with pytest.raises(ParseError):
        parse_nccl_tests(plain)


def test_two_whole_tests() -> None:
    runs = parse_nccl_tests(GOOD + text_of("n12")).runs
    assert [run.complete for run in runs] == [True, True]
    assert [run.collective for run in runs] == [None, "all_reduce"]


def test_new_columns() -> None:
    text = GOOD.replace("#wrong\n", "#wrong           timestamp\n")
    text = text.replace("      0\n", "      0  2026-01-01 10:00:00\n")
    assert _one(text).complete
    assert len(_one(text).rows) == 5
    with pytest.raises(ParseError, match="unknown column"):
        parse_nccl_tests(GOOD.replace("   algbw", "  algbw2"))


def test_rows_without_heading() -> None:
    run = _one("\n".join(LINES[ROW_LINES[1] :]))
    assert (len(run.rows), run.rows_missing) == (4, "the heading is missing")
    assert (run.complete, run.out_of_bounds_ok) == (False, True)
    assert not _one(GOOD.replace("size         count", "size         cunt")).complete


def test_json_variants() -> None:
    data = json.loads(JSON)
    data["average_bus_bandwidth"]["okay"] = "unchecked"
    data["results"][0]["in_place"]["nwrong"] = None
    data["results"][1]["out_of_place"] = None
    data["results"][1]["root"] = "    -1"
    run = _one(json.dumps(data))
    assert run.avg_busbw_ok is None
    assert run.rows[0].in_place
    assert run.rows[0].in_place.wrong is None
    assert run.rows[1].out_of_place is None
    assert not run.complete  # the average no longer fits
    del data["out_of_bounds"]
    assert _one(json.dumps(data)).out_of_bounds is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: all_reduce_perf: command not found\n",
        ROW + "\n",
        text_of("n27").split("N/A)\n")[0].split("Parallel\n")[1],
        GOOD + "# Out of bounds values : 0 OK\n# Out of bounds values : 0 OK\n" + ROW,
        GOOD.replace(": 0 OK", ": 3 OK"),
        JSON[:-3],
        JSON.replace('"okay":"false"', '"okay":"maybe"'),
        JSON.replace('"okay":"false"', '"okay":"true"'),
        JSON.replace('"nwrong":96', '"nwrong":true'),
        JSON.replace('"bus_bw":290.20,', ""),
        "{}",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nccl_tests(text)


def _bad_table(prefix: str) -> str:
    """A whole table with a wrong element, every line behind a prefix."""
    lines = text_of("n12").split("\n")
    return "".join(f"{prefix}{line}\n" for line in lines)


@pytest.mark.parametrize(
    "prefix",
    ["nccl-1  | ", "worker1 | ", "pod-a nccl-test ", "[n2] ", "(n2) ", "n2> ", "<1> ",
     "Nov 30 10:00:00 n2 nccl[123]: ", "12:03:04.123 INFO "],
)  # fmt: skip
def test_a_table_behind_an_unknown_prefix_is_noticed(prefix: str) -> None:
    runs = parse_nccl_tests(GOOD + _bad_table(prefix)).runs
    assert not all(run.complete for run in runs)


def test_a_table_in_another_framing_is_noticed() -> None:
    framed = "".join(json.dumps({"log": x + "\n"}) + "\n" for x in text_of("n12").split("\n"))
    for more in (framed, text_of("n12").replace("\n", "\r"), JSON, json.dumps(json.loads(JSON))):
        assert not any(run.complete for run in parse_nccl_tests(f"{GOOD}\n{more}").runs)


@pytest.mark.parametrize(
    "line",
    [
        "./run.sh: line 3: 4242 Bus error               (core dumped) ./build/alltoall_perf",
        "Aborted (core dumped)",
        "4242 Killed                  ./build/alltoall_perf",
        "n1: CUDA error: uncorrectable ECC error encountered",
        "[rank3]:[E1130 ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout",
        "all_gather_perf: symbol lookup error: libnccl.so.2",
    ],
)
def test_a_death_below_a_whole_table(line: str) -> None:
    assert not _one(GOOD).failures
    assert _one(f"{GOOD}\n{line}\n").failures


def test_json_errors_of_any_form() -> None:
    for error in ({"msg": "boom", "rank": 3}, ["boom"], "boom"):
        data = json.loads(JSON) | {"errors": [error, None, " "]}
        assert len(_one(json.dumps(data)).failures) == 1
