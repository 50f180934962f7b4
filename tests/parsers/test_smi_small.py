"""nvidia-smi: error texts, `--version`, `nvlink -s`."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.nvlink import parse_nvlink_status
from fabric_tools.parsers.smi_answer import parse_smi_answer
from fabric_tools.parsers.smi_version import parse_smi_version

LOST = "Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (text_of("t52"), "driver_library_mismatch"),
        (text_of("t54"), "nvml_unknown_error"),
        (text_of("t55"), "no_devices"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make",
            "driver_not_loaded",
        ),
        (LOST, "gpu_lost"),
        (LOST + text_of("t64"), "gpu_lost"),
        (LOST + text_of("sq09"), "gpu_lost"),
        (
            "Unable to determine the device handle for GPU 0000:B4:00.0: GPU is lost.  Reboot\n",
            "gpu_lost",
        ),
        ("Failed to initialize NVML: Insufficient Permissions\n", "insufficient_permissions"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "library_not_found"),
    ],
)
def test_error_kinds(text: str, kind: str) -> None:
    answer = parse_smi_answer(text)
    assert (answer.error, answer.line) == (kind, 1)
    assert answer.text == text.splitlines()[0].strip()


@pytest.mark.parametrize("name", ["t64", "t09", "t36", "sq01", "sq09", "sq10", "nvidia_smi_L"])
def test_good_shapes(name: str) -> None:
    assert parse_smi_answer(text_of(name)).error is None


@pytest.mark.parametrize(
    "text",
    [
        text_of("t04"),
        "",
        "bash: nvidia-smi: command not found\n",
        "Unable to determine the device handle for GPU 0000:01:00.0: Not Supported\n",
    ],
)
def test_neither(text: str) -> None:
    with pytest.raises(ParseError):
        parse_smi_answer(text)


VERSION = """NVIDIA-SMI version  : 550.107.02
NVML version        : 550.107
DRIVER version      : 550.107.02
CUDA Version        : 12.4
"""

VERSION_610 = """NVIDIA-SMI version  : 610.57.04
NVML version        : 610.57
DRIVER version      : Deprecated, see "KMD version" instead
CUDA version        : Deprecated, see "CUDA UMD version" instead
KMD version         : 610.57.04
CUDA UMD version    : 13.3
"""


def test_version() -> None:
    version = parse_smi_version(VERSION)
    assert version.smi_version == version.driver_version == "550.107.02"
    assert (version.nvml_version, version.line) == ("550.107", 1)
    assert parse_smi_version(VERSION_610).driver_version == "610.57.04"


@pytest.mark.parametrize(
    "text",
    [
        "",
        VERSION.replace("550.107.02", "unknown"),
        VERSION + VERSION,
        VERSION.replace("NVIDIA-SMI", "NVIDIA"),
        text_of("t55"),
        "Failed to initialize NVML: Driver/library version mismatch\n",
    ],
)
def test_version_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_smi_version(text)


NVLINK = [s for s in of_kind("nvlink") if not s.name.startswith("nvl09")]


@pytest.mark.parametrize("sample", NVLINK, ids=lambda s: s.file)
def test_nvlink_label(sample: Sample) -> None:
    label, status = sample.label, parse_nvlink_status(sample.text)
    assert len(status.gpus) == label["gpus"]
    assert status.complete is label.get("complete", True)
    active = [sum(x.gbytes_s is not None for x in gpu.links) for gpu in status.gpus]
    if label.get("active"):
        assert active == label["active"]
    if label.get("links_per_gpu"):
        assert [len(gpu.links) for gpu in status.gpus] == label["links_per_gpu"]
    if "speed_gbs" in label:
        speeds = {link.gbytes_s for gpu in status.gpus for link in gpu.links}
        assert speeds == {label["speed_gbs"]}
    if "state" in label:
        assert status.gpus[0].state == label["state"]


def test_nvlink_three_states() -> None:
    status = parse_nvlink_status(text_of("nvl07"))
    assert [gpu.state for gpu in status.gpus] == ["unsupported", "inactive", "links"]
    assert [x.gbytes_s for x in status.gpus[2].links] == [25.0, 25.0, None, 25.0]
    assert status.gpus[2].links[2].line == 8
    assert status.gpus[1].uuid == "GPU-00000002-0000-4000-8000-000000000002"


def test_nvlink_counters_are_another_command() -> None:
    with pytest.raises(ParseError, match="nvlink -e"):
        parse_nvlink_status(text_of("nvl09"))


A100 = text_of("nvl05")


@pytest.mark.parametrize(
    "text",
    [
        A100.rstrip()[:-3],
        A100.replace("         Link 4: 25 GB/s\n", "", 1),
        "\n".join(A100.split("\n")[:-2]) + "\n",
        A100[: A100.index("         Link 0", A100.index("GPU 7"))],
        A100.replace("         Link 4: 25 GB/s\n", "         [...]\n"),
        A100.replace("         Link 4: 25 GB/s\n", "...\n", 1),
    ],
)
def test_nvlink_incomplete(text: str) -> None:
    assert not parse_nvlink_status(text).complete


def test_nvlink_cut_link_is_dropped() -> None:
    # "Link 1" of "Link 11" must not read as a second link 1.
    status = parse_nvlink_status(A100.rstrip()[: -len("1: 25 GB/s")])
    assert not status.complete
    assert [x.index for x in status.gpus[-1].links] == list(range(11))


@pytest.mark.parametrize(
    "text",
    [
        "",
        text_of("t55"),
        LOST + A100,
        A100.replace("GPU 1:", "GPU 0:"),
        A100.replace("Link 3", "Link 2", 1),
        A100.replace("25 GB/s", "25 MB/s", 1),
        text_of("nvl02") + "\t Link 0: 25 GB/s\nDevice does not have or support Nvlink\n",
        "\t Link 0: 25 GB/s\n",
    ],
)
def test_nvlink_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nvlink_status(text)
