"""NCCL's checks: every recorded sample against its expert verdict, and the cases that decide."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path

import pytest

from fabric_tools.judge import Question, Reading, judge
from fabric_tools.models.inventory import HostVars, Profile, Rail
from fabric_tools.models.nccl import NcclMeasure, NcclRow, NcclRun
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.nccl_shape import MOST_GPUS, over_hosts, shape_of
from fabric_tools.parsers.nccl_tests import parse_nccl_tests
from fabric_tools.parsers.nccl_texts import cuda_init_of_log, node_tests
from fabric_tools.parsers.recognise import probe_of_text
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_folder, read_snapshot
from tests.cases_runner import AS_OF, CORPUS, HEALTHY, PLATFORMS

MANIFEST = [json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text().splitlines()]
SAMPLES = [entry for entry in MANIFEST if entry["kind"] in ("nccl", "nccl_debug")]
BASE = read_snapshot(HEALTHY)


def text_of(name: str) -> str:
    found = [e["file"] for e in SAMPLES if Path(e["file"]).name.startswith(name)]
    assert found, name
    return (CORPUS / found[0]).read_text()


def rails(number: int, speed: int | None) -> tuple[Rail, ...]:
    return tuple(
        Rail(
            name=f"rail{i}", netdev=f"eth{i}", rdma_device=f"mlx5_{i}", port_gbits_s=speed,
            address=f"192.0.2.{i + 1}/31", subnet="192.0.2.0/24",
        )
        for i in range(number)
    )  # fmt: skip


def decide(
    phase: Phase,
    texts: dict[str, str | ProbeResult],
    platform: str = "dgx-h100",
    network: str = "",
    fabric: str = "roce",
) -> Decision:
    results = {
        name: item if isinstance(item, ProbeResult) else ProbeResult(status="ok", stdout=item)
        for name, item in texts.items()
    }
    count, _, speed = network.rstrip("g").partition("x")
    site = HostVars(
        platform=platform,
        profile=Profile(fabric=fabric),
        gpu_count=None if PLATFORMS[platform].gpu.count.value else 8,
        rails=rails(int(count), int(speed)) if network else (),
    )
    question = Question(phases=(phase,), platforms=PLATFORMS, host="node", as_of=AS_OF, site=site)
    snapshot = BASE.model_copy(update={"probes": {**BASE.probes, **results}})
    return judge(snapshot, question).decisions[0]


def verdicts(*args: object, **kwargs: object) -> dict[str, Verdict]:
    found = decide(*args, **kwargs).verdicts  # type: ignore[arg-type]
    return {v.check: v for v in found if v.check.startswith("nccl.")}


def both(texts: dict[str, str | ProbeResult], **kwargs: str) -> dict[str, str]:
    """Status by check over the two gates, without those of a transport that was not recorded."""
    found = verdicts(Phase.NVLINK, texts, **kwargs) | verdicts(Phase.ROCE, texts, **kwargs)
    unlogged = "without NCCL_DEBUG=INFO"
    return {n[5:]: v.status.value for n, v in found.items() if unlogged not in v.actual}


P, F, U, W = "pass", "fail", "unknown", "warn"
RIGHT, FAST, WAY = "correct", "busbw", "transport"
RIGHT2, FAST2, WAY2 = "correct_between", "busbw_between", "transport_between"

#: sample -> platform, network, what the checks say, and why that is not the expert's word.
TABLE: dict[str, tuple[str, str, dict[str, str], str]] = {
    "n01": ("dgx-h200", "1x400g", {RIGHT2: P, FAST2: U}, "no figure for all_gather of 2 ranks"),
    "n03": ("dgx-b200", "", {RIGHT2: U, FAST2: U}, ""),
    "n05": ("dgx-b200", "", {RIGHT2: P, FAST2: U}, "no figure for all_gather"),
    "n07": ("gb200-nvl72-tray", "", {RIGHT2: P, FAST2: P}, ""),
    "n09": ("hgx-a100", "4x100g", {RIGHT2: U, FAST2: U}, ""),
    "n10": ("hgx-h200", "", {RIGHT2: U, FAST2: U}, ""),
    "n11": ("hgx-h100", "", {RIGHT: P, FAST: P}, ""),
    "n12": ("hgx-a100", "8x200g", {RIGHT2: P, FAST2: P}, ""),
    "n14": ("hgx-h100", "8x400g", {RIGHT2: P, FAST2: P}, ""),
    "n16": ("dgx-a100", "", {RIGHT2: P, FAST2: F}, ""),
    "n18": ("dgx-a100", "", {RIGHT2: P, FAST2: U}, "no figure for 4 nodes"),
    "n20": ("h100-pcie", "", {RIGHT2: P, FAST2: U}, "no platform file for GH200, so no figure"),
    "n22": ("hgx-h100", "", {RIGHT2: P, FAST2: U}, "no figure for all_gather, nor A3's network"),
    "n24": ("hgx-h100", "", {RIGHT2: P, FAST2: U}, "EFA is no network that a figure is known for"),
    "n26": ("hgx-h100", "", {RIGHT: U, FAST: U, WAY: W}, ""),
    "n27": ("dgx-a100", "", {RIGHT: U, FAST: P, WAY: P}, "not compared is no pass"),
    "n29": ("dgx-a100", "", {RIGHT: U, FAST: U, WAY: P}, "not compared; no figure"),
    "n30": ("dgx-a100", "", {RIGHT: U, FAST: U, WAY: P}, "not compared; no figure"),
    "n31": ("dgx-a100", "", {RIGHT: U, FAST: U, WAY: P}, "not compared; no figure"),
    "n33": ("dgx-h100", "", {RIGHT: F, FAST: U}, ""),
    "n34": ("h100-pcie", "", {RIGHT2: F, FAST2: U}, ""),
    "n37": ("dgx-v100", "", {RIGHT: F, FAST: U}, ""),
    "n39": ("h100-pcie", "", {RIGHT: F, FAST: U}, ""),
    "n41": ("l40s", "", {RIGHT: U, FAST: U}, ""),
    "n42": ("l40s", "8x400g", {RIGHT2: P, FAST2: F}, ""),
    "n46": ("dgx-h100", "", {RIGHT: F, FAST: U}, ""),
    "08_nccl_after": ("hgx-h100", "", {RIGHT: U, FAST: U}, "the table is not there"),
    "ndbg01": ("dgx-h100", "", {WAY2: P}, ""),
    "ndbg02": ("dgx-h100", "", {WAY: P}, ""),
    "ndbg03": ("dgx-h100", "", {WAY: W, WAY2: F}, "a GB10, where it is expected; not on H100"),
    "ndbg04": ("dgx-h100", "", {WAY: U, WAY2: U}, "the text does not tell the number of nodes"),
    "ndbg05": ("dgx-h100", "", {WAY: W, WAY2: W}, "GPUDirect is not proved by this line"),
    "ndbg06": ("dgx-h100", "", {WAY: U, WAY2: U}, "the text does not tell the number of nodes"),
    "ndbg07": ("dgx-h100", "", {RIGHT: F, FAST: U, WAY: F}, ""),
    "01_nccl_before": ("hgx-h100", "", {RIGHT: F, FAST: U, WAY: F}, ""),
    "05_nccl_after": ("hgx-h100", "", {RIGHT: F, FAST: U, WAY: W}, ""),
}


def _row(entry: dict[str, str]) -> tuple[str, str, dict[str, str], str]:
    name = Path(entry["file"]).name
    return next(row for start, row in TABLE.items() if name.startswith(start))


def test_the_table_has_every_sample() -> None:
    assert len(SAMPLES) == len(TABLE) == 36
    assert all(_row(entry) for entry in SAMPLES)


@pytest.mark.parametrize("entry", SAMPLES, ids=lambda entry: entry["file"])
def test_sample(entry: dict[str, dict[str, str]]) -> None:
    platform, network, wanted, reason = _row(entry)
    probe = "nccl_tests" if entry["kind"] == "nccl" else "nccl_debug"
    found = both({probe: (CORPUS / entry["file"]).read_text()}, platform=platform, network=network)
    assert found == wanted
    word = entry["label"].get("expert_verdict") or entry["label"]["verdict"]
    good = set(found.values()) <= {P, W}
    if re.match(r"(?i)fail|incomplete|no footer|rows missing|row says", word):
        assert not good
    elif not reason:
        assert good or F in found.values()


@pytest.mark.parametrize(
    ("platform", "network", "wanted"),
    [
        ("hgx-h100", "", U),  # which NICs is the maker's choice
        ("dgx-h100", "", P),
        ("hgx-h100", "8x400g", P),
        ("dgx-h100", "2x400g", U),  # not believable with two
        ("dgx-h100", "4x200g", U),  # no figure
        ("dgx-h200", "8x400g", P),
        ("dgx-a100", "", U),
    ],
)
def test_the_network_decides(platform: str, network: str, wanted: str) -> None:
    found = both({"nccl_tests": text_of("n14")}, platform=platform, network=network)
    assert found[FAST2] == wanted


def test_no_fabric_declared() -> None:
    found = verdicts(Phase.ROCE, {"nccl_tests": text_of("n14")}, fabric="none")
    assert found["nccl.correct_between"].status is Status.PASS
    for name in ("nccl.busbw_between", "nccl.transport_between"):
        assert found[name].status is Status.NOT_APPLICABLE
        assert "declares no compute fabric" in found[name].actual


def test_each_gate_takes_the_tests_that_are_its_own(tmp_path: Path) -> None:
    """A bad test between nodes says nothing of NVLink, nor the other way round."""
    (tmp_path / "a.txt").write_text(text_of("n11"))
    (tmp_path / "b.txt").write_text(text_of("n16"))
    (reading,) = read_folder(tmp_path).readings
    assert reading.others
    probes = {**BASE.probes}
    first, second = (
        BASE.model_copy(update={"probes": {**probes, "nccl_tests": r.probes["nccl_tests"]}})
        for r in (reading.snapshot, reading.others[0])
    )
    site = HostVars(platform="dgx-h100")
    for order in ((first, second), (second, first)):
        question = Question(
            phases=(Phase.NVLINK, Phase.ROCE), platforms=PLATFORMS, host="n", as_of=AS_OF, site=site
        )
        report = judge(Reading(order[0], others=(order[1],)), question)
        found = {v.check: v.status for d in report.decisions for v in d.verdicts}
        assert found["nccl.correct"] is found["nccl.busbw"] is Status.PASS
        assert found["nccl.busbw_between"] is Status.FAIL


def test_a_log_and_a_table_in_one_text_or_in_two() -> None:
    log, table = text_of("ndbg02"), text_of("n11")
    off = log.replace(
        "NVLS multicast support is available", "NVLS multicast support is not available"
    )
    for texts in (
        {"nccl_tests": log + table},
        {"nccl_tests": table, "nccl_debug": log},
        {"nccl_debug": log + table},
    ):
        assert both(texts) == {RIGHT: P, FAST: P, WAY: P}
    for texts in ({"nccl_tests": off + table}, {"nccl_tests": table, "nccl_debug": off}):
        # 483 GB/s is above what a ring gives, and judged as one all the same.
        assert both(texts) == {RIGHT: P, FAST: W, WAY: F}


def test_an_error_in_either_text_counts() -> None:
    bad = text_of("ndbg07")
    for texts in (
        {"nccl_tests": text_of("n11"), "nccl_debug": bad},
        {"nccl_tests": bad, "nccl_debug": text_of("n11")},
        {"nccl_tests": bad + text_of("n11")},
    ):
        found = both(texts)
        assert (found[RIGHT], found[WAY]) == (F, F)


def test_a_table_that_is_not_understood_hides_no_error() -> None:
    # A heading without its second half is refused as a whole.
    table = "# size count type redop root time algbw\n"
    found = both({"nccl_tests": text_of("ndbg07") + table})
    assert (found[RIGHT], found[FAST]) == (F, U)
    assert both({"nccl_tests": text_of("ndbg02") + table})[RIGHT] == U
    assert both({"nccl_tests": table})[RIGHT] == U


def test_one_wrong_element_anywhere_fails() -> None:
    lines = text_of("n14").splitlines(keepends=True)
    rows = [n for n, line in enumerate(lines) if re.match(r"\s+\d+\s+\d+\s+float", line)]
    assert len(rows) == 5
    for number in rows:
        for old, new in ((r"0(\s*)$", r"1\1"), (r"^((?:\s+\S+){8}\s+)0", r"\g<1>3e+02")):
            changed = [*lines]
            changed[number] = re.sub(old, new, lines[number], count=1)
            assert changed[number] != lines[number]
            assert both({"nccl_tests": "".join(changed)})[RIGHT2] == F
    text = text_of("n14").replace("values : 0 OK", "values : 4 FAILED")
    assert both({"nccl_tests": text})[RIGHT2] == F


@pytest.mark.parametrize("name", ["n11", "n14", "n12", "n07"])
def test_a_cut_text_never_passes(name: str) -> None:
    text = text_of(name)
    whole = text.index("Out of bounds values : 0 OK") + len("Out of bounds values : 0 OK")
    for end in range(0, len(text), max(1, len(text) // 80)):
        found = both({"nccl_tests": text[:end]}, network="8x400g")
        for check in (RIGHT, RIGHT2):
            assert found.get(check) != P or end >= whole, end


def _run(rows: list[tuple[float, float]], **more: object) -> NcclRun:
    made = tuple(
        NcclRow(
            line=n, size_bytes=1 << (30 + n), count=1, type="float",
            out_of_place=NcclMeasure(algbw_gbytes_s=alg, busbw_gbytes_s=bus, wrong=0),
        )
        for n, (alg, bus) in enumerate(rows, start=1)
    )  # fmt: skip
    return NcclRun(line=1, layout="text", rows=made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "more", "collective", "ranks"),
    [
        ([(276.03, 483.05)], {}, "all_reduce", 8),
        ([(12.22, 22.92), (10.0, 18.75)], {}, "all_reduce", 16),
        ([(98.61, 191.05)], {}, "all_reduce", 32),
        ([(100.0, 199.6)], {}, "all_reduce", None),  # 492 to 506 ranks round to the same
        ([(0.5, 0.88)], {}, None, None),  # too small to tell
        ([(201.32, 188.73)], {}, None, 16),
        ([(232.81, 232.81)], {}, None, None),  # broadcast, reduce, or all_reduce of two
        ([(232.81, 232.81)], {"collective": "all_reduce"}, "all_reduce", 2),
        ([(276.03, 483.05)], {"ranks": 4}, "all_reduce", 8),  # a list that is cut
        ([(276.03, 483.05)], {"ranks": 16}, "all_reduce", 16),
        ([(64.41, 32.2)], {"collective": "all_gather", "ranks": 2}, "all_gather", 2),
        ([(64.41, 64.41)], {"collective": "sendrecv"}, "sendrecv", None),
    ],
)
def test_what_the_factor_tells(
    rows: list[tuple[float, float]], more: dict[str, object], collective: str | None, ranks: int
) -> None:
    shape = shape_of(_run(rows, **more))
    assert (shape.collective, shape.ranks) == (collective, ranks)
    assert bool(shape.doubt) == (more.get("ranks") == 16)


def test_figures_that_were_retyped_are_forgiven_a_little() -> None:
    rows = [(276.0, 483.4), (251.0, 438.9)]  # not one factor by the rules of rounding
    for more in ({"collective": "all_reduce", "ranks": 8}, {"ranks": 8}):
        shape = shape_of(_run(rows, **more))
        assert (shape.collective, shape.ranks, shape.doubt) == ("all_reduce", 8, "")
    assert shape_of(_run(rows)).ranks is None


def test_no_platform_has_more_gpus_in_a_node_than_the_hosts_are_told_by() -> None:
    assert max(spec.gpu.count.value or 0 for spec in PLATFORMS.values()) == MOST_GPUS


def test_hosts() -> None:
    told = {name: over_hosts(parse_nccl_tests(text_of(name)).runs[0])
            for name in ("n01", "n11", "n12", "n14", "n16", "n27", "n42", "n46")}  # fmt: skip
    assert told == {
        "n01": True, "n11": None, "n12": True, "n14": True, "n16": True, "n27": False, "n42": True,
        "n46": False,
    }  # fmt: skip
    # Containers of one name: a GPU that stands there twice is on another host.
    same = text_of("n14").replace("node-02", "node-1")
    assert over_hosts(parse_nccl_tests(same).runs[0]) is True
    assert both({"nccl_tests": same})[FAST2] == P


NVLS_OFF = [
    ("NCCL_NVLS_ENABLE set by environment to 0.", W),
    ("NVLS multicast support is not available on dev 0", W),
    ("NCCL_ALGO set by environment to RING", W),
    ("NCCL_ALGO set by environment to ^NVLS,NVLSTree", W),
    ("NCCL_ALGO set by environment to NVLSTree", F),
    ("NCCL_NVLS_ENABLE set by environment to 2.", F),
]


@pytest.mark.parametrize(("line", "wanted"), NVLS_OFF)
def test_a_ring_on_purpose(line: str, wanted: str) -> None:
    """366 GB/s: good for a ring, a fault where NVLS was expected."""
    text = f"node1:1:1 [0] NCCL INFO {line}\n" + slowed("n14", 366 / 471)
    found = verdicts(Phase.ROCE, {"nccl_tests": text})["nccl.busbw_between"]
    assert found.status.value == wanted, found.actual
    assert "NVLS" in found.remedy or "nccl.transport" in found.remedy


def slowed(name: str, times: float) -> str:
    """The same test of 16 ranks with other bandwidths, and an average that agrees."""
    cells: list[float] = []

    def row(match: re.Match[str]) -> str:
        words = match[1].split()
        for at in (7, 11):
            bus = round(float(words[at]) * times, 2)
            words[at - 1], words[at] = f"{bus / 1.875:.2f}", f"{bus:.2f}"
            cells.append(bus)
        return " " + " ".join(words)

    text = re.sub(r"( \d{8,11} +\d+ +float.*)", row, text_of(name))
    return re.sub(r"(Avg bus bandwidth +: ).*", rf"\g<1>{sum(cells) / len(cells):.3f}", text)


@pytest.mark.parametrize("how", ["absent", "denied", "timeout", "cut", "failed", "error", "empty"])
@pytest.mark.parametrize("probe", ["nccl_tests", "nccl_debug"])
def test_a_spoilt_text_is_unknown(probe: str, how: str) -> None:
    good = text_of("ndbg02") + text_of("n11")
    result = ProbeResult(
        status=ProbeStatus.OK if how == "empty" else ProbeStatus(how),
        stdout="" if how == "empty" else good,
    )
    for phase in (Phase.NVLINK, Phase.ROCE):
        found = verdicts(phase, {probe: result})
        assert len(found) == 3
        assert {v.status for v in found.values()} == {Status.UNKNOWN}
        assert all(v.actual and v.remedy for v in found.values())
    # Nor does a good text beside it make it good.
    other = "nccl_debug" if probe == "nccl_tests" else "nccl_tests"
    found = verdicts(Phase.NVLINK, {probe: result, other: good})
    assert {v.status for v in found.values()} == {Status.UNKNOWN}


def test_nothing_recorded_is_not_measured() -> None:
    for phase in (Phase.NVLINK, Phase.ROCE):
        decision = decide(phase, {})
        assert len([text for text in decision.not_measured if text.startswith("nccl.")]) == 3


def test_the_data_is_judged_without_a_platform() -> None:
    question = Question(phases=(Phase.NVLINK,), platforms={}, host="n", as_of=AS_OF)
    probes = {"nccl_tests": ProbeResult(status="ok", stdout=text_of("n46"))}
    decision = judge(BASE.model_copy(update={"probes": probes}), question).decisions[0]
    assert {v.check: v.status for v in decision.verdicts}["nccl.correct"] is Status.FAIL


def test_a_cuda_error_of_the_log() -> None:
    error = cuda_init_of_log(text_of("ndbg07"))
    assert (error.code, error.line) == (802, 3)
    assert error.text.startswith("Failed to bind")
    for name in ("ndbg01", "n14"):
        with pytest.raises(ParseError):
            cuda_init_of_log(text_of(name))


def test_a_log_without_an_error_does_not_stand_for_cuda_init() -> None:
    decision = decide(Phase.NVLINK, {"nccl_debug": text_of("ndbg02")})
    assert {v.check: v.status for v in decision.verdicts}["cuda.init"] is Status.PASS


def test_known_by_content() -> None:
    found = {e["file"]: probe_of_text((CORPUS / e["file"]).read_text()) for e in SAMPLES}
    assert {probe for file, probe in found.items() if "nccl_debug" not in file} <= {
        "nccl_tests", "nccl_debug",
    }  # fmt: skip
    assert found["nccl/n39_p100_oldest_header_crash.txt"] == "nccl_tests"
    assert found["nccl/n46_json_v3_nwrong.txt"] == "nccl_tests"


def test_a_crash_that_printed_nothing_else() -> None:
    text = node_tests("node1: Test CUDA failure common.cu:893 'no error'\n")
    assert text.failures and not text.runs
    with pytest.raises(ParseError):
        node_tests("Segmentation fault\n")


def test_a_large_log_is_read_in_time() -> None:
    line = "node1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
    text = line * (4_000_000 // len(line)) + text_of("n11")
    start = time.perf_counter()
    node_tests(text)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("text", ["\n" * 200_000, "size " * 40_000, "Test failure\n" * 500_000])
def test_text_without_sense_is_refused_in_time(text: str) -> None:
    start = time.perf_counter()
    assert probe_of_text(text) is None
    with contextlib.suppress(ParseError):
        node_tests(text)
    assert time.perf_counter() - start < 5
