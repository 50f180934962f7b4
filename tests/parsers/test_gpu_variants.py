"""What other nodes, drivers and GPUs print. Derived from samples, public reports and the sources
of the tools where these are public (DCGM, nccl-tests); no capture of our own."""

from __future__ import annotations

import pytest
from corpus import text_of

from fabric_tools.models.dcgm import (
    DcgmDiag,
    DcgmHealth,
    DcgmNvlinkErrors,
    FabricManagerLog,
    FabricManagerStatus,
)
from fabric_tools.models.smi import NvlinkErrors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.cuda_error import parse_cuda_error
from fabric_tools.parsers.dcgmi import parse_dcgmi
from fabric_tools.parsers.dispatch import parse_fabricmanager, parse_nvlink
from fabric_tools.parsers.modinfo import parse_modinfo
from fabric_tools.parsers.nccl_tests import parse_nccl_tests
from fabric_tools.parsers.smi_gpu_reset import parse_gpu_reset
from fabric_tools.parsers.smi_table import parse_nvidia_smi
from fabric_tools.parsers.topo import parse_topology

# --- topo -----------------------------------------------------------------------------------

FUSED = """NVIDIA Topology: 
        GPU0    GPU1    NIC0    NIC1    NIC12       NIC13   CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PIX     NODE    NODENODE    0-55,112-167    0               N/A
GPU1    NV18     X      NODE    PIX     PIXPIX      0-55,112-167    0               N/A
NIC0    PIX     NODE     X      PIX     NODENODE
"""  # noqa: E501, W291


def test_cells_that_grew_together_are_taken_apart() -> None:
    topo = parse_topology(FUSED)
    row = topo.row("GPU1")
    assert row is not None
    assert row.cells == {
        "GPU0": "NV18", "GPU1": "X", "NIC0": "NODE", "NIC1": "PIX", "NIC12": "PIX", "NIC13": "PIX",
    }  # fmt: skip
    assert (row.cpu_affinity, row.numa_affinity) == ("0-55,112-167", "0")
    with pytest.raises(ParseError):
        parse_topology(FUSED.replace("PIXPIX", "PIXPIXPIX"))


def test_devices_named_by_their_place() -> None:
    text = "\tGPU0\trocep1s0f0\troceP2p1s0f1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-9\n"
    assert parse_topology(text).nics == ("rocep1s0f0", "roceP2p1s0f1")


def test_dgx2_with_sixteen_gpus_and_no_numa_column() -> None:
    names = [f"GPU{n}" for n in range(16)]
    text = "\t" + "\t".join(names) + "\tCPU Affinity\n"
    for row in names:
        text += row + "\t" + "\t".join(" X " if c == row else "NV6" for c in names) + "\t0-23\n"
    topo = parse_topology(text)
    assert topo.gpu_rows_whole and len(topo.gpus) == 16


def test_a_cell_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ParseError, match="not a cell"):
        parse_topology("\tGPU0\tGPU1\nGPU0\t X \tERR\nGPU1\tERR\t X \n")


# --- nvidia-smi -----------------------------------------------------------------------------


def _row(old: str, new: str) -> str:
    text = text_of("smi01")
    line = next(x for x in text.splitlines() if old in x)
    cells = line.split("|")
    cells[2 if new.startswith("Not") else 3] = new.ljust(len(cells[3]) - 1)
    return text.replace(line, "|".join(cells))


def test_a_gpu_that_shares_the_memory_of_its_cpu() -> None:
    text = _row("MiB /", "Not Supported")
    (gpu,) = parse_nvidia_smi(text).gpus
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.unreadable) == (None, None, ())


def test_a_gpu_that_needs_a_reset_has_no_ecc_count() -> None:
    (gpu,) = parse_nvidia_smi(_row("NVIDIA H200", " [GPU requires reset] ")).gpus
    assert gpu.ecc_uncorrectable_volatile is None
    assert gpu.unreadable == ("ecc_uncorrectable_volatile",)


RESETS = {
    "GPU 00000000:18:00.0 is currently in use by another process.\n": 1,
    "Unable to reset this GPU because it's being used by some other process (e.g. CUDA "
    "application).\nTerminating early due to previous errors.\n": 1,
    "GPU Reset couldn't run because GPU 00000000:01:00.0 is the primary GPU.\n": 1,
    "The following GPUs could not be reset:\n  GPU 00000000:18:00.0: Unknown Error\n": 2,
}


