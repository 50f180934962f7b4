"""The plain table, the query CSV, nvlink -e, --gpu-reset and topo -p2p against their labels."""

from __future__ import annotations

import pytest
from more_samples import Sample, of_kind, text_of

from fabric_tools.models.smi import SmiTable
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.nvlink_errors import parse_nvlink_errors
from fabric_tools.parsers.smi_gpu_reset import parse_gpu_reset
from fabric_tools.parsers.smi_query import parse_smi_query
from fabric_tools.parsers.smi_table import parse_nvidia_smi
from fabric_tools.parsers.topo_p2p import parse_topo_p2p


@pytest.mark.parametrize("sample", of_kind("nvidia_smi"), ids=lambda s: s.file)
def test_table(sample: Sample) -> None:
    label = sample.label
    if label["gpus"] is None:
        with pytest.raises(ParseError, match="couldn't communicate"):
            parse_nvidia_smi(sample.text)
        return
    table = parse_nvidia_smi(sample.text)
    said = {
        "gpus": len(table.gpus),
        "driver": table.driver_version,
        "cuda": table.cuda_version,
        "names": sorted({gpu.name for gpu in table.gpus}, key=str),
        "mig": table.gpus[0].mig_mode,
        "ecc_uncorr_volatile": table.gpus[0].ecc_uncorrectable_volatile,
        "processes": len(table.processes or ()),
        "bus_ids": [gpu.bus_id for gpu in table.gpus],
        "complete": table.complete,
    }
    for key in said.keys() & label.keys():
        assert said[key] == label[key], key
    if table.form != "excerpt":
        assert table.complete
    lines = sample.text.split("\n")
    assert all((gpu.name or "MiB") in lines[gpu.line - 1] for gpu in table.gpus)


def test_table_cells() -> None:
    (gpu,) = parse_nvidia_smi(text_of("smi01")).gpus
    assert (gpu.fan_percent, gpu.temperature_c, gpu.power_draw_w, gpu.power_cap_w) == (
        *(None, 52, 628),
        700,
    )
    windows = parse_nvidia_smi(text_of("smi04")).gpus[0]
    assert (windows.driver_model, windows.persistence, windows.fan_percent) == ("WDDM", None, 38)
    assert windows.ecc_uncorrectable_volatile is None and not windows.unreadable
    (bad,) = parse_nvidia_smi(text_of("smi06")).gpus
    assert bad.unreadable == ("fan_percent", "temperature_c", "pstate")
    assert (bad.temperature_c, bad.memory_used_mib) == (None, 58222)


