"""NVLink inside the node, without load: the matrix and the links."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import (
    NODE,
    Check,
    Finding,
    at,
    check,
    every_gpu,
    every_pair,
    gpu,
    pair,
)
from fabric_tools.models.facts import NvlinkGpu, NvlinkStatus, Topology
from fabric_tools.models.platform import GpuSpec, NvlinkSpec, PlatformSpec
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_LOST = "find the lost GPU first (gpu.count), or record the whole output"


def _no_links(spec: PlatformSpec) -> str:
    links = spec.nvlink.links_per_gpu
    return f"no NVLink on this platform ({links.source})" if links.value == 0 else ""


@check(
    "nvlink.full_mesh",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every pair of GPUs is joined by the platform's full number of NVLinks",
    remedy="a lower NV number: links are down, see nvlink.links; PIX, PXB, PHB, NODE or SYS: no "
    "NVLink at all between the two, check fabric manager and baseboard, then call the vendor",
    subjects=every_pair,
    not_applicable=_no_links,
)
def full_mesh(topo: Topology, want: NvlinkSpec, gpus: GpuSpec) -> Iterator[Finding]:
    """All pairs of ``nvidia-smi topo -m`` against the platform file: NV18 for all 28 on HGX H100.

    Some documents ask for NV12 on H100: that is the A100 value (12 links). It would reject every
    good H100 node or, read as "at least 12", accept a board with six dead links. The matrix alone
    is not enough: it can show NV18 with a dead fabric manager (see fabric.state).
    """
    expected, count = want.pair_kind.value, gpus.count.value
    for first in range(count):
        row = topo.row(f"GPU{first}")
        for second in range(first + 1, count):
            subject = pair(first, second)
            cell = row.cells.get(f"GPU{second}") if row else None
            if cell is None:
                yield Finding(
                    subject, Status.UNKNOWN, expected, "not in the matrix", (at(topo),), _LOST
                )
            else:
                assert row is not None
                status = Status.PASS if cell == expected else Status.FAIL
                yield Finding(subject, status, expected, cell, (at(topo, row.line),))
    # A whole matrix of another size is a finding of its own; a cut one proves nothing.
    if not topo.gpu_rows_whole:
        remedy = "record the whole of `nvidia-smi topo -m` as topo.txt"
        yield Finding(NODE, Status.UNKNOWN, f"{count} rows", "rows are cut", (at(topo),), remedy)
    elif len(topo.gpus) != count:
        actual = f"{len(topo.gpus)} GPUs; numbers close up over a lost one"
        yield Finding(NODE, Status.FAIL, f"{count} GPUs", actual, (at(topo),), _LOST)


@check(
    "nvlink.links",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every NVLink of every GPU is up at full speed",
    remedy="read dmesg for SXid and Xid 74; drain, reset all GPUs with the fabric manager stopped; "
    "if the same link stays down, reseat or replace the GPU or the baseboard",
    subjects=every_gpu,
    not_applicable=_no_links,
)
def links(status: NvlinkStatus, want: NvlinkSpec, gpus: GpuSpec) -> Iterator[Finding]:
    """``nvidia-smi nvlink -s``: the number of links, none inactive, none slow.

    On an NVSwitch platform one inactive link is a fault; on PCIe cards with bridges it is not.
    """
    number = want.links_per_gpu.value
    expected = f"{number} links of {want.link_gbytes_s.value:g} GB/s"
    if len(status.gpus) > gpus.count.value:
        actual = f"{len(status.gpus)} GPUs"
        yield Finding(NODE, Status.FAIL, f"{gpus.count.value} GPUs", actual, (at(status),))
    for index in range(gpus.count.value):
        found = next((item for item in status.gpus if item.index == index), None)
        if found is None:
            yield Finding(gpu(index), Status.UNKNOWN, expected, "not listed", (at(status),), _LOST)
            continue
        yield _links(status, found, want, expected)


def _links(status: NvlinkStatus, found: NvlinkGpu, want: NvlinkSpec, expected: str) -> Finding:
    subject, here = gpu(found.index), (at(status, found.line),)
    if found.state == "mig":
        return Finding(subject, Status.UNKNOWN, expected, "not told in MIG mode", here)
    if found.state == "unsupported":
        return Finding(subject, Status.FAIL, expected, "no NVLink", here)
    if found.state == "inactive":
        return Finding(subject, Status.FAIL, expected, "all links inactive", here)
    down = [link for link in found.links if link.gbytes_s is None]
    slow = [
        link
        for link in found.links
        if link.gbytes_s is not None and link.gbytes_s < want.link_gbytes_s_min.value
    ]
    if down or slow:
        actual = ", ".join(
            [f"link {link.index} inactive" for link in down]
            + [f"link {link.index} {link.gbytes_s:g} GB/s" for link in slow]
        )
        lines = tuple(at(status, link.line) for link in (down + slow)[:3])
        return Finding(subject, Status.FAIL, expected, actual, lines)
    number = want.links_per_gpu.value
    numbers = [link.index for link in found.links]
    if numbers == list(range(number)):
        actual = f"{number} links of {found.links[0].gbytes_s:g} GB/s"
        return Finding(subject, Status.PASS, expected, actual, here)
    cut = not status.complete
    what = "shown, the output is cut" if cut else "listed"
    return Finding(
        subject,
        Status.UNKNOWN if cut else Status.FAIL,
        expected,
        f"{len(found.links)} links {what}",
        here,
    )


CHECKS: tuple[Check, ...] = (full_mesh, links)
