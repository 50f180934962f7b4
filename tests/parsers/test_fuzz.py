"""Whatever the text, a parser gives a fact or a ParseError and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from corpus import SAMPLES, of_kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric_tools.models.base import Fact
from fabric_tools.parsers import (
    fabricmanager,
    host,
    kernel_log,
    kernel_modules,
    lspci,
    nvidia_module,
    nvlink,
    smi_answer,
    smi_text,
    smi_version,
    smi_xml,
    systemd,
    topo,
)
from fabric_tools.parsers.base import ParseError

Parse = Callable[[str], Fact]

PARSERS: dict[Parse, tuple[str, ...]] = {
    topo.parse_topology: ("topo",),
    smi_xml.parse_gpu_inventory_xml: ("smi_q",),
    smi_text.parse_gpu_inventory_text: ("smi_q",),
    smi_answer.parse_smi_answer: ("topo", "nvidia_smi"),
    smi_version.parse_smi_version: ("nvidia_smi",),
    nvlink.parse_nvlink_status: ("nvlink",),
    nvidia_module.parse_loaded_module: ("proc_nvidia_version",),
    kernel_modules.parse_kernel_modules: ("proc_nvidia_version",),
    fabricmanager.parse_fabricmanager_version: ("fabricmanager",),
    systemd.parse_unit_state: ("fabricmanager",),
    kernel_log.parse_kernel_log: ("xid", "sxid"),
    lspci.parse_pci_devices: ("lspci",),
    host.parse_os_release: ("dmi",),
    host.parse_dmi_product: ("dmi",),
    host.parse_kernel_release: ("dmi",),
}
ALL = pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)

# Some text that a parser looks for, so that random text gets past the first line.
WORDS = (
    "GPU0", "GPU 0: H (UUID: GPU-1)", "\tGPU0\tNIC0\tCPU Affinity", "GPU 00000000:18:00.0",
    "==============NVSMI LOG==============", " Link 0: 25 GB/s", "X", "NV18", "\t", " : ", "\n",
    "\r\n", "Active: active", "x.service", "ActiveState=", "Id=", "NVRM: Xid (PCI:0000:9b:00): 79",
    "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 1, Fatal, Link 1", "[1.5] ", "Linux version 6",
    "18:00.0 Bridge: NVIDIA", "\tLnkSta:\tSpeed 8GT/s, Width x16", "NVRM version: NVIDIA UNIX ",
    "<nvidia_smi_log>", "</nvidia_smi_log>", '<gpu id="00000000:18:00.0">', "</gpu>", "<!DOCTYPE",
    "nvidia 1 1 - Live 0x0000000000000000", "ID=a", "VERSION_ID=", "\x1b[4m", "\x00", "\ud800",
    "NVIDIA-SMI version : ", "Fabric Manager version is : ", "550.90.07", "N/A", "NIC Legend:",
)  # fmt: skip

QUICK = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


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


@ALL
@QUICK
@given(
    text=st.one_of(
        st.text(st.characters(), max_size=200),
        st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    )
)
def test_random_text(parse: Parse, text: str) -> None:
    _try(parse, text)


@ALL
@QUICK
@given(data=st.data())
def test_mutated_samples(parse: Parse, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(of_kind(*PARSERS[parse]))).text.encode()[:30000]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        how = data.draw(st.sampled_from(("cut", "byte", "drop", "double", "head")))
        if how == "cut":
            raw = raw[:at]
        elif how == "head":
            raw = raw[at:]
        elif how == "byte":
            raw = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at + 1 :]
        else:
            lines = raw.split(b"\n")
            line = at % len(lines)
            lines[line : line + 1] = [] if how == "drop" else [lines[line]] * 2
            raw = b"\n".join(lines)
    _try(parse, raw.decode(errors="replace"))


@ALL
def test_foreign_samples(parse: Parse) -> None:
    """The output of another tool under this name, for instance a file saved in the wrong place."""
    for sample in SAMPLES:
        _try(parse, sample.text)


@ALL
@pytest.mark.parametrize("unit", [" ", "\t", "a", "GPU0 ", "[", "1", ": ", "\n", "\n GPU0 :", "("])
def test_long_text_takes_no_quadratic_time(parse: Parse, unit: str) -> None:
    start = time.monotonic()
    _try(parse, unit * (60_000 // len(unit)))
    assert time.monotonic() - start < 2.0