@pytest.mark.parametrize("text", RESETS)
def test_resets_that_were_refused(text: str) -> None:
    reset = parse_gpu_reset(text)
    assert (len(reset.refused), reset.reset, reset.done) == (RESETS[text], (), False)


def test_counters_of_nvlink_5() -> None:
    names = ("Tx packets", "Malformed packet Errors", "FEC Errors - 0", "Effective BER")
    lines = [f"\t Link 0: {name}: {n}" for n, name in enumerate(names)]
    text = "GPU 0: NVIDIA B200 (UUID: GPU-1)\n" + "\n".join(lines) + "\n"
    counters = parse_nvlink(text)
    assert isinstance(counters, NvlinkErrors)
    assert list(counters.gpus[0].links[0].counts.values()) == [0, 1, 2, 3]
    # The first counter alone tells which command it was.
    assert isinstance(parse_nvlink("\n".join(text.splitlines()[:2]) + "\n"), NvlinkErrors)


# --- DCGM -----------------------------------------------------------------------------------


def _table(*rows: str) -> str:
    rule = "+---------------------------+------------------------------------------------+\n"
    text = f"{rule}| Diagnostic                | Result                                         |\n"
    text += rule.replace("-", "=")
    for row in rows:
        name, _, cell = row.partition("~")
        section = f"+-----  {name}  ".ljust(28, "-") + "+" + "-" * 48 + "+\n"
        text += f"| {name:25} | {cell:46} |\n" if "~" in row else section
    return text + rule


def test_diag_of_dcgm_4_has_a_row_for_each_entity() -> None:
    rows = (
        "Deployment", "software~Pass", "~GPU0: Pass", "~GPU1: Pass", "Hardware", "memory~Fail",
        "~GPU0: Pass", "~GPU1: Fail", "Warning: GPU1~GPU 1 had memory errors", "cpu_eud~Skip",
        "~CPU0: Skip",
    )  # fmt: skip
    diag = parse_dcgmi(_table(*rows))
    assert isinstance(diag, DcgmDiag)
    assert diag.tests("fail") == ("memory",)
    assert [r.gpus for r in diag.results if r.status == "fail"] == [None, (1,)]
    assert [r.gpus for r in diag.results if r.status == "skip"] == [None, None]


def test_a_result_below_a_message_is_a_result() -> None:
    """It must not end as the tail of the message."""
    diag = parse_dcgmi(
        _table("Integration", "PCIe~Pass - GPUs: 0, 1", "Warning~GPU 2 replays", "~Fail - GPU: 2")
    )
    assert isinstance(diag, DcgmDiag)
    assert [(r.status, r.gpus) for r in diag.results] == [("pass", (0, 1)), ("fail", (2,))]


ERROR_TABLES = (
    """+-----------------------------+------------------------------------------------+
| NVLINK Error Counts                                                          |
| GPU 3                                                                        |
+=============================+================================================+
| Link 0                      |                                                |
| -> CRC FLIT Error           | 0                                              |
| -> Replay Error             | 3                                              |
| Link 1                      |                                                |
| -> CRC FLIT Error           | 0                                              |
| -> Replay Error             | 0                                              |
+-----------------------------+------------------------------------------------+
""",
    """+-------------------------------------------------------------+
| GPU ID: 3 | NVLINK Error Counts                             |
+-------------------------------------------------------------+
|Link 0     | CRC FLIT Error      | 0                         |
|Link 0     | Replay Error        | 3                         |
|Link 1     | CRC FLIT Error      | 0                         |
|Link 1     | Replay Error        | 0                         |
+-------------------------------------------------------------+
""",
)


@pytest.mark.parametrize("text", ERROR_TABLES)
def test_nvlink_errors_as_a_table(text: str) -> None:
    errors = parse_dcgmi(text)
    assert isinstance(errors, DcgmNvlinkErrors)
    assert errors.gpu == 3
    assert [link.counts["Replay Error"] for link in errors.links] == [3, 0]
    with pytest.raises(ParseError, match="cut"):
        parse_dcgmi(text[: text.rindex("\n+") + 1])


