"""Whatever the text, the parsers behind other parsers give a fact or a ParseError, in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from corpus import SAMPLES, of_kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric_tools.models.base import Fact
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcgm_nvlink_table import parse_dcgm_nvlink_table
from fabric_tools.parsers.dispatch import parse_fabricmanager, parse_nvlink, parse_smi_q
from fabric_tools.parsers.fabricmanager_status import parse_fabricmanager_status
from fabric_tools.parsers.smi_fabric import parse_fabric_states

Parse = Callable[[str], Fact]

PARSERS: dict[Parse, str] = {
    parse_smi_q: "smi_q",
    parse_fabric_states: "smi_q",
    parse_nvlink: "nvlink",
    parse_fabricmanager: "fabricmanager",
    parse_fabricmanager_status: "fabricmanager",
    parse_dcgm_nvlink_table: "dcgmi",
}
ALL = pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
QUICK = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
WORDS = (
    "    Fabric\n", "        State       : Completed\n", "--\n", "...\n", "GPU 00000000:18:00.0\n",
    "==============NVSMI LOG==============\n", "h1: ", "> ", "[1,0]<stdout>:", "root@h:~# x\n",
    "GPU 0: H (UUID: GPU-1)\n", "\t Link 0: 25 GB/s\n", "\t Link 0: CRC Errors: 0\n", "\ud800",
    "Active: failed (Result: signal)\n", "x.service\n", "| GPU 0 |\n", "| Link 0 | |\n", "\x00",
    "| -> a | 1 |\n", "+-----------+\n", "nv-fabricmanager[1]: ", "version mismatch\n",
)  # fmt: skip


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
@given(text=st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_random_text(parse: Parse, text: str) -> None:
    _try(parse, text)


@ALL
@QUICK
@given(data=st.data())
def test_mutated_samples(parse: Parse, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(of_kind(PARSERS[parse]))).text[:30000]
    lines = raw.split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(("cut", "drop", "double", "swap")))
    if how == "cut":
        _try(parse, raw[: data.draw(st.integers(0, len(raw)))])
        return
    if how == "swap":
        lines[at], lines[-1 - at] = lines[-1 - at], lines[at]
    else:
        lines[at : at + 1] = [] if how == "drop" else [lines[at]] * 2
    _try(parse, "\n".join(lines))


@ALL
def test_foreign_samples(parse: Parse) -> None:
    for sample in SAMPLES:
        _try(parse, sample.text)


@ALL
@pytest.mark.parametrize(
    "unit", ["\n", " ", "    Fabric\n", " Link 0: 1\n", "| a | 1 |\n", "a: \n"]
)
def test_ten_megabytes(parse: Parse, unit: str) -> None:
    start = time.monotonic()
    _try(parse, unit * (10 * 2**20 // len(unit)))
    assert time.monotonic() - start < 2.0
