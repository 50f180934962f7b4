"""The checks of the network: nothing passes without its evidence, whatever is declared."""

from __future__ import annotations

import json

import pytest

from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import Check, Kind
from fabric_tools.errors import Exit
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.ib_write_bw import parse_ib_write_bw
from fabric_tools.parsers.reader import Facts, Missing
from fabric_tools.parsers.sources import SOURCES
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_folder
from tests.cases_runner import CORPUS, PLATFORMS, decide, report_on, site_of, snapshot_of
from tests.parsers.corpus import Sample, of_kind, text_of

WITH = {"with": "roce"}
SITES = {"rails": site_of({"site": "roce-rails8.yaml"}), "platform": site_of({})}
MINE = [
    item
    for item in for_phase(Phase.ROCE)
    if item.id.split(".")[0] in ("nic", "roce", "topo", "pci") and item.kind is Kind.NODE
]
PROBES = sorted({probe for item in MINE for probe in item.probes})
HOWS = ("missing", "empty", "garbage", "absent", "denied", "timeout", "cut", "failed", "error")
WAYS = [("rails", how) for how in HOWS] + [("platform", how) for how in ("missing", "timeout")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(WITH, tmp_path_factory.mktemp("roce") / "node")


def _spoilt(whole: Snapshot, names: tuple[str, ...], how: str) -> Snapshot:
    probes = dict(whole.probes)
    for name in names:
        old = probes.pop(name, None)
        if how == "empty":
            probes[name] = ProbeResult(status=ProbeStatus.OK, stdout="")
        elif how == "garbage":
            probes[name] = ProbeResult(status=ProbeStatus.OK, stdout="Segmentation fault\n\x00\xff")
        elif how != "missing":
            text = old.stdout if old else ""
            probes[name] = ProbeResult(status=ProbeStatus(how), stdout=text)
    return whole.model_copy(update={"probes": probes})


@pytest.mark.parametrize("site", SITES)
def test_the_healthy_network_passes(whole: Snapshot, site: str) -> None:
    decision = decide(whole, Phase.ROCE, SITES[site])
    mine = [v for v in decision.verdicts if v.check in {item.id for item in MINE}]
    assert {v.status for v in mine} == {Status.PASS}
    assert {v.check for v in mine} == {item.id for item in MINE}


@pytest.mark.parametrize(("site", "how"), WAYS)
@pytest.mark.parametrize("item", MINE, ids=lambda item: item.id)
def test_without_its_probes_a_check_is_unknown(
    whole: Snapshot, item: Check, how: str, site: str
) -> None:
    decision = decide(_spoilt(whole, item.probes, how), Phase.ROCE, SITES[site])
    mine = [v for v in decision.verdicts if v.check == item.id]
    assert mine and {v.status for v in mine} == {Status.UNKNOWN}, mine[0]
    assert all(v.actual and v.remedy and v.evidence for v in mine)
    assert not decision.open and decision.exit_code == Exit.UNKNOWN


@pytest.mark.parametrize(("site", "how"), WAYS)
@pytest.mark.parametrize("probe", PROBES)
def test_no_single_spoilt_probe_leaves_the_gate_open(
    whole: Snapshot, probe: str, how: str, site: str
) -> None:
    if probe not in whole.probes or probe == "virt":
        return  # virt only says that a bridge cannot be seen
    assert not decide(_spoilt(whole, (probe,), how), Phase.ROCE, SITES[site]).open


def _facts(snapshot: Snapshot, probe: str) -> list[object]:
    found: list[object] = []
    for kind, sources in SOURCES.items():
        if any(source.probe == probe for source in sources):
            fact = Facts(snapshot).get(kind)
            found.append(fact if isinstance(fact, Missing) else fact.model_dump())
    return found


@pytest.mark.parametrize("probe", ["infiniband", "ip_link", "mlnx_qos", "lldp"])
def test_a_cut_output_is_noticed_or_lost_nothing(whole: Snapshot, probe: str) -> None:
    text = whole.probes[probe].stdout
    told = _facts(whole, probe)
    for end in range(0, len(text), max(1, len(text) // 40)):
        result = whole.probes[probe].model_copy(update={"stdout": text[:end]})
        cut = whole.model_copy(update={"probes": {**whole.probes, probe: result}})
        if decide(cut, Phase.ROCE, SITES["rails"]).open:
            port_lines = probe == "infiniband" and "mlx5_7/ports/1/gids/3" in text[:end]
            assert port_lines or _facts(cut, probe) == told, f"cut at {end} of {len(text)}"


@pytest.mark.parametrize("fabric", ["none", "infiniband"])
def test_what_the_site_does_not_have_does_not_apply(whole: Snapshot, fabric: str) -> None:
    site = HostVars.model_validate({"platform": "dgx-h100", "profile": {"fabric": fabric}})
    decision = decide(whole, Phase.ROCE, site)
    found = {v.check: v.status for v in decision.verdicts if v.check in {item.id for item in MINE}}
    for check, status in found.items():
        skipped = fabric == "none" or check.startswith("roce.")
        assert (status is Status.NOT_APPLICABLE) is skipped, check
    reasons = {
        v.actual
        for v in decision.verdicts
        if v.status is Status.NOT_APPLICABLE and v.check in found
    }
    assert all("profile.fabric" in reason for reason in reasons)


def test_the_b300_that_only_looks_healthy_is_closed_by_its_network() -> None:
    reading = read_folder(CORPUS / "nodes" / "n01_b300_7of8_xe9780").readings[0]
    report = report_on(reading, Phase.ROCE, site=HostVars())
    assert report.platform.id == "hgx-b300"
    failed = {v.check: v.actual for v in report.decisions[0].verdicts if v.status is Status.FAIL}
    assert set(failed) == {"nic.ports", "nic.link_layer"}
    assert failed["nic.ports"].startswith("0 active")
    assert report.decisions[0].exit_code == Exit.CLOSED


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_no_platform_makes_a_check_of_the_network_crash(whole: Snapshot, name: str) -> None:
    rails = [rail.model_dump() for rail in SITES["rails"].rails]
    for more in ({}, {"rails": rails}, {"rails": rails, "profile": {"fabric": "infiniband"}}):
        site = HostVars.model_validate({"platform": name, "gpu_count": 8, **more})
        decision = report_on(whole, Phase.ROCE, site=site).decisions[0]
        assert decision.verdicts


def test_two_ports_of_one_device_are_told_apart_by_their_interface(whole: Snapshot) -> None:
    text = whole.probes["infiniband"].stdout
    two = text + "mlx5_0/ports/2/state: 1: DOWN\nmlx5_0/ports/2/link_layer: InfiniBand\n"
    probes = dict(whole.probes)
    probes["infiniband"] = probes["infiniband"].model_copy(update={"stdout": two})
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.ROCE, SITES["rails"])
    verdict = next(v for v in decision.verdicts if (v.check, v.subject) == ("nic.ports", "rail0"))
    assert verdict.status in (Status.PASS, Status.UNKNOWN)


def test_evidence_of_a_gid_is_its_line(whole: Snapshot) -> None:
    decision = decide(whole, Phase.ROCE, SITES["rails"])
    verdict = next(v for v in decision.verdicts if (v.check, v.subject) == ("roce.gid", "rail2"))
    assert verdict.evidence[0].text.startswith("mlx5_2/ports/1/gids/3: ")
    assert "index 3" in verdict.actual


def test_a_json_of_no_neighbours_is_an_answer(whole: Snapshot) -> None:
    probes = dict(whole.probes)
    empty = json.dumps({"lldp": [{}]})
    probes["lldp"] = probes["lldp"].model_copy(update={"stdout": empty})
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.ROCE, SITES["rails"])
    found = {v.actual for v in decision.verdicts if v.check == "roce.lldp"}
    assert all(text.endswith("no neighbour") for text in found)


WITH_NICS = [
    sample
    for sample in of_kind("topo")
    if sample.label.get("nic_columns") and sample.label["gpu_count"] in (4, 8)
]


@pytest.mark.parametrize("sample", WITH_NICS, ids=lambda sample: sample.name)
def test_topo_rails_agrees_with_the_labels(whole: Snapshot, sample: Sample) -> None:
    result = ProbeResult(status=ProbeStatus.OK, stdout=sample.text)
    probes = {**whole.probes, "nvidia_smi_topo": result}
    probes.pop("infiniband")  # its ports are of another node
    count = sample.label["gpu_count"]
    site = HostVars(platform="hgx-h100", gpu_count=count)
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.ROCE, site)
    mine = {v.subject: v for v in decision.verdicts if v.check == "topo.rails"}
    assert len(mine) == count
    for index in range(count):
        cells = sample.label["gpu_nic"].get(f"GPU{index}", {})
        near = {cell for nic, cell in cells.items() if cell in ("PIX", "PXB")}
        status = mine[f"GPU {index}"].status
        assert (status is Status.PASS) == bool(near), mine[f"GPU {index}"]
        if not near and sample.label["complete"]:
            far = set(cells.values()) == {"SYS"}
            assert status is (Status.FAIL if far else Status.WARN)


