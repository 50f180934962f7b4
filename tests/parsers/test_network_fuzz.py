"""Whatever the text, the network and NCCL parsers give a fact or a ParseError, and in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_corpus import ALL_SAMPLES, of_kind

from fabric_tools.models.base import Fact
from fabric_tools.parsers import (
    dcb,
    ethtool,
    gids,
    ib_write_bw,
    ibdev2netdev,
    ibstat,
    ibv_devinfo,
    ip_link,
    lldp,
    mlnx_qos,
    nccl_debug,
    nccl_tests,
    rdma,
    sysfs_infiniband,
)
from fabric_tools.parsers.base import ParseError

Parse = Callable[[str], Fact]

PARSERS: dict[Parse, tuple[str, ...]] = {
    nccl_tests.parse_nccl_tests: ("nccl",),
    nccl_debug.parse_nccl_debug: ("nccl_debug",),
    ib_write_bw.parse_ib_write_bw: ("ib_write_bw",),
    ibv_devinfo.parse_ibv_devinfo: ("ibv_devinfo",),
    ibstat.parse_ibstat: ("ibstat", "ibstatus"),
    ibdev2netdev.parse_ibdev2netdev: ("ibdev2netdev",),
    gids.parse_gids: ("show_gids", "sysfs_ib", "gids"),
    sysfs_infiniband.parse_sysfs_infiniband: ("sysfs_ib",),
    mlnx_qos.parse_mlnx_qos: ("mlnx_qos",),
    dcb.parse_dcb: ("dcb",),
    ip_link.parse_ip_link: ("ip_link", "mtu"),
    ethtool.parse_ethtool_any: ("ethtool",),
    lldp.parse_lldp: ("lldp",),
    rdma.parse_rdma: ("rdma", "rdma_dev"),
}
ALL = pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)

WORDS = (
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n",
    "8 2 float sum -1 1.0 0.1 0.1 0 1.0 0.1 0.1 0\n", "8 2 float sum -1", "N/A", "1e999", " 0",
    "# Out of bounds values : 0 OK\n", "# Avg bus bandwidth : 1\n",
    "nThread 1 nGpus 1 minBytes 8 ", "maxBytes 16 step: 2(factor)",
    "# Rank 0 on h device 0 [0x00] G\n", "[1,0]<stdout>:", "0: ", "h:1:1 [0] NCCL INFO ",
    "NET/IB : Using [0]mlx5_0:1/RoCE", "Channel 0 via NET/IB/0", "hca_id:\tm", "\tport:\t1\n",
    "\t\tstate:\tPORT_ACTIVE (4)\n", "CA \'m\'\n", "\tPort 1:\n", "\t\tRate: 4\n",
    "m port 1 ==> e (Up)\n", "m\t1\t0\tfe80:0000:0000:0000:0000:00ff:fe00:0001\t\tv1\te\n",
    "\n", "DCBX mode: a\n", "Priority trust state: pcp\n",
    "tc: 0 ratelimit: unlimited, tsa: ets, bw: 9%\n", "priority: 0\n", "pfc-cap 8 ",
    "prio-pfc 0:on ", "dscp-prio AF31:3 ", "2: e: <UP> mtu 9 x\n", "    bond mode x miimon 9\n",
    "Settings for e:\n", "\tSpeed: 1Mb/s\n", "driver: m\n", "{", "}", "[", "]", "\"lldp\":",
    "\"ifname\":\"e\",", "\"port\":1,", "null", "RDMA_Write BW Test\n", "#bytes ",
    " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n",
    "2 5 1.0 1.0 1.0\n", "m/ports/1/rate: 4 Gb/sec (4X)\n", "\u001b[4m", "\u0000", "\ud800",
    "\u0663", "\\", "...\n",
)  # fmt: skip

QUICK = settings(
    max_examples=40,
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
        fact.model_dump_json()
        return
    assert error.why
    assert 0 <= error.line <= text.count("\n") + 1


@ALL
@QUICK
@given(
    text=st.one_of(
        st.text(st.characters(), max_size=200),
        st.lists(st.sampled_from(WORDS), max_size=14).map("".join),
    )
)
def test_random_text(parse: Parse, text: str) -> None:
    _try(parse, text)


@ALL
@QUICK
@given(data=st.data())
def test_mutated_samples(parse: Parse, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(of_kind(*PARSERS[parse]))).text.encode()[:20000]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        how = data.draw(st.sampled_from(("cut", "byte", "drop", "double", "head", "swap", "crlf")))
        if how == "cut":
            raw = raw[:at]
        elif how == "head":
            raw = raw[at:]
        elif how == "crlf":
            raw = raw.replace(b"\n", b"\r\n")
        elif how == "byte":
            raw = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at + 1 :]
        else:
            lines = raw.split(b"\n")
            line = at % len(lines)
            if how == "swap":
                lines.append(lines.pop(line))
            else:
                lines[line : line + 1] = [] if how == "drop" else [lines[line]] * 2
            raw = b"\n".join(lines)
    _try(parse, raw.decode(errors="replace"))


@ALL
def test_foreign_samples(parse: Parse) -> None:
    """The output of another tool under this name, for instance a file saved in the wrong place."""
    for sample in ALL_SAMPLES:
        _try(parse, sample.text)


@ALL
def test_line_endings_and_colours_change_nothing(parse: Parse) -> None:
    for sample in of_kind(*PARSERS[parse]):
        if sample.text.lstrip()[:1] in "[{":
            continue
        try:
            plain = parse(sample.text)
        except ParseError:
            assert (parse, sample.kind) == (gids.parse_gids, "sysfs_ib")  # a dump without GIDs
            continue
        assert parse(sample.text.replace("\n", "\r\n")) == plain
        assert parse("".join(f"\x1b[0m{x}\x1b[K\n" for x in sample.text.split("\n")[:-1])) == plain


@ALL
@pytest.mark.parametrize(
    "unit",
    [" ", "\t", "a", "[", "{", "1", ": ", "\n", "(", "a@", "priority:  0", "1 ", "a:", '{"a":',
     "8 2 float ", " NCCL ", "a:1:1 [0] NCCL INFO ", "Channel via NET/IB/0 ", "[0]a:1/IB ", ",",
     "m port 1 ==> e (Up)\n", "fe80:", "a b ", "prio-pfc 0:on\n", "2: e: <UP> mtu 9\n", "\\"],
)  # fmt: skip
def test_long_text_takes_no_quadratic_time(parse: Parse, unit: str) -> None:
    start = time.monotonic()
    _try(parse, unit * (60_000 // len(unit)))
    _try(parse, (unit * (4000 // len(unit)) + "\n") * 25)
    assert time.monotonic() - start < 2.0


@ALL
def test_ten_megabytes(parse: Parse) -> None:
    sample = max(of_kind(*PARSERS[parse]), key=lambda s: len(s.text)).text
    for text in (sample * (10 * 2**20 // len(sample)), "\n" * (10 * 2**20)):
        start = time.monotonic()
        _try(parse, text)
        assert time.monotonic() - start < 2.0
