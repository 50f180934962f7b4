"""The list of checks is whole, and no check passes without its evidence."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import fabric_tools.checks
from fabric_tools.checks import BY_ID, CHECKS, for_phase
from fabric_tools.checks.registry import DECLARED, Check
from fabric_tools.errors import Exit
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase
from fabric_tools.probes import PROBES
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import ALL_CASES, HEALTHY, decide, load, snapshot_of


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


def test_every_probe_serves_a_check_or_says_why_not() -> None:
    used = {probe for item in CHECKS for probe in item.probes}
    # The running kernel is kept for the report and for the next-boot checks of the driver role.
    assert {probe.id for probe in PROBES} - used == {"kernel_release"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """The healthy example with an NVML reading: every check passes on it."""
    case = load(next(p for p in ALL_CASES if p.name == "pass_same.yaml"))
    return snapshot_of(case, tmp_path_factory.mktemp("whole") / "node")


def test_the_whole_healthy_node_is_open(whole: Snapshot) -> None:
    for phase in (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK):
        decision = decide(whole, phase)
        assert decision.open
        assert {v.status for v in decision.verdicts} == {Status.PASS}


def _broken(whole: Snapshot, item: Check, how: str) -> Snapshot:
    """The same node with every probe of the check spoilt, plausible output left in place."""
    probes = dict(whole.probes)
    for name in item.probes:
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


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("item", CHECKS, ids=lambda item: item.id)
def test_without_its_probe_a_check_is_unknown_and_the_gate_closed(
    whole: Snapshot, item: Check, how: str
) -> None:
    for phase in item.phases:
        decision = decide(_broken(whole, item, how), phase)
        mine = [v for v in decision.verdicts if v.check == item.id]
        assert mine
        assert {v.status for v in mine} == {Status.UNKNOWN}, mine[0]
        assert all(v.actual and v.remedy for v in mine)
        assert not decision.open
        assert decision.exit_code == Exit.UNKNOWN


def test_every_prefix_of_every_output_keeps_the_gate_closed_or_changes_nothing() -> None:
    """Cutting an output anywhere never turns a finding into a pass of something unseen."""
    whole = read_snapshot(HEALTHY)
    sick = read_snapshot(Path(HEALTHY).parent / "sick-gpu-off-the-bus")
    for name, result in sick.probes.items():
        for part in range(0, len(result.stdout), max(1, len(result.stdout) // 12)):
            cut = result.model_copy(update={"stdout": result.stdout[:part]})
            snapshot = sick.model_copy(update={"probes": {**sick.probes, name: cut}})
            assert not decide(snapshot, Phase.DRIVER).open
    assert decide(whole, Phase.DRIVER).open


def test_a_phase_without_checks_is_closed() -> None:
    assert for_phase(Phase.SERVING) == ()
    decision = decide(read_snapshot(HEALTHY), Phase.SERVING)
    assert not decision.open
    assert decision.exit_code == Exit.UNKNOWN
