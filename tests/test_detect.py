"""The platform is known exactly or not at all."""

from __future__ import annotations

import pytest

from fabric_tools.checks import CHECKS
from fabric_tools.detect import choose_platform
from fabric_tools.errors import Exit
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec, Target
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Facts
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import AS_OF, HEALTHY, PLATFORMS, report_on


def changed(**texts: str | None) -> Snapshot:
    """The healthy node with the text of some probes replaced, or (None) left out."""
    snapshot = read_snapshot(HEALTHY)
    probes = dict(snapshot.probes)
    for name, text in texts.items():
        if text is None:
            probes.pop(name, None)
        else:
            probes[name] = ProbeResult(status=ProbeStatus.OK, stdout=text)
    return snapshot.model_copy(update={"probes": probes})


def choose(snapshot: Snapshot) -> tuple[str, str]:
    spec, choice = choose_platform(Facts(snapshot), PLATFORMS, HostVars())
    assert (spec.id if spec else "") == choice.id
    return choice.id, choice.why


def test_dgx() -> None:
    assert choose(changed())[0] == "dgx-h100"


def test_another_makers_chassis() -> None:
    assert choose(changed(dmi_product="PowerEdge XE9680\n"))[0] == "hgx-h100"


def test_no_chassis_name_recorded() -> None:
    """Both files have the same values, so the verdicts are the same; preflight still asks."""
    platform, why = choose(changed(dmi_product=None))
    assert platform == "hgx-h100"
    assert "chassis not recorded, and dgx-h100, hgx-h100 have the same values" in why
    decision = report_on(changed(dmi_product=None), Phase.PREFLIGHT).decisions[0]
    assert decision.exit_code == Exit.UNKNOWN


def test_no_chassis_name_and_files_that_differ() -> None:
    other = PLATFORMS["dgx-h100"].model_dump(mode="json")
    other["nvlink"]["link_gbytes_s_min"] = {"value": 26, "source": "test"}
    platforms = {**PLATFORMS, "dgx-h100": PlatformSpec.model_validate(other)}
    spec, choice = choose_platform(Facts(changed(dmi_product=None)), platforms, HostVars())
    assert spec is None
    assert "fits several platform files: dgx-h100, hgx-h100" in choice.why


@pytest.mark.parametrize("chassis", ["DGXA100", "DGXH200", "DGXB200"])
def test_another_dgx_is_not_somebodys_hgx(chassis: str) -> None:
    assert choose(changed(dmi_product=f"{chassis}\n"))[0] == ""


def test_before_the_driver_the_bus_is_enough() -> None:
    assert choose(changed(nvidia_smi_q_xml=None))[0] == "dgx-h100"


def test_without_lspci_the_driver_is_enough() -> None:
    assert choose(changed(lspci=None))[0] == "dgx-h100"


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3e", "NVIDIA H100", "NVIDIA H200"])
def test_never_the_nearest_match(name: str) -> None:
    text = (HEALTHY / "nvidia_smi_q.xml").read_text().replace("NVIDIA H100 80GB HBM3", name)
    platform, why = choose(changed(nvidia_smi_q_xml=text, lspci=None))
    assert platform == ""
    assert name in why


def test_mixed_gpus_are_no_platform() -> None:
    text = (HEALTHY / "nvidia_smi_q.xml").read_text()
    mixed = text.replace("NVIDIA H100 80GB HBM3", "NVIDIA H200", 1)
    assert choose(changed(nvidia_smi_q_xml=mixed))[0] == ""


def test_nothing_seen() -> None:
    platform, why = choose(changed(nvidia_smi_q_xml=None, lspci=None))
    assert platform == "" and "--platform" in why


def test_an_unknown_platform_closes_every_gate() -> None:
    snapshot = changed(nvidia_smi_q_xml=None, lspci=None)
    question = Question((Phase.PREFLIGHT, Phase.DRIVER), PLATFORMS, "node", AS_OF)
    for decision in judge(snapshot, question).decisions:
        assert decision.exit_code == Exit.UNKNOWN and not decision.open
        assert decision.verdicts[-1].check == "host.platform"
        assert decision.verdicts[-1].status is Status.UNKNOWN


def test_why_no_gpu_was_seen_stands_before_that_none_was_seen() -> None:
    error = "Failed to initialize NVML: Driver/library version mismatch\n"
    snapshot = changed(nvidia_smi_q_xml=error, lspci=None)
    question = Question((Phase.DRIVER,), PLATFORMS, "node", AS_OF)
    (decision,) = judge(snapshot, question).decisions
    assert decision.exit_code == Exit.CLOSED
    assert decision.verdicts[0].check == "driver.answers"
    assert decision.verdicts[0].status is Status.FAIL
    assert {"kernel.xid", "driver.modules"} <= {v.check for v in decision.verdicts}


