"""NCCL's log: every sample against its label, and the cases that decide GPUDirect and network."""

from __future__ import annotations

import pytest
from corpus import Sample
from network_corpus import of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.nccl_debug import parse_nccl_debug

GOOD = text_of("ndbg01")


@pytest.mark.parametrize("sample", of_kind("nccl_debug"), ids=lambda s: s.file)
def test_label(sample: Sample) -> None:
    label, log = sample.label, parse_nccl_debug(sample.text)
    for name in ("network", "link_layer", "gdrdma"):
        if name in label:
            assert getattr(log, name) == label[name]
    if "nics" in label:
        assert [nic.name for nic in log.nics] == label["nics"]
    if "nvls" in label:
        assert log.nvls == (label["nvls"] and label["nvls"].replace(" ", "_"))
    for name in ("ranks", "dmabuf"):
        if (name in label and f"n{name.title()}" in sample.text) or name == "dmabuf" in label:
            assert getattr(log, name) == label[name]
    if "nNodes" in sample.text:
        assert log.nodes == label["nodes"]
    assert log.cuda_errors == ((label["cuda_error"],) if "cuda_error" in label else ())
    assert log.verbs_missing is (label.get("cause") == "libibverbs missing")


def test_details() -> None:
    log = parse_nccl_debug(GOOD)
    assert [(nic.index, nic.port) for nic in log.nics][3] == (3, 1)
    assert (log.channels.net, log.channels.net_gdrdma, log.channels.p2p) == (3, 3, 1)
    assert (log.ranks, log.nodes, log.fabric_states) == (16, 2, (3,))
    assert log.environment["NCCL_NET_GDR_LEVEL"] == "PIX"
    assert log.environment["NCCL_IB_HCA"].startswith("mlx5_0,mlx5_1")
    assert log.network_line == 7
    failed = parse_nccl_debug(text_of("05_nccl_after_restart"))
    assert "Test CUDA failure" in failed.warnings[0].text


def test_one_channel_without_gpudirect() -> None:
    assert parse_nccl_debug(GOOD.replace("NET/IB/7/GDRDMA", "NET/IB/7")).gdrdma is False


def test_ranks_that_differ() -> None:
    log = parse_nccl_debug(GOOD + "node1:1:1 [0] NCCL INFO Using network Socket\n")
    assert (log.network, log.networks) == (None, ("IB", "Socket"))


def test_device_forms() -> None:
    log = parse_nccl_debug(
        "n:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1+mlx5_2:1/RoCE"
        " [2]mlx5_3:1 [RO]; OOB eth0:192.0.2.1<0>\n"
        "n:1:2 [0] NCCL INFO NVLS multicast support is not available on dev 0\n"
        "NCCL version 2.27.5+cuda12.9\n"
    )
    assert [(nic.name, nic.link_layer) for nic in log.nics] == [
        ("mlx5_0", "IB"),
        ("mlx5_1+mlx5_2", "RoCE"),
        ("mlx5_3", None),
    ]
    assert (log.link_layer, log.nvls, log.nccl_version) == (None, "unavailable", "2.27.5+cuda12.9")


@pytest.mark.parametrize("text", ["", "hello\n", "# nThread 1 nGpus 8\n"])
def test_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nccl_debug(text)