def test_health_before_dcgm_2() -> None:
    rule = "+------------------+---------------------------------------------------------+\n"
    text = f"Health Monitor Report\n{rule}"
    text += "| Group 1          | Overall Health: Warning                                 |\n"
    text += rule.replace("-", "=")
    text += (
        "| GPU ID: 0        | Warning                                                 |\n" + rule
    )
    health = parse_dcgmi(text)
    assert isinstance(health, DcgmHealth)
    assert (health.overall, health.complete) == ("Warning", True)


@pytest.mark.parametrize(
    "text",
    [
        "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n",
        "Error: Unable to complete diagnostic for group 2147483647. Return: (-32) x\n",
    ],
)
def test_an_error_alone_is_no_result(text: str) -> None:
    with pytest.raises(ParseError, match="Error: Unable"):
        parse_dcgmi(text)


# --- fabric manager -------------------------------------------------------------------------

CONFIGURED = "Successfully configured all the available NVSwitches to route GPU NVLink traffic."
JOURNALS = {
    "short": "May 21 07:10:15 n1 nv-fabricmanager[2116]: ",
    "short-precise": "May 21 07:10:15.123456 n1 nv-fabricmanager[2116]: ",
    "short-iso": "2025-05-21T07:10:15+0000 n1 nv-fabricmanager[2116]: ",
    "short-full": "Wed 2025-05-21 07:10:15 UTC n1 nv-fabricmanager[2116]: ",
    "short-unix": "1706000000.123456 n1 nv-fabricmanager[2116]: ",
    "short-monotonic": "[   62.123456] n1 nv-fabricmanager[2116]: ",
    "cat": "",
}


@pytest.mark.parametrize("form", JOURNALS)
def test_fabric_manager_in_every_form_of_the_journal(form: str) -> None:
    head = JOURNALS[form]
    log = parse_fabricmanager(f"{head}Connected to 1 node.\n{head}{CONFIGURED}\n")
    assert isinstance(log, FabricManagerLog)
    assert [(event.line, event.kind) for event in log.events] == [(2, "configured")]


def test_bare_lines_that_could_be_anybodys_are_refused() -> None:
    with pytest.raises(ParseError):
        parse_fabricmanager("Connected to 1 node.\nMain process exited, code=killed\n")


# --- CUDA, NCCL -----------------------------------------------------------------------------

ERRORS = {
    "n1: Test CUDA failure common.cu:1014 'system not yet initialized'\n": 802,
    "x NCCL WARN Cuda failure 999 'unknown error'\n": 999,
    "cudaGetDeviceCount returned 802\n-> system not yet initialized\nResult = FAIL\n": 802,
    "RuntimeError: CUDA error: system not yet initialized\n": 802,
    "CUDA error 802\n": 802,
    "checkCudaErrors: Error (simple.cpp:298): system not yet initialized\n": 802,
}


@pytest.mark.parametrize("text", ERRORS)
def test_cuda_errors(text: str) -> None:
    assert parse_cuda_error(text).code == ERRORS[text]


def test_names_of_binaries_built_with_mpi() -> None:
    text = "# Collective test starting: all_reduce_perf_mpi\n# nThread 1 nGpus 1 minBytes 8 "
    text += "maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    assert parse_nccl_tests(text).runs[0].collective == "all_reduce"


def test_the_average_on_an_unended_last_line() -> None:
    """It counts where the rows say the same; a digit that was cut off shows."""
    text = text_of("n07").rstrip("#\n ")
    assert text.splitlines()[-1].endswith("745.53")
    assert parse_nccl_tests(text).runs[0].avg_busbw_gbytes_s == 745.53
    assert parse_nccl_tests(text[:-4]).runs[0].avg_busbw_gbytes_s is None


def test_a_status_whose_journal_is_cut_at_the_screen_is_still_a_status() -> None:
    text = text_of("fm09") + (
        "Aug 10 06:41:31 n1 nv-fabricmanager[1]: fabric manager NVIDIA GPU driver interface "
        "version 570.86.15 don't match with driver ver>\n"
    )
    status = parse_fabricmanager(text)
    assert isinstance(status, FabricManagerStatus)
    assert (status.active, status.signal, status.events) == ("failed", "KILL", ())


@pytest.mark.parametrize("name", ["fm15", "mi03"])
def test_a_version_at_an_unended_end_may_be_cut(name: str) -> None:
    parse = parse_fabricmanager if name == "fm15" else parse_modinfo
    line = text_of(name).splitlines()[0]
    parse(line + "\n")
    with pytest.raises(ParseError, match="cut"):
        parse(line[:-1])