def test_declared_platform_is_judged_not_believed() -> None:
    snapshot = changed(dmi_product="PowerEdge XE9680\n")
    decision = report_on(snapshot, Phase.PREFLIGHT).decisions[0]
    failed = {v.check for v in decision.verdicts if v.status is Status.FAIL}
    assert failed == {"host.platform"}


def without_switches() -> PlatformSpec:
    """A platform of PCIe cards made from the DGX file: no NVLink, no fabric, no row remapping."""
    data = PLATFORMS["dgx-h100"].model_dump(mode="json")
    for section, name, value in (
        ("fabric", "manager", False), ("fabric", "reports_state", False),
        ("fabric", "nvswitch_count", 0), ("nvlink", "links_per_gpu", 0), ("nvlink", "mesh", "none"),
        ("gpu", "row_remap", False),
    ):  # fmt: skip
        data[section][name] = {"value": value, "source": "test"}
    return PlatformSpec.model_validate(data)


def test_not_applicable_only_because_the_platform_file_says_so() -> None:
    phases = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)
    question = Question(
        phases, {"dgx-h100": without_switches()}, "node", AS_OF, site=HostVars(platform="dgx-h100")
    )
    report = judge(changed(), question)
    skipped = {
        v.check: v.actual
        for d in report.decisions
        for v in d.verdicts
        if v.status is Status.NOT_APPLICABLE
    }
    assert set(skipped) == {
        "pci.nvswitch_count", "fabric.manager", "fabric.state", "nvlink.full_mesh",
        "nvlink.links", "kernel.sxid", "fabric.log", "nvlink.error_growth",
        "driver.stack_lock",  # no stack is declared
    }  # fmt: skip
    assert all("(test)" in why for check, why in skipped.items() if check != "driver.stack_lock")
    target = Target(**{n: getattr(PLATFORMS["dgx-h100"], n) for n in PlatformSpec.model_fields})
    assert {item.id for item in CHECKS if item.not_applicable(target)} == UNDECLARED


#: What a site without an inventory does not have.
UNDECLARED = {"apt.mirror", "host.ca", "storage.array", "driver.stack_lock"}


DEAD = (
    "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=failed\nSubState=failed\n"
    "UnitFileState=enabled\nResult=signal\n"
)


def skipped_of(target: Target | None) -> set[str]:
    assert target is not None
    return {item.id for item in CHECKS if item.not_applicable(target)} - UNDECLARED


SWITCHES = {"fabric.manager", "fabric.log", "kernel.sxid", "pci.nvswitch_count"}


@pytest.mark.parametrize(
    "site", [{"gpu_count": 7}, {"gpu_count": 1}, {"fabric_manager": "elsewhere"}]
)
@pytest.mark.parametrize("shown", ["bus", "chassis", "both"])
def test_switches_of_this_node_are_not_declared_away(site: dict[str, object], shown: str) -> None:
    """On its own bus, or in a chassis that is a whole DGX: their manager runs here."""
    texts: dict[str, str | None] = {"fabricmanager_unit": DEAD}
    if shown == "bus":
        texts["dmi_product"] = "PowerEdge XE9680\n"
    elif shown == "chassis":
        texts["lspci"] = None
    snapshot = changed(**texts)
    given = HostVars.model_validate(site)
    target, _ = choose_platform(Facts(snapshot), PLATFORMS, given)
    assert not skipped_of(target) & SWITCHES
    decision = report_on(snapshot, Phase.DRIVER, site=given).decisions[0]
    failed = {v.check: v.follows for v in decision.verdicts if v.status is Status.FAIL or v.follows}
    assert failed.items() >= {"fabric.manager": "", "fabric.state": "fabric.manager"}.items()


@pytest.mark.parametrize(("number", "kind", "skipped"), [
    (7, "none\n", False), (7, "kvm\n", True), (4, "none\n", True), (4, "kvm\n", True),
])  # fmt: skip
def test_a_part_of_a_board_without_switches(number: int, kind: str, skipped: bool) -> None:
    """Half a board may be a small one; more than half of one on bare metal has lost GPUs."""
    snapshot = changed(dmi_product="PowerEdge XE9680\n", lspci=None, virt=kind)
    target, _ = choose_platform(Facts(snapshot), PLATFORMS, HostVars(gpu_count=number))
    assert ("fabric.manager" in skipped_of(target)) is skipped


def test_a_crash_in_a_check_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    from fabric_tools import judge as judge_module
    from fabric_tools.checks.registry import Check
    from fabric_tools.errors import InternalError

    def boom(**_: object) -> None:
        raise ZeroDivisionError("boom")

    item = CHECKS[0]
    broken = Check(**{**{f: getattr(item, f) for f in item.__dataclass_fields__}, "run": boom})
    monkeypatch.setattr(judge_module, "for_phase", lambda _: (broken,))
    with pytest.raises(InternalError, match=r"host\.platform raised ZeroDivisionError: boom"):
        report_on(changed(), Phase.PREFLIGHT)
