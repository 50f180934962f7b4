"""A good answer does not hide a bad one: several sources of one fact, several forms of one tool."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.recognise import probe_of_text
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_folder
from tests.cases_runner import CORPUS, HEALTHY, report_on

#: As a node prints them whose GPUs wait for the fabric manager.
_EXCERPT = "    Fabric\n        State                             : In Progress\n"
_QUERY = "index, uuid, fabric.state, fabric.status\n0, GPU-00000000, In Progress, N/A\n"


def _status(folder: Path, check: str, phase: Phase = Phase.NVLINK) -> list[Status]:
    (reading,) = read_folder(folder).readings
    (decision,) = report_on(reading, phase).decisions
    return [verdict.status for verdict in decision.verdicts if verdict.check == check]


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HEALTHY, tmp_path / "node"))


@pytest.mark.parametrize(
    ("name", "text"), [("fabric_states.txt", _EXCERPT), ("nvidia_smi_query.csv", _QUERY)]
)
def test_a_bad_second_source_counts_beside_a_good_xml(healthy: Path, name: str, text: str) -> None:
    assert _status(healthy, "fabric.registration") == [Status.PASS]
    (healthy / name).write_text(text)
    assert _status(healthy, "fabric.registration") == [Status.FAIL]


def test_what_a_second_source_does_not_say_is_no_fault(healthy: Path) -> None:
    (healthy / "fabric_states.txt").write_text("not the words of nvidia-smi\n")
    assert _status(healthy, "fabric.registration") == [Status.PASS]


@pytest.mark.parametrize("kind", ["dangling", "link", "folder"])
def test_no_plain_file_under_a_known_name_is_refused(healthy: Path, kind: str) -> None:
    path = healthy / "cuda_init.json"
    path.rename(healthy.parent / "elsewhere")
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(healthy.parent / ("elsewhere" if kind == "link" else "nowhere"))
    with pytest.raises(UsageError, match="not a plain file"):
        read_folder(healthy)


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        ("lspci", "17:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"),
        ("nvidia_smi", "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error"),
        ("fabricmanager_unit", "Unit nvidia-fabricmanager.service could not be found.\n"),
        ("fabricmanager_unit", "○ nvidia-fabricmanager.service\n     Loaded: masked (Reason: x)\n"),
    ],
)
def test_short_answers_are_recognised(probe: str, text: str) -> None:
    assert probe_of_text(text) == probe


def test_err_in_the_table_is_a_gpu_that_cannot_be_read(healthy: Path) -> None:
    text = "| ERR!  ERR!  ERR!          N/A / N/A |  58222MiB / 97887MiB |\n"
    (healthy / "nvidia_smi.txt").write_text("| NVIDIA-SMI 565.57.01 Driver\n" + text)
    assert _status(healthy, "driver.answers", Phase.DRIVER) == [Status.FAIL]


def test_the_text_of_q_counts_beside_its_xml(healthy: Path) -> None:
    text = (CORPUS / "other/smi_q/sq09_h100_8_q_full.txt").read_text()
    (healthy / "nvidia_smi_q.txt").write_text(text)
    assert set(_status(healthy, "gpu.ecc_errors", Phase.DRIVER)) == {Status.PASS}
    sick = text.replace("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 7")
    assert sick != text
    (healthy / "nvidia_smi_q.txt").write_text(sick)
    assert set(_status(healthy, "gpu.ecc_errors", Phase.DRIVER)) == {Status.FAIL}


@pytest.mark.parametrize("platform", ["l40s", "h100-pcie"])
def test_a_wrong_platform_does_not_open_nvlink(healthy: Path, platform: str) -> None:
    """Cards without NVSwitches have no manager to judge: the foreign GPU must close the gate."""
    site = HostVars(platform=platform, gpu_count=8)
    (reading,) = read_folder(healthy).readings
    (decision,) = report_on(reading, Phase.NVLINK, site=site).decisions
    assert not decision.open
    identity = {v.status for v in decision.verdicts if v.check == "gpu.identity"}
    assert identity == {Status.FAIL}
