"""Take one line away from a good node: whoever lost it may not pass.

A row, a column, a link, a GPU, a device, a package at a time. Numbers close up over a lost GPU, so
"who" is the bus address or the name where the text gives one, and the pair or GPU otherwise.
"""

from __future__ import annotations

import re

import pytest

from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.phases import Phase
from tests.cases_runner import report_on
from tests.checks.whole import whole_node

GATES = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return whole_node(tmp_path_factory.mktemp("whole"))


def judged(whole: Snapshot, probe: str, text: str) -> tuple[list[Verdict], bool]:
    """All verdicts with that text in place of the probe's, and whether every gate is open."""
    result = whole.probes[probe].model_copy(update={"stdout": text})
    node = whole.model_copy(update={"probes": {**whole.probes, probe: result}})
    decisions = report_on(node, *GATES).decisions
    return [v for d in decisions for v in d.verdicts], all(d.open for d in decisions)


def passed(verdicts: list[Verdict], check: str) -> set[str]:
    """Subjects of a check that passed, and with nothing but that."""
    mine = [v for v in verdicts if v.check == check]
    assert mine, check
    bad = {v.subject for v in mine if v.status is not Status.PASS}
    return {v.subject for v in mine} - bad


def shown(verdicts: list[Verdict], *checks: str) -> str:
    """What the passing verdicts of these checks say that they saw."""
    return "\n".join(v.actual for v in verdicts if v.check in checks and v.status is Status.PASS)


def without(text: str, start: int, end: int) -> str:
    lines = text.split("\n")
    return "\n".join(lines[:start] + lines[end:])


@pytest.mark.parametrize("gpu", range(8))
def test_a_row_of_the_matrix(whole: Snapshot, gpu: int) -> None:
    lines = whole.probes["nvidia_smi_topo"].stdout.split("\n")
    at = next(n for n, line in enumerate(lines) if re.match(rf"GPU{gpu}\s", line))
    verdicts, is_open = judged(whole, "nvidia_smi_topo", without("\n".join(lines), at, at + 1))
    lost = {f"GPU{min(gpu, n)}-GPU{max(gpu, n)}" for n in range(8) if n != gpu}
    assert not lost & passed(verdicts, "nvlink.full_mesh")
    assert not is_open


@pytest.mark.parametrize("gpu", range(8))
def test_a_column_of_the_matrix(whole: Snapshot, gpu: int) -> None:
    rows = [line.split("\t") for line in whole.probes["nvidia_smi_topo"].stdout.split("\n")]
    cut = "\n".join("\t".join(row[: gpu + 1] + row[gpu + 2 :]) for row in rows)
    verdicts, is_open = judged(whole, "nvidia_smi_topo", cut)
    lost = {f"GPU{min(gpu, n)}-GPU{max(gpu, n)}" for n in range(8) if n != gpu}
    assert not lost & passed(verdicts, "nvlink.full_mesh")
    assert not is_open


def test_a_cell_of_the_matrix(whole: Snapshot) -> None:
    rows = [line.split("\t") for line in whole.probes["nvidia_smi_topo"].stdout.split("\n")]
    for row in range(1, 9):
        for column in range(1, 9):
            less = [list(cells) for cells in rows]
            del less[row][column]
            text = "\n".join("\t".join(cells) for cells in less)
            assert not judged(whole, "nvidia_smi_topo", text)[1], (row, column)


def test_a_link(whole: Snapshot) -> None:
    text = whole.probes["nvidia_smi_nvlink"].stdout
    gpu = -1
    for number, line in enumerate(text.split("\n")):
        gpu += line.startswith("GPU ")
        if "Link " not in line or number % 5:  # every fifth, all positions within a GPU come up
            continue
        verdicts, is_open = judged(whole, "nvidia_smi_nvlink", without(text, number, number + 1))
        assert f"GPU {gpu}" not in passed(verdicts, "nvlink.links"), line
        assert not is_open


@pytest.mark.parametrize("gpu", range(8))
def test_a_gpu_of_the_links(whole: Snapshot, gpu: int) -> None:
    lines = whole.probes["nvidia_smi_nvlink"].stdout.split("\n")
    heads = [n for n, line in enumerate(lines) if line.startswith("GPU ")] + [len(lines)]
    text = without("\n".join(lines), heads[gpu], heads[gpu + 1])
    verdicts, is_open = judged(whole, "nvidia_smi_nvlink", text)
    assert f"GPU {gpu}" not in passed(verdicts, "nvlink.links")
    assert not is_open


