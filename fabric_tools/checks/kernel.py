"""What the kernel said of GPUs and NVSwitches since it booted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fabric_tools.checks.pci import gpus_on_bus, no_switches
from fabric_tools.checks.registry import NODE, Check, Finding, at, check
from fabric_tools.checks.xid_table import (
    HARDWARE,
    INFORMATIONAL,
    OBSOLETE,
    RESET,
    XIDS,
)
from fabric_tools.models.facts import (
    KernelLogs,
    KernelRelease,
    PciDevices,
    XidEvent,
)
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_MAX_SHOWN = 5
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


class Event(NamedTuple):
    """One kernel line that means something: what it means, in words, and where it stands."""

    status: Status
    text: str
    evidence: Evidence


def _counted(events: list[Event]) -> list[tuple[Event, int]]:
    """Equal events once, with their number. What the journal and the ring buffer both hold is one:
    the number is the greatest that one log shows.
    """
    first: dict[tuple[Status, str], Event] = {}
    number: dict[tuple[Status, str, str], int] = {}
    for event in events:
        first.setdefault((event.status, event.text), event)
        key = (event.status, event.text, event.evidence.probe)
        number[key] = number.get(key, 0) + 1
    return [
        (event, max(n for (s, t, _), n in number.items() if (s, t) == key))
        for key, event in first.items()
    ]


def _doubt(logs: KernelLogs, release: KernelRelease | Missing) -> tuple[str, Evidence] | None:
    """Why a log without faults proves nothing, or None when it does."""
    reasons: list[tuple[str, Evidence]] = []
    for log in logs.logs:
        here = at(log)
        if not log.from_boot:
            reasons.append(("the log does not reach back to the boot", here))
        elif log.lost_line:
            reasons.append(("the log says that messages were lost", at(log, log.lost_line)))
        elif not log.driver_loading:
            why = "the nvidia module never announced itself: not loaded, or the log is cut"
            reasons.append((why, here))
        elif isinstance(release, Missing) and release.recorded:
            reasons.append((f"the running kernel is not known: {release.reason}", here))
        elif not isinstance(release, Missing) and log.kernel != release.release:
            why = f"the log is of kernel {log.kernel}, the node runs {release.release}"
            reasons.append((why, here))
        else:
            return None
    return reasons[0]


def _summary(
    logs: KernelLogs,
    release: KernelRelease | Missing,
    expected: str,
    events: list[Event],
) -> Finding:
    """One finding for the node: the worst events first, and whether the log can be believed."""
    counted = _counted(sorted(events, key=lambda event: _ORDER.index(event.status)))
    status = counted[0][0].status if counted else Status.PASS
    doubt = _doubt(logs, release)
    shown = [
        event.text + (f", {number} times" if number > 1 else "")
        for event, number in counted[:_MAX_SHOWN]
    ]
    if len(counted) > _MAX_SHOWN:
        shown.append(f"and {len(counted) - _MAX_SHOWN} more")
    lines = max(log.line_count for log in logs.logs)
    actual = "; ".join(shown) or f"none in {lines} lines"
    evidence = tuple(event.evidence for event, _ in counted[:_MAX_SHOWN]) or (at(logs.logs[0]),)
    if doubt is not None and status is not Status.FAIL:
        why, where = doubt
        remedy = "record the whole of `journalctl -k -b` as kernel_journal.txt, and `dmesg`"
        return Finding(NODE, Status.UNKNOWN, expected, f"{actual}, but {why}", (where,), remedy)
    return Finding(NODE, status, expected, actual, evidence)


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
    return Status.UNKNOWN if kind in (None, OBSOLETE) else Status.WARN


@check(
    "kernel.xid",
    phases=(Phase.DRIVER,),
    title="no Xid since boot that takes a GPU out of service",
    remedy="drain; Xid of class hardware: reboot, RMA if it returns; class reset: reset the GPU "
    "and reboot, so that the log starts clean (64 again: RMA)",
)
def xid(logs: KernelLogs, release: KernelRelease | Missing) -> Iterator[Finding]:
    """Every ``NVRM: Xid`` line of the journal and of the ring buffer, by NVIDIA's Xid catalogue.

    Hardware and reset classes fail the node; application Xids (13, 31, 94 ...) warn: on one GPU
    across programs they point at hardware. Xid 154 says what the driver wants done. A number that
    the table does not know, or that the catalogue no longer uses, is UNKNOWN. A log that does not
    reach back to the boot, lost messages or is of another kernel proves nothing.
    """
    events = [
        Event(
            judge_xid(event),
            f"Xid {event.xid} on {event.pci} ({XIDS.get(event.xid, 'unknown class')})",
            at(log, event.line),
        )
        for log in logs.logs
        for event in log.xids
    ]
    yield _summary(logs, release, "no Xid of class hardware or reset", events)


_SXID = {
    True: (Status.FAIL, "Fatal"),
    False: (Status.WARN, "Non-fatal"),
    None: (Status.UNKNOWN, "without a severity"),
}


@check(
    "kernel.sxid",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="no fatal NVSwitch error since boot",
    remedy="a lost GPU takes its links down: look at kernel.xid first; else drain, reset all GPUs "
    "with the fabric manager stopped, reboot; RMA if it returns",
    not_applicable=no_switches,
)
def sxid(logs: KernelLogs, release: KernelRelease | Missing) -> Iterator[Finding]:
    """NVSwitch errors that the kernel calls Fatal; Non-fatal ones are a warning, and one that says
    neither (thermal, SOE) has to be read by somebody.
    """
    events = [
        Event(
            _SXID[event.fatal][0],
            f"SXid {event.sxid} {_SXID[event.fatal][1]} on {event.switch}"
            + (f" link {event.port}" if event.port is not None else ""),
            at(log, event.line),
        )
        for log in logs.logs
        for event in log.sxids
    ]
    yield _summary(logs, release, "no fatal SXid", events)


_WORDS = {
    "probe_failed": "the driver refused a GPU",
    "init_failed": "the driver could not initialise a GPU",
    "api_mismatch": "userspace of another version called the driver",
    "gsp_timeout": "the GPU's firmware (GSP) did not answer",
    "reset_required": "the driver says that a GPU must be reset",
    "device_inaccessible": "a device does not answer",
    "hung_task": "a program hangs in the driver",
    "fabric_out_of_sync": "driver and fabric manager disagree on the fabric",
    "fallen_off_bus": "a GPU has fallen off the bus",
    "pcie_limited": "a device has less PCIe bandwidth than it can use",
    "aer_fatal": "a fatal PCIe error",
}
#: Of any device: a fault of the node only where the device is a GPU.
_OF_ANY_DEVICE = ("pcie_limited", "aer_fatal", "device_inaccessible")


@check(
    "kernel.driver_faults",
    phases=(Phase.DRIVER, Phase.NVLINK),
    title="the driver reported no other fault since boot",
    remedy="fallen off the bus, does not answer: see kernel.xid and pci.gpu_count; refused: the "
    "driver's branch or kind does not fit; fabric out of sync: stop the fabric manager, reset all "
    "GPUs, start it; the rest: drain, reboot, read the lines",
)
def driver_faults(
    logs: KernelLogs, release: KernelRelease | Missing, pci: PciDevices | Missing
) -> Iterator[Finding]:
    """Known fault lines that carry no Xid.

    A driver can be installed, built and loaded and still refuse the GPU; and after a crash of the
    fabric manager the driver may keep a fabric state that is no longer true. PCIe lines fail the
    node where they are about a GPU, and warn for other devices.
    """
    gpus = set() if isinstance(pci, Missing) else {d.bus_id for d in gpus_on_bus(pci)}
    events = [
        Event(
            Status.WARN
            if note.kind in _OF_ANY_DEVICE and _address(note.pci) not in gpus
            else Status.FAIL,
            f"{_WORDS[note.kind]}{f' ({note.pci})' if note.pci else ''}",
            at(log, note.line),
        )
        for log in logs.logs
        for note in log.notes
    ]
    yield _summary(logs, release, "no known fault line", events)


def _address(pci: str | None) -> str:
    """As lspci writes it: four digits of domain and a function."""
    domain, _, rest = (pci or "").lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest if '.' in rest else rest + '.0'}"


CHECKS: tuple[Check, ...] = (xid, sxid, driver_faults)
