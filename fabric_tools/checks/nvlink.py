"""NVLink inside the node, without load: the matrix and the links."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.gpu import LOST_GPU, because_lost
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
from fabric_tools.models.facts import (
    GpuRosters,
    NvlinkGpu,
    NvlinkStatus,
    PciDevices,
    Topology,
)
from fabric_tools.models.platform import GpuSpec, NvlinkSpec, Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_LOST = "find the lost GPU first (gpu.count), or record the whole output"


def no_links(spec: Target) -> str:
    """Why a check about NVLink does not apply, or nothing."""
    links = spec.nvlink.links_per_gpu
    return f"no NVLink on this platform ({links.source})" if links.value == 0 else ""


@check(
    "nvlink.full_mesh",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every pair of GPUs is joined as the platform joins it",
    remedy="a lower NV number: links are down, see nvlink.links; PIX, PXB, PHB, NODE or SYS: no "
    "NVLink at all between the two, check fabric manager and baseboard, then call the vendor",
    subjects=every_pair,
    not_applicable=no_links,
    follows=LOST_GPU,
)
def full_mesh(
    topo: Topology,
    rosters: GpuRosters | Missing,
    pci: PciDevices | Missing,
    want: NvlinkSpec,
    gpus: GpuSpec,
) -> Iterator[Finding]:
    """All pairs of ``nvidia-smi topo -m`` against the platform file: NV18 for all 28 on HGX H100.

    Some documents ask for NV12 on H100: that is the A100 value (12 links). It would reject every
    good H100 node or, read as "at least 12", accept a board with six dead links. The matrix alone
    is not enough: it can show NV18 with a dead fabric manager (see fabric.state).

    On an SXM board PIX, PXB, PHB, NODE or SYS between two GPUs is a fault; between a GPU and a NIC
    PIX is what one wants (see topo.rails). Cards with bridges are joined in pairs by design, and a
    DGX-1 is a hybrid cube mesh: each pair is compared with its own value.
    """
    for first in range(gpus.number):
        for second in range(first + 1, gpus.number):
            yield _pair(topo, want, first, second)
    count = gpus.number
    # A whole matrix of another size is a finding of its own; a cut one proves nothing.
    if not topo.gpu_rows_whole:
        remedy = "record the whole of `nvidia-smi topo -m` as topo.txt"
        yield Finding(NODE, Status.UNKNOWN, f"{count} rows", "rows are cut", (at(topo),), remedy)
    elif len(topo.gpus) != count:
        actual = f"{len(topo.gpus)} GPUs; numbers close up over a lost one"
        wanted = f"{count} GPUs"
        because = because_lost(len(topo.gpus), rosters, pci)
        yield Finding(NODE, Status.FAIL, wanted, actual, (at(topo),), _LOST, because)


_PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")


def _pair(topo: Topology, want: NvlinkSpec, first: int, second: int) -> Finding:
    """Both cells of a pair: the matrix prints each twice, and a cut one may show only one."""
    subject = pair(first, second)
    names = (f"GPU{first}", f"GPU{second}")
    rows = [topo.row(name) for name in names]
    cells = [
        row.cells.get(other) if row else None
        for row, other in zip(rows, reversed(names), strict=True)
    ]
    expected = _expected(want, subject)
    seen = [cell for cell in cells if cell is not None]
    line = next((row.line for row, cell in zip(rows, cells, strict=True) if row and cell), 0)
    wrong = next((why for cell in seen if (why := _wrong(topo, want, expected, cell, names))), "")
    if wrong or len(set(seen)) > 1:
        actual = wrong if len(set(seen)) < 2 else f"{' and '.join(seen)}: the two cells differ"
        return Finding(subject, Status.FAIL, expected, actual, (at(topo, line),))
    if None in cells:
        actual = f"{seen[0]}, but only one of its two cells is there" if seen else ""
        actual = actual or "not in the matrix"
        return Finding(subject, Status.UNKNOWN, expected, actual, (at(topo, line),), _LOST)
    return Finding(subject, Status.PASS, expected, seen[0], (at(topo, line),))


def _expected(want: NvlinkSpec, subject: str) -> str:
    if want.pairs is not None:
        return want.pairs.value[subject]
    link = want.pair_kind.value or ""
    return f"{link} to one other GPU, PCIe to the rest" if want.mesh.value == "bridged" else link


def _wrong(
    topo: Topology, want: NvlinkSpec, expected: str, cell: str, names: tuple[str, str]
) -> str:
    """What is wrong with one cell, or ""."""
    if want.mesh.value != "bridged":
        return "" if cell == expected else cell
    link = want.pair_kind.value
    if cell not in (link, *_PCIE):
        return cell
    for name in names:
        row = topo.row(name)
        if row is None:
            continue
        partners = [other for other in topo.gpus if row.cells.get(other) == link]
        if len(partners) != 1:
            return f"{cell}; {name} has {len(partners)} partners by {link}"
    return ""


@check(
    "nvlink.links",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="every NVLink of every GPU is up at full speed",
    remedy="read dmesg for SXid and Xid 74; drain, reset all GPUs with the fabric manager stopped; "
    "if the same link stays down, reseat or replace the GPU or the baseboard",
    subjects=every_gpu,
    not_applicable=no_links,
)
def links(status: NvlinkStatus, want: NvlinkSpec, gpus: GpuSpec) -> Iterator[Finding]:
    """``nvidia-smi nvlink -s``: the number of links, none inactive, none slow.

    On an NVSwitch platform one inactive link is a fault; on PCIe cards with bridges the links that
    no bridge uses are inactive by design, and only the number of active ones counts.
    """
    number = want.links_per_gpu.value
    expected = f"{number} links of {want.link_gbytes_s.value or 0:g} GB/s"
    if len(status.gpus) > gpus.number:
        actual = f"{len(status.gpus)} GPUs"
        yield Finding(NODE, Status.FAIL, f"{gpus.number} GPUs", actual, (at(status),))
    for index in range(gpus.number):
        found = next((item for item in status.gpus if item.index == index), None)
        if found is None:
            actual = "no GPU has this number; numbers close up over a lost one"
            yield Finding(gpu(index), Status.UNKNOWN, expected, actual, (at(status),), _LOST)
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
    floor = want.link_gbytes_s_min.value or 0.0
    slow = [link for link in found.links if link.gbytes_s is not None and link.gbytes_s < floor]
    number = want.links_per_gpu.value
    if want.mesh.value == "bridged" and status.complete and not slow:
        up = len(found.links) - len(down)
        good = Status.PASS if up == number else Status.FAIL
        return Finding(subject, good, expected, f"{up} links up, {len(down)} unused", here)
    if down or slow:
        actual = ", ".join(
            [f"link {link.index} inactive" for link in down]
            + [f"link {link.index} {link.gbytes_s:g} GB/s" for link in slow]
        )
        lines = tuple(at(status, link.line) for link in (down + slow)[:3])
        return Finding(subject, Status.FAIL, expected, actual, lines)
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