OLD = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.56       Driver Version: 418.56       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| N/A   33C    P0    43W / 300W |      0MiB / 32480MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:07:00.0 Off |                  Off |
| N/A   ERR!   P0   ERR! / 300W |     11MiB / 32480MiB |      0%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    1     12345      C   python                                       11MiB |
+-----------------------------------------------------------------------------+
"""
MIG = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.129.03   Driver Version: 535.129.03   CUDA Version: 12.2     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM4-80GB On | 00000000:07:00.0 Off |                   On |
| N/A   33C    P0    43W / 400W |      0MiB / 81920MiB |     N/A      Default |
|                               |                      |             Enabled* |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|==================+======================+===========+=======================|
|  0    7   0   0  |     12MiB /  9728MiB | 14      0 |  1   0    0    0    0 |
|                  |      0MiB / 16383MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""


def test_old_table() -> None:
    table = parse_nvidia_smi(OLD)
    first, second = table.gpus
    assert table.complete and table.processes is not None
    assert (first.ecc_uncorrectable_volatile, second.ecc_off) == (0, True)
    assert second.unreadable == ("temperature_c", "power_draw_w")
    assert (second.compute_mode, second.mig_mode) == ("E. Process", None)
    assert (table.processes[0].pid, table.processes[0].gpu) == (12345, 1)


def test_mig_table() -> None:
    table = parse_nvidia_smi(MIG)
    assert (table.gpus[0].ecc_uncorrectable_volatile, table.gpus[0].ecc_off) == (None, False)
    (device,) = table.mig_devices
    assert (device.gpu, device.gpu_instance, device.device) == (0, 7, 0)
    assert (table.gpus[0].mig_mode, table.gpus[0].utilization_percent) == ("Enabled*", None)
    assert table.complete and table.processes == ()


def test_cut_table_is_not_complete() -> None:
    whole = text_of("smi01")
    for keep in range(13, whole.count("\n") - 2):
        cut = "\n".join(whole.split("\n")[:keep]) + "\n"
        assert not parse_nvidia_smi(cut).complete, keep
    assert parse_nvidia_smi(whole.replace("\n", "\r\n")).complete


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: nvidia-smi: command not found\n",
        "No devices were found\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.1\n",
        OLD + OLD,
        OLD.replace("43W / 300W", "43W / lots"),
        OLD.replace("   1  Tesla", "   0  Tesla"),
        "".join(line for line in OLD.splitlines(keepends=True) if "ERR!" not in line),
        "Unable to determine the device handle for GPU0000:04:00.0: Unknown Error\n" + OLD,
    ],
)  # fmt: skip
def test_table_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nvidia_smi(text)


def test_list_with_mig() -> None:
    listed: SmiTable = parse_nvidia_smi(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-bb)\nGPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-cc)\n"
    )
    assert [gpu.index for gpu in listed.gpus] == [0, 2]
    assert (listed.mig_devices[0].profile, listed.mig_devices[0].gpu) == ("1g.10gb", 0)


@pytest.mark.parametrize("sample", of_kind("smi_query_csv"), ids=lambda s: s.file)
def test_query(sample: Sample) -> None:
    label, query = sample.label, parse_smi_query(sample.text)
    good = [row for row in query.rows if not row.lost]
    first = query.rows[0]
    errors = query.errors
    said = {
        "rows": len(good),
        "bad_rows": len(query.rows) - len(good),
        "columns": len(query.columns),
        "header_first": query.columns[0].name if query.columns else None,
        "name": query.cell(first, "name"),
        "driver": query.cell(first, "driver_version"),
        "compute_cap": query.cell(first, "compute_cap"),
        "mig": query.cell(first, "mig.mode.current"),
        "fabric_state": query.cell(first, "fabric.state"),
        "fabric_status": query.cell(first, "fabric.status"),
        "remapped_uncorrectable": query.cell(first, "remapped_rows.uncorrectable"),
        "remapped_pending": query.cell(first, "remapped_rows.pending"),
        "ecc_uncorrected_volatile_total": query.cell(
            first, "ecc.errors.uncorrected.volatile.total"
        ),
        "missing_index": errors[0].gpu if errors else None,
        "lost": errors[0].bus_id if errors else None,
    }  # fmt: skip
    for key in said.keys() & label.keys():
        assert said[key] == label[key], key
    assert query.complete


def test_query_cells() -> None:
    query = parse_smi_query(text_of("q05"))
    (row,) = query.rows
    assert row.unreadable == {1: "GPU requires reset", 2: "GPU requires reset"}
    assert (query.cell(row, "memory.used"), query.columns[3].unit) == ("0", "MiB")
    full = parse_smi_query(text_of("q01"))
    assert full.cell(full.rows[0], "power.draw") == "77.71"
    assert full.cell(full.rows[0], "fabric.health.summary") is None
    assert parse_smi_query(text_of("q04")).errors[0].bus_id == "0000:02:00.0"
    assert [row.cells for row in parse_smi_query("550.1\n550.1\n").rows] == [("550.1",)] * 2


def test_query_cut() -> None:
    text = text_of("query.csv")
    assert not parse_smi_query(text + "610.57.04, NVID").complete
    for bad in (text + "610.57.04, NVID\n", text + "610.57.04, NV\n610.57.04, NVID"):
        with pytest.raises(ParseError):
            parse_smi_query(bad)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        'Field "gpu.nonsense" is not a valid field to query.\n',
        "nvidia-smi: command not found\n",
        "index, name\n",
        "index, name\n0, A\nindex, name\n0, A\n",
        "0, A\n1, B, C\n",
    ],
)
def test_query_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_smi_query(text)


ERRORS = text_of("nvl09")
BLACKWELL = """\
GPU 0: NVIDIA B200 (UUID: GPU-aa)
\t Link 0: Malformed packet Errors: 0
\t Link 0: Effective BER: 15e-254
\t Link 0: Rx bytes: 12 KiB
\t Link 1: Malformed packet Errors: 3
\t Link 1: Effective BER: 15e-254
\t Link 1: Rx bytes: [N/A]
"""


def test_nvlink_errors() -> None:
    read = parse_nvlink_errors(ERRORS)
    (gpu,) = read.gpus
    assert not read.complete
    assert [link.index for link in gpu.links] == [0, 1, 17]
    assert sum(v or 0 for link in gpu.links for v in link.counts.values()) == 0
    assert "Link 17" in ERRORS.split("\n")[gpu.links[2].line - 1]
    new = parse_nvlink_errors(BLACKWELL)
    assert new.complete
    assert new.gpus[0].links[1].counts == {"Malformed packet Errors": 3, "Rx bytes": None}
    assert not parse_nvlink_errors(BLACKWELL.replace("\t Link 0: Rx bytes: 12 KiB\n", "")).complete


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found\n", text_of("nvl01"), text_of("nvl07"), BLACKWELL * 2,
     BLACKWELL.replace(": 3", ": three"), BLACKWELL.replace("Link 1", "Link 0")],
)  # fmt: skip
def test_nvlink_errors_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nvlink_errors(text)


@pytest.mark.parametrize("sample", of_kind("smi_gpu_reset"), ids=lambda s: s.file)
def test_gpu_reset(sample: Sample) -> None:
    answer = parse_gpu_reset(sample.text)
    assert len(answer.reset) == sample.label["reset"]
    assert bool(answer.refused) == ("refused" in sample.label["verdict"])
    assert answer.done == (sample.label["reset"] > 0)


@pytest.mark.parametrize("sample", of_kind("topo_p2p"), ids=lambda s: s.file)
def test_p2p(sample: Sample) -> None:
    matrix, label = parse_topo_p2p(sample.text), sample.label
    kinds = {cell for row in matrix.rows for cell in row.cells.values()} - {"X"}
    assert len(matrix.gpus) == label["gpus"]
    assert sorted(kinds) == label["kinds"]
    assert (kinds == {"OK"} and matrix.complete) == label["all_ok"]
    assert matrix.complete == label.get("complete", True)


def test_p2p_hard() -> None:
    text = text_of("p2p01")
    assert not parse_topo_p2p("\n".join(text.split("\n")[:4])).complete
    for bad in (text.replace("\tOK", "\tWOW", 1), text + text, text.replace("\tOK", "", 1), ""):
        with pytest.raises(ParseError):
            parse_topo_p2p(bad)
