"""The whole nodes of the corpus: each gives the verdicts that its ``node.json`` names.

They are folders as people saved them, with a few outputs each. So no gate can be open; what can be
told is told: a fault is FAIL by its own check, what is in order passes, the rest is UNKNOWN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from fabric_tools.errors import Exit, worst
from fabric_tools.judge import Question, judge_fleet
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import HostReport
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_folder
from tests.cases_runner import AS_OF, CORPUS, PLATFORMS

GATES = (Phase.DRIVER, Phase.NVLINK, Phase.ROCE)


@dataclass(frozen=True)
class Expected:
    """Of one moment of a node: checks by phase that must fail, and checks that must pass."""

    fails: dict[Phase, set[str]]
    passes: set[str]
    platform: str = ""


NODES: dict[str, dict[str, Expected]] = {
    # Seven good GPUs of eight; no network port up, link layer InfiniBand.
    "n01_b300_7of8_xe9780": {
        "": Expected(
            {
                # A matrix of seven is explained by seven GPUs: could not tell, see gpu.count.
                Phase.DRIVER: {"gpu.count"},
                Phase.NVLINK: {"gpu.count"},
                Phase.ROCE: {"nic.ports", "nic.link_layer"},
            },
            {"driver.answers", "driver.stack_match", "fabric.manager"},
            "hgx-b300",
        )
    },
    # The fabric state is still Completed, the fabric manager is dead; then a driver out of sync.
    "n02_h100_nvls_out_of_sync": {
        "before": Expected(
            {
                Phase.DRIVER: {"fabric.registration", "cuda.init"},
                Phase.NVLINK: {"fabric.registration", "cuda.init", "nccl.correct"},
                Phase.ROCE: set(),
            },
            set(),
        ),
        "after restart of the fabric manager": Expected(
            {
                Phase.DRIVER: {"kernel.driver_faults"},
                Phase.NVLINK: {"kernel.driver_faults", "nccl.correct"},
                Phase.ROCE: set(),
            },
            set(),
        ),
        "first reset": Expected({phase: set() for phase in GATES}, set()),
        "after": Expected({phase: set() for phase in GATES}, set()),
    },
    # One GPU in a virtual machine that its host never registered with the fabric.
    "n03_h100_vm_fabric_in_progress": {
        "": Expected(
            {
                Phase.DRIVER: {"cuda.init", "fabric.registration"},
                Phase.NVLINK: {"cuda.init", "fabric.registration"},
                Phase.ROCE: set(),
            },
            set(),
        )
    },
    "n04_h100_passthrough_vm_healthy": {
        "": Expected(
            {phase: set() for phase in GATES},
            {"driver.answers", "gpu.count", "fabric.manager", "nvlink.full_mesh"},
            "hgx-h100",
        )
    },
    # Packages, module file and DKMS are all right, and the driver refuses the GPU.
    "n05_a100_driver_rejects_gpu": {
        "": Expected(
            {
                Phase.DRIVER: {"driver.answers", "kernel.driver_faults"},
                Phase.NVLINK: {"kernel.driver_faults"},
                Phase.ROCE: set(),
            },
            {"driver.packages"},
        )
    },
    "n06_h100_k8s_healthy": {
        "": Expected({phase: set() for phase in GATES}, {"gpu.count"}, "hgx-h100")
    },
}


def judged(name: str, site: HostVars | None = None) -> tuple[HostReport, ...]:
    folder = read_folder(CORPUS / "nodes" / name)
    return judge_fleet(
        [
            (reading, Question(GATES, PLATFORMS, f"{name} {n}", AS_OF, site=site or HostVars()))
            for n, reading in enumerate(folder.readings)
        ]
    )


def of_status(report: HostReport, phase: Phase | None, status: Status) -> set[str]:
    return {
        v.check
        for d in report.decisions
        for v in d.verdicts
        if v.status is status and phase in (None, d.phase)
    }


def test_every_node_of_the_corpus_is_here() -> None:
    assert {path.name for path in (CORPUS / "nodes").iterdir()} == set(NODES)


@pytest.mark.parametrize("name", NODES)
def test_verdicts_of_a_whole_node(name: str) -> None:
    reports = judged(name)
    assert [report.moment for report in reports] == list(NODES[name])
    for report, expected in zip(reports, NODES[name].values(), strict=True):
        assert report.platform.id == expected.platform
        for phase in GATES:
            assert of_status(report, phase, Status.FAIL) == expected.fails[phase]
        passed = of_status(report, None, Status.PASS) - of_status(report, None, Status.FAIL)
        assert expected.passes <= passed
        assert not any(decision.open for decision in report.decisions)
    codes = [Exit(d.exit_code) for report in reports for d in report.decisions]
    fails = any(checks for e in NODES[name].values() for checks in e.fails.values())
    assert worst(codes) is (Exit.CLOSED if fails else Exit.UNKNOWN)


def test_the_index_says_what_was_wrong_and_is_not_read_for_it() -> None:
    """Only the names, kinds and moments of files are taken from ``node.json``."""
    from fabric_tools.transport import files

    assert set(files.IndexEntry.model_fields) == {"file", "kind", "when"}
    for name in NODES:
        index = json.loads((CORPUS / "nodes" / name / "node.json").read_text())
        assert set(index["verdicts"]) == {"driver", "nvlink", "roce"}


def test_the_declared_part_of_a_board_is_judged_as_that() -> None:
    (report,) = judged("n03_h100_vm_fabric_in_progress", HostVars(gpu_count=1))
    assert report.platform.id == "hgx-h100"
    fails = of_status(report, Phase.NVLINK, Status.FAIL)
    assert fails == {"cuda.init", "fabric.registration"}
    skipped = of_status(report, Phase.NVLINK, Status.NOT_APPLICABLE)
    assert {"nvlink.full_mesh", "nvlink.links", "fabric.manager"} <= skipped


def test_without_a_fabric_the_roce_gate_is_open_because_nothing_applies() -> None:
    site = HostVars.model_validate(
        {"platform": "hgx-h100", "profile": {"fabric": "none"}}
    )  # fmt: skip
    (report,) = judged("n04_h100_passthrough_vm_healthy", site)
    roce = report.decisions[2]
    left = {v.check for v in roce.verdicts if v.status is not Status.NOT_APPLICABLE}
    assert left <= {"pci.acs", "nic.pcie_link"}