OF_ONE_GPU = (
    "gpu.readable", "gpu.identity", "gpu.mig", "gpu.ecc_mode", "gpu.ecc_errors", "gpu.row_remap",
    "gpu.recovery", "gpu.pcie", "gpu.throttle", "gpu.power_limit", "gpu.temperature",
    "fabric.state",
)  # fmt: skip


@pytest.mark.parametrize("gpu", range(8))
def test_a_gpu_of_the_inventory(whole: Snapshot, gpu: int) -> None:
    blocks = re.split(r"(?=\t<gpu id)", whole.probes["nvidia_smi_q_xml"].stdout)
    lost = re.findall(r'id="([^"]+)"', blocks[gpu + 1])[0]
    end = "</nvidia_smi_log>\n" if gpu == 7 else ""
    text = "".join(blocks[: gpu + 1] + blocks[gpu + 2 :]) + end
    verdicts, is_open = judged(whole, "nvidia_smi_q_xml", text)
    assert lost not in shown(verdicts, *OF_ONE_GPU, "gpu.count")
    assert not passed(verdicts, "gpu.count") and not is_open


#: Every element of a GPU that a check reads: without it that GPU may not pass that check.
ELEMENTS = {
    "product_name": "gpu.identity", "uuid": "gpu.identity", "pci_device_id": "gpu.identity",
    "current_mig": "gpu.mig", "pending_mig": "gpu.mig",
    "current_ecc": "gpu.ecc_mode", "pending_ecc": "gpu.ecc_mode",
    "dram_uncorrectable": "gpu.ecc_errors", "remapped_row_pending": "gpu.row_remap",
    "remapped_row_failure": "gpu.row_remap", "remapped_row_unc": "gpu.row_remap",
    "max_link_gen": "gpu.pcie", "current_link_width": "gpu.pcie",
    "clocks_event_reason_hw_thermal_slowdown": "gpu.throttle",
    "current_power_limit": "gpu.power_limit", "default_power_limit": "gpu.power_limit",
    "state": "fabric.state", "status": "fabric.state",
}  # fmt: skip


@pytest.mark.parametrize("element", ELEMENTS)
def test_an_element_of_one_gpu(whole: Snapshot, element: str) -> None:
    text = whole.probes["nvidia_smi_q_xml"].stdout
    blocks = re.split(r"(?=\t<gpu id)", text)
    less, number = re.subn(rf"<{element}>[^<]*</{element}>", "", blocks[6])
    assert number
    verdicts, is_open = judged(whole, "nvidia_smi_q_xml", "".join([*blocks[:6], less, *blocks[7:]]))
    assert "GPU 5" not in passed(verdicts, ELEMENTS[element])
    assert not is_open


def test_a_device_of_the_bus(whole: Snapshot) -> None:
    blocks = re.split(r"\n(?=\S)", whole.probes["lspci"].stdout)
    gpus = [n for n, block in enumerate(blocks) if "[10de:2330]" in block]
    switches = [n for n, block in enumerate(blocks) if "[10de:22a3]" in block]
    assert len(gpus) == 8 and len(switches) == 4
    for at in (*gpus, *switches):
        verdicts, is_open = judged(whole, "lspci", "\n".join(blocks[:at] + blocks[at + 1 :]))
        address = blocks[at].split()[0]
        assert address not in shown(verdicts, "pci.gpu_count", "pci.gpu_link", "pci.nvswitch_count")
        assert not is_open, address


def test_a_line_of_the_small_outputs(whole: Snapshot) -> None:
    """Each line that carries a value: without it some gate is closed."""
    needed = {
        "nvidia_module": r"NVRM version", "nvidia_smi_version": r".*version",
        "fabricmanager_version": r"Fabric", "fabricmanager_unit": r"ActiveState|SubState|Id=",
        "kernel_modules": r"nvidia ", "os_release": r"ID=|VERSION_ID=", "cuda_init": r"\{",
    }  # fmt: skip
    for probe, pattern in needed.items():
        lines = whole.probes[probe].stdout.split("\n")
        hit = [n for n, line in enumerate(lines) if re.match(pattern, line)]
        assert hit, probe
        for at in hit:
            text = without("\n".join(lines), at, at + 1)
            assert not judged(whole, probe, text)[1], (probe, lines[at])
