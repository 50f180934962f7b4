"""Whatever the text, these parsers too give a fact or a ParseError and nothing else, in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from more_samples import ALL as SAMPLES
from more_samples import of_kind

from fabric_tools.models.base import Fact
from fabric_tools.parsers.apt_hold import parse_apt_hold
from fabric_tools.parsers.apt_policy import parse_apt_policy
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.cdi import parse_cdi
from fabric_tools.parsers.crictl_info import parse_crictl_info
from fabric_tools.parsers.cuda_error import parse_cuda_error
from fabric_tools.parsers.dcgmi import parse_dcgmi
from fabric_tools.parsers.dev_nodes import parse_dev_nodes
from fabric_tools.parsers.dkms import parse_dkms
from fabric_tools.parsers.docker_info import parse_docker_info
from fabric_tools.parsers.dpkg import parse_dpkg, parse_rpm
from fabric_tools.parsers.fabricmanager_log import parse_fabricmanager_log
from fabric_tools.parsers.ipmi_sdr import parse_ipmi_sdr
from fabric_tools.parsers.k3s_check_config import parse_k3s_check_config
from fabric_tools.parsers.k3s_containerd import parse_k3s_containerd
from fabric_tools.parsers.k8s_node import parse_k8s_node
from fabric_tools.parsers.metrics import parse_metrics
from fabric_tools.parsers.modinfo import parse_modinfo
from fabric_tools.parsers.mokutil import parse_mokutil
from fabric_tools.parsers.nvlink_errors import parse_nvlink_errors
from fabric_tools.parsers.redfish import parse_redfish
from fabric_tools.parsers.runtimeclass import parse_runtimeclass
from fabric_tools.parsers.signing import parse_signing
from fabric_tools.parsers.smi_gpu_reset import parse_gpu_reset
from fabric_tools.parsers.smi_query import parse_smi_query
from fabric_tools.parsers.smi_table import parse_nvidia_smi
from fabric_tools.parsers.topo_p2p import parse_topo_p2p
from fabric_tools.parsers.virt import parse_virt
from fabric_tools.parsers.vllm_bench import parse_vllm_bench

Parse = Callable[[str], Fact]

PARSERS: dict[Parse, str] = {
    parse_nvidia_smi: "nvidia_smi",
    parse_smi_query: "smi_query_csv",
    parse_nvlink_errors: "nvlink",
    parse_gpu_reset: "smi_gpu_reset",
    parse_topo_p2p: "topo_p2p",
    parse_fabricmanager_log: "fabricmanager",
    parse_dcgmi: "dcgmi",
    parse_modinfo: "modinfo",
    parse_dpkg: "dpkg",
    parse_rpm: "dpkg",
    parse_dkms: "dkms",
    parse_mokutil: "mokutil",
    parse_apt_hold: "apt_hold",
    parse_apt_policy: "apt_policy",
    parse_cdi: "cdi",
    parse_crictl_info: "crictl_info",
    parse_k3s_check_config: "k3s_check_config",
    parse_k3s_containerd: "k3s_containerd",
    parse_runtimeclass: "runtimeclass",
    parse_k8s_node: "k8s_node",
    parse_metrics: "metrics",
    parse_signing: "signing",
    parse_vllm_bench: "vllm_bench",
    parse_redfish: "redfish",
    parse_ipmi_sdr: "ipmi_sdr",
    parse_docker_info: "docker_info",
    parse_virt: "systemd_detect_virt",
    parse_cuda_error: "cuda_error",
    parse_dev_nodes: "dev_nodes",
}
ALL = pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
QUICK = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
JUNK = (b"\x00", b"\xff\xfe", b"\x1b[4m", b"\r", b"\n", b"9" * 400, b"[" * 400, b"null", b"-1",
        b"1e999", b"NaN", b'"\\ud800"', b"{}", b"|", b": ")  # fmt: skip


def _try(parse: Parse, text: str) -> None:
    try:
        fact = parse(text)
    except ParseError as caught:
        error = caught
    else:
        assert isinstance(fact, Fact)
        return
    assert error.why
    assert 0 <= error.line <= text.count("\n") + 1


def _mutate(raw: bytes, how: str, at: int, junk: bytes) -> bytes:
    if how == "cut":
        return raw[:at]
    if how == "head":
        return raw[at:]
    if how == "byte":
        return raw[:at] + junk + raw[at + 1 :]
    if how == "crlf":
        return raw.replace(b"\n", b"\r\n")
    lines = raw.split(b"\n")
    line = at % len(lines)
    if how == "value":
        # The text of one JSON value or cell becomes something else.
        head, colon, _ = lines[line].partition(b":")
        lines[line] = head + colon + junk
    elif how == "swap":
        lines[line], lines[-1 - line] = lines[-1 - line], lines[line]
    else:
        lines[line : line + 1] = [] if how == "drop" else [lines[line]] * 2
    return b"\n".join(lines)


@ALL
@QUICK
@given(data=st.data())
def test_mutated_samples(parse: Parse, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(of_kind(PARSERS[parse]))).text.encode()[:30000]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        how = data.draw(
            st.sampled_from(("cut", "head", "byte", "crlf", "value", "swap", "drop", "double"))
        )
        raw = _mutate(raw, how, at, data.draw(st.sampled_from(JUNK) | st.binary(max_size=3)))
    _try(parse, raw.decode(errors="replace"))


@ALL
def test_foreign_samples(parse: Parse) -> None:
    for sample in SAMPLES:
        _try(parse, sample.text)


HOSTILE = (
    "\ud800",
    '{"a": "\\ud800"}',
    "[" * 100_000,
    '{"a":' * 50_000,
    "1" * 5000,
    "\x00",
    '{"@odata.type": 1e999}',
)


@ALL
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(parse: Parse, text: str) -> None:
    _try(parse, text)


UNITS = (
    *(" ", "\t", "a", "|", "+-", "[", "1", ": ", "\n", "(", "a.", "a/", ", ", '"', "{"),
    *("\n\n| a | b |", "\nGPU 0: a", "\n- a: b", "\na 1", "\nx=1", "\nii  a 1-1 amd64 b"),
)


@ALL
@pytest.mark.parametrize("unit", UNITS)
def test_long_text_takes_no_quadratic_time(parse: Parse, unit: str) -> None:
    start = time.monotonic()
    _try(parse, unit * (200_000 // len(unit)))
    assert time.monotonic() - start < 2.0
