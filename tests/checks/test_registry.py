"""The list of checks is whole, and no check passes without its evidence."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import timedelta
from pathlib import Path

import pytest

import fabric_tools.checks
from fabric_tools.checks import BY_ID, CHECKS, for_phase
from fabric_tools.checks.registry import DECLARED, Check, Kind
from fabric_tools.errors import Exit
from fabric_tools.judge import Reading, judge
from fabric_tools.models.facts import Topology
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Facts, Missing
from fabric_tools.parsers.sources import SOURCES
from fabric_tools.phases import Phase
from fabric_tools.probes import BY_ID as PROBE_BY_ID
from fabric_tools.probes import PROBES
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import (
    ALL_CASES,
    AS_OF,
    CORPUS,
    HEALTHY,
    decide,
    load,
    question,
    site_of,
    snapshot_of,
)
from tests.checks.whole import decided, whole_node


def test_no_declared_check_is_left_out() -> None:
    for module in pkgutil.iter_modules(fabric_tools.checks.__path__):
        importlib.import_module(f"fabric_tools.checks.{module.name}")
    assert sorted(DECLARED) == sorted(item.id for item in CHECKS)
    assert len(BY_ID) == len(CHECKS)


@pytest.mark.parametrize("item", CHECKS, ids=lambda item: item.id)
def test_each_check_has_a_passing_and_a_failing_case(item: Check) -> None:
    found = {load(path)["expect"]["status"] for path in ALL_CASES if path.parent.name == item.id}
    assert {"pass", "fail"} <= found


def test_no_case_for_a_check_that_does_not_exist() -> None:
    assert {path.parent.name for path in ALL_CASES} <= set(BY_ID)


#: Recorded and read (`fabric-tools parse`), but no check looks at them yet.
NOT_JUDGED_YET: set[str] = {"dcgm_diag", "gpu_reset"}


def test_every_probe_serves_a_check_or_says_why_not() -> None:
    used = {probe for item in CHECKS for probe in item.probes}
    assert {probe.id for probe in PROBES} - used == NOT_JUDGED_YET


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return whole_node(tmp_path_factory.mktemp("whole"))


def test_the_whole_healthy_node_is_open(whole: Snapshot) -> None:
    for decision in decided(whole, whole).values():
        assert decision.open
        assert {v.status for v in decision.verdicts} == {Status.PASS}


def test_every_check_judges_the_whole_node(whole: Snapshot) -> None:
    """Otherwise the tests below would prove nothing about it."""
    spoken = {v.check for d in decided(whole, whole).values() for v in d.verdicts}
    assert spoken == set(BY_ID)


def _broken(whole: Snapshot, item: Check, how: str) -> Snapshot:
    """The same node with every probe of the check spoilt."""
    return _spoilt(whole, item.probes, how)


def _spoilt(whole: Snapshot, names: tuple[str, ...], how: str) -> Snapshot:
    """Plausible output is left in place where only the status is bad."""
    probes = dict(whole.probes)
    for name in names:
        old = probes.get(name)
        if how == "missing":
            probes.pop(name, None)
        elif how == "empty":
            probes[name] = ProbeResult(status=ProbeStatus.OK, stdout="")
        elif how == "garbage":
            probes[name] = ProbeResult(status=ProbeStatus.OK, stdout="Segmentation fault\n\x00\xff")
        elif old is not None:
            probes[name] = old.model_copy(update={"status": ProbeStatus(how)})
        else:
            probes[name] = ProbeResult(status=ProbeStatus(how))
    return whole.model_copy(update={"probes": probes})


HOWS = ("missing", "empty", "garbage", "absent", "denied", "timeout", "cut", "failed", "error")


#: What nobody saves by hand. The collector always asks, and there it is UNKNOWN like the rest.
WARNS_IF_NOT_RECORDED = {"cuda.init", "fabric.log"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("item", CHECKS, ids=lambda item: item.id)
def test_without_its_probe_a_check_is_unknown_and_the_gate_closed(
    whole: Snapshot, item: Check, how: str
) -> None:
    gates = decided(whole, _broken(whole, item, how))
    for phase in item.phases:
        decision = gates[phase]
        mine = [v for v in decision.verdicts if v.check == item.id]
        if how == "missing" and item.kind is Kind.ACTIVE:
            assert not mine and decision.passive_only
            assert any(
                text.startswith(f"{item.id}: needs a test") for text in decision.not_measured
            )
            continue
        assert mine
        assert all(v.actual and v.remedy for v in mine)
        if how == "missing" and item.id in WARNS_IF_NOT_RECORDED:
            assert {v.status for v in mine} == {Status.WARN}, mine[0]
            continue
        assert {v.status for v in mine} == {Status.UNKNOWN}, mine[0]
        assert not decision.open
        assert decision.exit_code == Exit.UNKNOWN


#: Probes whose absence from a hand-made folder is allowed; a failed reading of them is not.
MAY_BE_MISSING = {
    "nvml", "kernel_release", "cuda_init", "modinfo", "fabricmanager_log",
    # Evidence of a test under load: without it the gate says that it is the passive part only.
    "nccl_tests", "nccl_debug", "ib_write_bw",
}  # fmt: skip
#: Only explains what else was read: why half a board is not taken for a sick one, why ACS cannot be
#: seen, what is pinned where something is not held. No verdict passes because of it.
EXPLAINS = {"virt", "apt_preferences"}
#: Asked only where the node does not have the tool that knows more; one of both must answer.
INSTEAD = {"timedatectl": "chrony_tracking"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("probe", [probe.id for probe in PROBES])
def test_no_single_spoilt_probe_leaves_every_gate_open(
    whole: Snapshot, probe: str, how: str
) -> None:
    if probe not in whole.probes or probe in EXPLAINS:
        return
    if (how == "missing" and probe in MAY_BE_MISSING) or probe in INSTEAD:
        return
    if how in ("missing", "absent") and probe in INSTEAD.values():
        return
    spoilt = _spoilt(whole, (probe,), how)
    assert not all(decision.open for decision in decided(whole, spoilt).values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("rc", [1, 9, 15, 255, -9])
def test_an_exit_status_that_contradicts_ok_is_not_ok(whole: Snapshot, rc: int) -> None:
    for name, old in whole.probes.items():
        if (
            name in EXPLAINS or name in INSTEAD or rc in PROBE_BY_ID[name].accept_rc
        ):  # dpkg-query: one of the patterns has no package
            continue
        probes = {**whole.probes, name: old.model_copy(update={"rc": rc})}
        spoilt = whole.model_copy(update={"probes": probes})
        assert not all(decision.open for decision in decided(whole, spoilt).values()), name


def test_a_snapshot_from_the_future_proves_nothing(whole: Snapshot) -> None:
    late = whole.model_copy(update={"started_at": AS_OF + timedelta(hours=1)})
    decision = decide(late, Phase.DRIVER)
    assert not decision.open and "after this judgement" in decision.reasons[-1]
    early = whole.model_copy(update={"started_at": AS_OF - timedelta(days=400)})
    assert decide(early, Phase.DRIVER).open


def test_a_hung_xml_is_not_forgiven_because_the_text_answers(whole: Snapshot) -> None:
    text = (CORPUS / "other/smi_q/sq09_h100_8_q_full.txt").read_text()
    probes = {
        **whole.probes,
        "nvidia_smi_q": ProbeResult(status=ProbeStatus.OK, stdout=text),
        "nvidia_smi_q_xml": ProbeResult(status=ProbeStatus.TIMEOUT),
    }
    decision = decide(whole.model_copy(update={"probes": probes}), Phase.DRIVER)
    found = {v.check for v in decision.verdicts if v.status in (Status.FAIL, Status.UNKNOWN)}
    assert found == {"driver.answers"}


def _facts(snapshot: Snapshot, probe: str) -> list[object]:
    """What the product reads from one probe."""
    found: list[object] = []
    for kind, sources in SOURCES.items():
        if any(source.probe == probe for source in sources):
            fact = Facts(snapshot).get(kind)
            found.append(fact if isinstance(fact, Missing) else fact.model_dump())
    return found


#: Lists of lines: a cut between two lines behind what is looked for cannot be seen in a hand-made
#: file. The collector's own status says whether an output is whole.
LISTS = (
    "kernel_journal", "kernel_modules", "lspci", "dpkg", "modinfo", "fabricmanager_log",
    "apt_config", "sysctl", "device_links", "trust_store",
    "dpkg_kernel", "apt_policy", "apt_preferences",
)  # fmt: skip
#: Of these even nothing is an answer (no package, no event), with a warning.
SHORT = ("dpkg", "fabricmanager_log", "apt_preferences")
#: The gates of the healthy example, which has nothing of the network.
PASSIVE = (Phase.PREFLIGHT, Phase.BASE, Phase.DRIVER, Phase.NVLINK)


def _of_base(probe: str) -> bool:
    """Whether only the base gate looks at it: that one needs a site that declares something."""
    phases = {phase for item in CHECKS if probe in item.probes for phase in item.phases}
    return phases == {Phase.BASE}


@pytest.mark.exhaustive
@pytest.mark.parametrize("probe", sorted(read_snapshot(HEALTHY).probes))
def test_a_cut_output_is_noticed_or_lost_nothing(probe: str, tmp_path: Path) -> None:
    """Cut at many places: a gate is closed, or every fact is the same as of the whole text."""
    healthy, site, gates = read_snapshot(HEALTHY), site_of({}), PASSIVE
    if probe in INSTEAD:
        return
    if _of_base(probe):
        site, gates = site_of({"site": "site.yaml"}), (Phase.BASE,)
        healthy = snapshot_of({"with": "site"}, tmp_path / "node")
        assert judge(healthy, question("node", *gates, site=site)).decisions[0].open
    text = healthy.probes[probe].stdout
    whole_facts = _facts(healthy, probe)
    for end in range(0, len(text), max(1, len(text) // 60)):
        result = healthy.probes[probe].model_copy(update={"stdout": text[:end]})
        cut = healthy.model_copy(update={"probes": {**healthy.probes, probe: result}})
        reading = Reading(cut, before=healthy if probe == "nvlink_errors" else None)
        decisions = judge(reading, question("node", *gates, site=site)).decisions
        if all(decision.open for decision in decisions):
            if probe in LISTS:
                assert "\n" in text[:end] or probe in SHORT
            elif probe == "nvidia_smi_topo":  # only the affinity of the last GPU can be cut off
                assert Facts(cut).get(Topology).gpu_rows_whole  # type: ignore[union-attr]
            else:
                assert _facts(cut, probe) == whole_facts, f"cut at {end} of {len(text)}"


def test_a_phase_without_checks_is_closed() -> None:
    assert for_phase(Phase.SERVING) == ()
    decision = decide(read_snapshot(HEALTHY), Phase.SERVING)
    assert not decision.open
    assert decision.exit_code == Exit.UNKNOWN
