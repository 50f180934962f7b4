"""NCCL under load: is the data right, is it fast enough, and which way did it go?

Each question is asked twice: of tests inside the node (gate ``nvlink``) and of tests over several
hosts (gate ``roce``). A test belongs to the second when its list of ranks names several hosts, or
when it has more ranks than any node has GPUs; where nothing tells, it counts as one inside.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks import nccl_bandwidth, nccl_data, nccl_transport
from fabric_tools.checks.nccl_said import Said, absent, here, unread, worst
from fabric_tools.checks.registry import NODE, Check, Finding, Kind, at, check
from fabric_tools.models.nccl_texts import (
    ClusterNcclLogs,
    ClusterNcclTests,
    NcclTexts,
    NodeNcclLogs,
    NodeNcclTests,
)
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_RIGHT = "every test whole, compared, and right"
_FAST = "the bandwidth that this platform has at its largest sizes"
_WAY_INSIDE = "NVLink, with NVLS where the platform has it"
_WAY_BETWEEN = "RDMA with GPUDirect, of the link layer that the inventory declares"

_WRONG_REMEDY = (
    "wrong data: take the node out and keep the log; run `dcgmi diag -r 3`, look for Xid, ECC and "
    "NVLink errors, and repeat with halves of the GPUs until one is left"
)
_FAILED_REMEDY = (
    "mend what the first error names (CUDA 802: see fabric.manager and fabric.state; network: see "
    "nccl.transport_between), then run it again with NCCL_DEBUG=INFO"
)
_SLOW_REMEDY = (
    "repeat it on the idle node; look at nvlink.links, gpu.pcie, clocks and throttling; between "
    "nodes run ib_write_bw rail by rail: good there and bad here is GID, traffic class, PFC or ACS"
)
_LOGGED = "run it again with NCCL_DEBUG=INFO and save all that it prints"


def _no_fabric(spec: Target) -> str:
    """A rack-wide NVLink domain is tested over several hosts without any NIC."""
    if spec.site.profile.fabric != "none" or spec.fabric.imex.value:
        return ""
    return f"the inventory declares no compute fabric ({spec.site.source})"


def _correct(tests: NcclTexts | Missing) -> Iterator[Finding]:
    if isinstance(tests, Missing):
        yield from absent(tests, _RIGHT)
        return
    said = unread(tests)
    for text in tests.texts:
        said += [nccl_data.judge(run, text) for run in text.runs]
        said += [
            Said(
                Status.FAIL,
                f"NCCL failed: {note.text.rpartition('NCCL WARN ')[2][:160]}",
                here(text, note.line),
                remedy=_FAILED_REMEDY,
            )
            for note in text.failures
        ]
    yield worst(said, _RIGHT)


@check(
    "nccl.correct",
    phases=(Phase.NVLINK,),
    title="NCCL inside the node computes and moves data without an error",
    remedy=_WRONG_REMEDY,
    waivable=False,
    kind=Kind.ACTIVE,
)
def correct(tests: NodeNcclTests | Missing) -> Iterator[Finding]:
    """Every test in the text: "#wrong" 0 in every row and "Out of bounds values : 0 OK".

    One wrong element anywhere fails, also where the bandwidth is good; so do a test that crashed
    and a failure in NCCL's own log. A test that is cut, hung, without its closing line or not
    compared (-c 0, N/A cells) proves nothing. The "error" column of old releases is the largest
    difference found, not a count: the out-of-bounds line judges it; only collectives that merely
    move data must show none. The average is not looked at.
    """
    yield from _correct(tests)


@check(
    "nccl.correct_between",
    phases=(Phase.ROCE,),
    title="NCCL between nodes computes and moves data without an error",
    remedy=_WRONG_REMEDY,
    waivable=False,
    kind=Kind.ACTIVE,
)
def correct_between(tests: ClusterNcclTests | Missing) -> Iterator[Finding]:
    """As ``nccl.correct``, for tests over several hosts."""
    yield from _correct(tests)


def _busbw(tests: NcclTexts | Missing, spec: Target) -> Iterator[Finding]:
    if isinstance(tests, Missing):
        yield from absent(tests, _FAST)
        return
    said, falls = [], []
    for text in tests.texts:
        own = [text.log] if text.log is not None and text.log.nvls is not None else []
        found = own or [item.log for item in (text, *tests.texts) if item.log is not None]
        off = nccl_bandwidth.why_no_nvls(found)
        said += [nccl_bandwidth.judge(run, text, off, spec) for run in text.runs]
        falls += [nccl_bandwidth.cliff(run, text) for run in text.runs]
    # A suite runs collectives and sizes that have no figure beside the one that has.
    said = [item for item in said if item.comparable] or said
    said += [item for item in falls if item is not None]
    said += unread(tests)
    if not said:
        said = [Said(Status.UNKNOWN, "no test printed a table", at(tests), remedy=_LOGGED)]
    yield worst(said, _FAST)


@check(
    "nccl.busbw",
    phases=(Phase.NVLINK,),
    title="NCCL inside the node is as fast as this platform is elsewhere",
    remedy=_SLOW_REMEDY,
    kind=Kind.ACTIVE,
)
def busbw(tests: NodeNcclTests | Missing, spec: Target) -> Iterator[Finding]:
    """Bus bandwidth of all_reduce at the largest size, the lower of in place and out of place.

    Never the average of the sweep, which small sizes pull down. The figure is that of the platform
    file for this number of nodes and ranks, algorithm and network, each with its source; below
    ``min_bytes`` it does not hold. NVLS is expected where the file has a figure for it, unless
    NCCL's log says that it was off: then the ring's counts, with a warning. Four GPUs ring, so the
    figure of eight is never asked of them. What is not printed is computed where that is sure:
    busbw is algbw * 2(n-1)/n. Sizes that are three times slower than a smaller one of 1 MiB or
    more are congestion and fail whatever the figure (a single one warns). A figure half as high
    again as the best gate (over NICs the double) is not believed. A collective, a size or a
    number of ranks without a figure is UNKNOWN, unless another test of the same text has one.
    """
    yield from _busbw(tests, spec)


@check(
    "nccl.busbw_between",
    phases=(Phase.ROCE,),
    title="NCCL between nodes is as fast as its NICs allow",
    remedy=_SLOW_REMEDY,
    not_applicable=_no_fabric,
    kind=Kind.ACTIVE,
)
def busbw_between(tests: ClusterNcclTests | Missing, spec: Target) -> Iterator[Finding]:
    """As ``nccl.busbw``, for tests over several hosts.

    Which figure holds depends on the compute NICs: number and speed of the inventory's rails, else
    of the platform file. On two nodes the tree of NVLS shows more than the NICs carry;
    NCCL_ALGO=RING shows the NICs alone.
    """
    yield from _busbw(tests, spec)


@check(
    "nccl.transport",
    phases=(Phase.NVLINK,),
    title="NCCL inside the node uses NVLink and NVLS",
    remedy="save the whole log of a run with NCCL_DEBUG=INFO",
    kind=Kind.ACTIVE,
)
def transport(
    logs: NodeNcclLogs | Missing, tests: NodeNcclTests | Missing, spec: Target
) -> Iterator[Finding]:
    """What NCCL's log (NCCL_DEBUG=INFO) says of NVLS and of the channels.

    NVLS must be available where the platform file has a figure for it; switched off by
    NCCL_NVLS_ENABLE it is no fault. "NET/Socket" on one node is harmless: the data does not leave
    it. Where the log does not tell on how many nodes it ran, it is not.
    """
    if isinstance(logs, Missing):
        yield from _no_log(logs, tests, _WAY_INSIDE)
        return
    said = _unread_files(logs)
    for text in logs.texts:
        said += nccl_transport.inside(text, spec)
    yield worst(said, _WAY_INSIDE)


@check(
    "nccl.transport_between",
    phases=(Phase.ROCE,),
    title="NCCL between nodes uses RDMA with GPUDirect",
    remedy="`ibv_devinfo` where the job runs (in the container); NCCL_IB_HCA must name the compute "
    "NICs, NCCL_IB_DISABLE must not be set",
    not_applicable=_no_fabric,
    kind=Kind.ACTIVE,
)
def transport_between(
    logs: ClusterNcclLogs | Missing, tests: ClusterNcclTests | Missing, spec: Target
) -> Iterator[Finding]:
    """What NCCL's log (NCCL_DEBUG=INFO) says of the network between the hosts.

    "NET/Socket" is TCP and fails, as do a missing libibverbs and a missing RDMA device. Every
    channel between hosts must end in "/GDRDMA"; a log without channel lines does not prove it. The
    link layer must be the one that the inventory declares. The number in "NET/IB/3" is NCCL's own
    index, not mlx5's.
    """
    if isinstance(logs, Missing):
        yield from _no_log(logs, tests, _WAY_BETWEEN)
        return
    said = _unread_files(logs)
    for text in logs.texts:
        several = text.several is True or not isinstance(tests, Missing)
        said += nccl_transport.between(text, spec, several)
    yield worst(said, _WAY_BETWEEN)


def _unread_files(found: NcclTexts) -> list[Said]:
    """Files that could not be read; a table beside a log is the other checks' matter."""
    return [Said(Status.UNKNOWN, why, at(found)) for why in found.unread]


def _no_log(logs: Missing, tests: NcclTexts | Missing, expected: str) -> Iterator[Finding]:
    """A test without NCCL's log shows its speed, not its way."""
    if logs.recorded:
        yield from absent(logs, expected)
    elif isinstance(tests, Missing):
        yield from absent(tests, expected)
    else:
        actual = "the test was run without NCCL_DEBUG=INFO"
        yield Finding(NODE, Status.WARN, expected, actual, (at(tests),), _LOGGED)


CHECKS: tuple[Check, ...] = (
    correct,
    busbw,
    transport,
    correct_between,
    busbw_between,
    transport_between,
)
