"""What the kernel said of GPUs and NVSwitches since it booted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check
from fabric_tools.checks.xid_table import HARDWARE, INFORMATIONAL, RESET, XIDS
from fabric_tools.models.facts import KernelLog, XidEvent
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_MAX_SHOWN = 5
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


def _worst(statuses: list[Status]) -> Status:
    return min(statuses, key=_ORDER.index, default=Status.PASS)


def _counted(found: list[tuple[Status, str, int]]) -> list[tuple[Status, str, int]]:
    """Equal events once, with their number and the first line."""
    first: dict[tuple[Status, str], int] = {}
    number: dict[tuple[Status, str], int] = {}
    for status, text, line in found:
        first.setdefault((status, text), line)
        number[status, text] = number.get((status, text), 0) + 1
    return [
        (status, text if times == 1 else f"{text}, {times} times", first[status, text])
        for (status, text), times in number.items()
    ]


def _summary(
    log: KernelLog, expected: str, found: list[tuple[Status, str, int]], remedy: str = ""
) -> Finding:
    """One finding for the node: the worst events first, and how far back the log reaches."""
    found = _counted(sorted(found, key=lambda item: (_ORDER.index(item[0]), item[2])))
    status = _worst([item[0] for item in found])
    if not log.from_boot and status in (Status.PASS, Status.WARN):
        actual = f"none in {log.line_count} lines, but the log does not reach back to the boot"
        remedy = "record the whole of `journalctl -k -b` as kernel_journal.txt"
        return Finding(NODE, Status.UNKNOWN, expected, actual, (at(log),), remedy)
    shown = [text for _, text, _ in found[:_MAX_SHOWN]]
    if len(found) > _MAX_SHOWN:
        shown.append(f"and {len(found) - _MAX_SHOWN} more")
    evidence = tuple(at(log, line) for _, _, line in found[:_MAX_SHOWN]) or (at(log),)
    actual = "; ".join(shown) or f"none in {log.line_count} lines since boot"
    return Finding(NODE, status, expected, actual, evidence, remedy)


def judge_xid(event: XidEvent) -> Status:
    """What one Xid means for the node, by number and, where it matters, by its own words."""
    if event.xid == 154:
        action = re.search(r"changed from .* to \S+ \(([^)]+)\)", event.text)
        if action is None:
            return Status.UNKNOWN
        return Status.PASS if action[1].strip().lower() == "none" else Status.FAIL
    if 144 <= event.xid <= 150:  # NVLink 5: the text says Fatal or Nonfatal, the number does not
        return Status.WARN if event.fatal is False else Status.FAIL
    kind = XIDS.get(event.xid)
    if kind in (HARDWARE, RESET):
        return Status.FAIL
    if kind == INFORMATIONAL:
        return Status.PASS
    return Status.UNKNOWN if kind is None else Status.WARN


@check(
    "kernel.xid",
    phases=(Phase.DRIVER,),
    title="no Xid since boot that takes a GPU out of service",
    remedy="drain; Xid of class hardware: reboot, RMA if it returns; class reset: reset the GPU "
    "and reboot, so that the log starts clean",
)
def xid(log: KernelLog) -> Iterator[Finding]:
    """Every ``NVRM: Xid`` line, by NVIDIA's Xid catalogue.

    Hardware and reset classes fail the node; application Xids (13, 31, 94 ...) warn: on one GPU
    across programs they point at hardware. Xid 154 says what the driver wants done. A number that
    the table does not know is UNKNOWN.
    """
    found = [
        (
            judge_xid(event),
            f"Xid {event.xid} on {event.pci} ({XIDS.get(event.xid, 'unknown class')})",
            event.line,
        )
        for event in log.xids
    ]
    yield _summary(log, "no Xid of class hardware or reset", found)


def _no_switches(spec: PlatformSpec) -> str:
    count = spec.fabric.nvswitch_count
    return f"no NVSwitch on this platform ({count.source})" if count.value == 0 else ""


@check(
    "kernel.sxid",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="no fatal NVSwitch error since boot",
    remedy="a lost GPU takes its links down: look at kernel.xid first; else drain, reset all GPUs "
    "with the fabric manager stopped, reboot; RMA if it returns",
    not_applicable=_no_switches,
)
def sxid(log: KernelLog) -> Iterator[Finding]:
    """NVSwitch errors that the kernel calls Fatal; Non-fatal ones are a warning."""
    found = [
        (Status.FAIL if event.fatal else Status.WARN,
         f"SXid {event.sxid} {'Fatal' if event.fatal else 'Non-fatal'} on {event.switch}"
         + (f" link {event.port}" if event.port is not None else ""),
         event.line)
        for event in log.sxids
    ]  # fmt: skip
    yield _summary(log, "no fatal SXid", found)


_NOTE_WORDS = {
    "probe_failed": "the driver refused a GPU",
    "fabric_out_of_sync": "driver and fabric manager disagree on the fabric",
    "fallen_off_bus": "a GPU has fallen off the bus",
    "pcie_limited": "a device has less PCIe bandwidth than it can use",
}


@check(
    "kernel.driver_faults",
    phases=(Phase.DRIVER,),
    title="the driver reported no other fault since boot",
    remedy="fabric out of sync: stop the fabric manager, reset all GPUs, start it; a refused GPU: "
    "the driver's branch or kind does not fit it; fallen off the bus: see kernel.xid",
)
def driver_faults(log: KernelLog) -> Iterator[Finding]:
    """Known fault lines that carry no Xid.

    A driver can be installed, built and loaded and still refuse the GPU; and after a crash of the
    fabric manager the driver may keep a fabric state that is no longer true.
    """
    found = [
        (Status.WARN if note.kind == "pcie_limited" else Status.FAIL,
         f"{_NOTE_WORDS[note.kind]}{f' ({note.pci})' if note.pci else ''}", note.line)
        for note in log.notes
    ]  # fmt: skip
    yield _summary(log, "no known fault line", found)


CHECKS: tuple[Check, ...] = (xid, sxid, driver_faults)
