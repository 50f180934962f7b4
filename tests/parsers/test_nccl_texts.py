"""One text of NCCL: which lines of its log mean a failure."""

from __future__ import annotations

import pytest
from network_corpus import text_of

from fabric_tools.models.nccl_texts import NcclText
from fabric_tools.parsers.base import NothingHere
from fabric_tools.parsers.nccl_texts import cluster_tests, node_tests


def _either(text: str) -> NcclText:
    """The text as that of one node, else as that of several."""
    try:
        found = node_tests(text)
    except NothingHere:
        return cluster_tests(text)
    return found if found.runs else cluster_tests(text)


_INFO = "n1:1:2 [0] NCCL INFO NCCL version 2.21.5\n"


@pytest.mark.parametrize(
    "words",
    [
        "Mismatched collective detected, please check your calls at and around rank 1",
        "Missing ranks: 3 expected 8 got 7",
        "socketProgress: Connection closed by remote peer n2<123>",
        "Bootstrap : mismatch in rank count from procs 8 : 7",
        "Bootstrap : no socket interface found",
    ],
)
def test_warnings_that_are_failures(words: str) -> None:
    line = f"n1:1:2 [0] foo.cc:160 NCCL WARN {words}\n"
    text = text_of("n14") + "\n" + line
    assert _either(text).failures
    assert node_tests(line).failures


def test_a_log_alone_that_passes_an_error_up() -> None:
    assert node_tests(f"{_INFO}n1:1:2 [0] NCCL INFO transport.cc:160 -> 3\n").failures
    assert node_tests(f"{_INFO}Bus error (core dumped)\n").failures
    assert not node_tests(f"{_INFO}n1:1:2 [0] NCCL INFO misc/socket.cc:47 -> 3\n").failures
