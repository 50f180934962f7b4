"""Two readings of one node: which error counters grew between them?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.nvlink import no_links
from fabric_tools.checks.registry import Check, Finding, Kind, at, check, every_gpu, gpu
from fabric_tools.models.facts import GpuInventory
from fabric_tools.models.platform import GpuSpec
from fabric_tools.models.smi import NvlinkErrorGpu, NvlinkErrors
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_LOST = "record the whole of `nvidia-smi nvlink -e` before and after"


@check(
    "nvlink.error_growth",
    phases=(Phase.NVLINK,),
    title="no NVLink error counter grew",
    remedy="recovery: the link was down for a moment, look for Xid 74 and SXid; replay and CRC: "
    "watch it under load, reseat or replace if it goes on",
    subjects=every_gpu,
    not_applicable=no_links,
    kind=Kind.DELTA,
)
def nvlink_growth(before: NvlinkErrors, after: NvlinkErrors, gpus: GpuSpec) -> Iterator[Finding]:
    """Counters of ``nvidia-smi nvlink -e`` in two readings, by GPU and link.

    Absolute counts say little: some come from training the link. A counter that went down was reset
    between the two (driver reload, GPU reset), so the pair proves nothing. Growth of a recovery
    counter fails, of any other warns.
    """
    expected = "no growth"
    for index in range(gpus.number):
        old = next((item for item in before.gpus if item.index == index), None)
        new = next((item for item in after.gpus if item.index == index), None)
        if old is None or new is None or not (old.links and new.links):
            actual = "not in both readings"
            yield Finding(gpu(index), Status.UNKNOWN, expected, actual, (at(after),), _LOST)
            continue
        status, actual, line = _grown(old, new)
        if not (before.complete and after.complete) and status is Status.PASS:
            status, actual, line = Status.UNKNOWN, "a reading is cut", new.line
        remedy = _LOST if status is Status.UNKNOWN else ""
        yield Finding(gpu(index), status, expected, actual, (at(after, line),), remedy)


def _grown(old: NvlinkErrorGpu, new: NvlinkErrorGpu) -> tuple[Status, str, int]:
    """What the pair says, in words, and the line of the later reading that shows it."""
    if old.uuid != new.uuid:
        return Status.UNKNOWN, "another GPU stands at this index now", new.line
    links = {link.index: link.counts for link in old.links}
    if links.keys() != {link.index for link in new.links}:
        return Status.UNKNOWN, "the two readings show different links", new.line
    grown: list[tuple[str, str, int]] = []
    for link in new.links:
        earlier = links[link.index]
        for name in sorted(link.counts.keys() | earlier.keys()):
            first, second = earlier.get(name), link.counts.get(name)
            if first is None or second is None:
                if first is not second:
                    why = f"link {link.index}: {name} is in one reading only"
                    return Status.UNKNOWN, why, link.line
                continue
            if second < first:
                why = f"link {link.index}: {name} fell from {first} to {second}: reset between the "
                return Status.UNKNOWN, f"{why}readings, or they are swapped", link.line
            if second > first:
                grown.append((name, f"link {link.index} {name} {first} -> {second}", link.line))
    if not grown:
        return Status.PASS, f"{len(new.links)} links, none grew", new.line
    bad = [item for item in grown if "recovery" in item[0].lower()]
    first_shown = bad + [item for item in grown if item not in bad]
    shown = ", ".join(text for _, text, _ in first_shown[:4]) + (" ..." if len(grown) > 4 else "")
    return Status.FAIL if bad else Status.WARN, shown, first_shown[0][2]


@check(
    "gpu.error_growth",
    phases=(Phase.NVLINK,),
    title="no memory error counter grew",
    remedy="uncorrectable: drain and reset the GPU, look at gpu.row_remap; correctable: watch it",
    subjects=every_gpu,
    kind=Kind.DELTA,
)
def gpu_growth(before: GpuInventory, after: GpuInventory, gpus: GpuSpec) -> Iterator[Finding]:
    """ECC errors over the life of each GPU and its remapped rows, in two readings, by UUID.

    Counters over the card's life are not reset by a reload. Uncorrectable growth fails, correctable
    growth warns.
    """
    earlier = {facts.uuid: facts for facts in before.gpus if facts.uuid}
    for index in range(gpus.number):
        new = after.gpus[index] if index < len(after.gpus) else None
        old = earlier.get(new.uuid) if new and new.uuid else None
        if new is None or old is None:
            actual, remedy = "not in both readings", "find the lost GPU first: see gpu.count"
            yield Finding(gpu(index), Status.UNKNOWN, "no growth", actual, (at(after),), remedy)
            continue
        pairs = {
            "SRAM uncorrectable": (
                old.ecc_aggregate.sram_uncorrectable, new.ecc_aggregate.sram_uncorrectable
            ),
            "DRAM uncorrectable": (
                old.ecc_aggregate.dram_uncorrectable, new.ecc_aggregate.dram_uncorrectable
            ),
            "correctable": (old.ecc_aggregate.correctable, new.ecc_aggregate.correctable),
            "remapped rows": (old.remap_uncorrectable, new.remap_uncorrectable),
        }  # fmt: skip
        status, actual = _counted(pairs)
        yield Finding(gpu(index), status, "no growth", actual, (at(after, new.line),))


def _counted(pairs: dict[str, tuple[int | None, int | None]]) -> tuple[Status, str]:
    told = {n: (a, b) for n, (a, b) in pairs.items() if a is not None and b is not None}
    if not told:
        return Status.UNKNOWN, "no counter is told in both readings"
    back = [name for name, (a, b) in told.items() if b < a]
    if back:
        return Status.UNKNOWN, f"{', '.join(back)} went down: another board, or a new InfoROM"
    grown = {name: b - a for name, (a, b) in told.items() if b > a}
    if not grown:
        return Status.PASS, "none grew"
    actual = ", ".join(f"{name} {told[name][0]} -> {told[name][1]}" for name in grown)
    return (Status.WARN if set(grown) == {"correctable"} else Status.FAIL), actual


CHECKS: tuple[Check, ...] = (nvlink_growth, gpu_growth)