def test_a_tray_of_a_rack_has_no_pcie_switch_between(whole: Snapshot) -> None:
    site = HostVars(platform="gb200-nvl72-tray", gpu_count=4)
    decision = decide(whole, Phase.ROCE, site)
    mine = {v.status for v in decision.verdicts if v.check == "topo.rails"}
    assert mine == {Status.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("name", "gbits_s", "status"),
    [
        ("bw01", 400, Status.FAIL),  # completion error after good rows
        ("bw02", 100, Status.PASS),
        ("bw02", 200, Status.FAIL),
        ("bw03", 100, Status.PASS),
        ("bw05", 200, Status.UNKNOWN),  # over InfiniBand
        ("bw02", 0, Status.UNKNOWN),  # not declared
        ("bw02", 150, Status.UNKNOWN),  # no such port
    ],
)
def test_perftest_by_the_rate_of_the_port(
    whole: Snapshot, name: str, gbits_s: int, status: Status
) -> None:
    text = text_of(name)
    devices = {d for test in parse_ib_write_bw(text).tests for d in test.devices}
    rails = [
        {**rail.model_dump(), "rdma_device": device, "port_gbits_s": gbits_s or None}
        for rail, device in zip(SITES["rails"].rails, sorted(devices), strict=False)
    ]
    site = HostVars.model_validate({"platform": "hgx-h100", "rails": rails})
    probes = {**whole.probes, "ib_write_bw": ProbeResult(status=ProbeStatus.OK, stdout=text)}
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.ROCE, site)
    (verdict,) = [v for v in decision.verdicts if v.check == "roce.perftest"]
    assert verdict.status is status, verdict
    assert verdict.evidence[0].line


def test_a_two_sided_sum_is_no_measurement(whole: Snapshot) -> None:
    text = text_of("bw02").replace("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test")
    probes = {**whole.probes, "ib_write_bw": ProbeResult(status=ProbeStatus.OK, stdout=text)}
    rails = [{**SITES["rails"].rails[5].model_dump(), "port_gbits_s": 100}]
    site = HostVars.model_validate({"platform": "dgx-h100", "rails": rails})
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.ROCE, site)
    (verdict,) = [v for v in decision.verdicts if v.check == "roce.perftest"]
    assert verdict.status is Status.UNKNOWN
