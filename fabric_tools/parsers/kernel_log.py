"""Kernel messages about the driver: Xid, SXid and the few other lines known to be faults.

Evidence: real captures of Xid 64, 79, 94, 119, 144-149, of SXid 12028, 20009, 20034, 24007,
28006 and of a refused GPU; one fabric line re-rendered from facts. Time stamps seen: seconds, wall
clock, "kernel:", none; the journal and syslog forms follow the documentation.
"""

from __future__ import annotations

import re
from typing import Literal

from fabric_tools.models.facts import KernelLog, KernelNote, SxidEvent, XidEvent
from fabric_tools.parsers.base import ParseError, clean_lines

PROBE = "kernel_log"

_PCI = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?({_PCI})\): (\d{{1,6}})(?:, (.*))?$", re.ASCII)
_SXID = re.compile(rf"nvidia-(nvswitch\d+): SXid \(PCI:({_PCI})\): (\d{{1,6}}), (.*)$", re.ASCII)
_SEVERITY = re.compile(r"(Fatal|Non-fatal)\b")
_PORT = re.compile(r"\bLink (\d{1,4})\b", re.ASCII)
# The name of a process is free text and may say "Fatal".
_PROCESS_NAME = re.compile(r"\bname=[^,]*")

NoteKind = Literal["probe_failed", "fabric_out_of_sync", "fallen_off_bus", "pcie_limited"]
_NOTES: tuple[tuple[NoteKind, re.Pattern[str]], ...] = (
    (
        "probe_failed",
        re.compile(
            rf"(?:\bnvidia[\w-]* ({_PCI}): probe with driver nvidia[\w-]* failed"
            rf"|\bnvidia[\w-]*: probe of ({_PCI}) failed with error)"
        ),
    ),
    ("fabric_out_of_sync", re.compile(r"NVLink fabric state cached by the driver is out of sync")),
    (
        "fallen_off_bus",
        re.compile(rf"GPU (?:at )?(?:PCI:)?({_PCI})?.{{0,40}}has fallen off the bus"),
    ),
    ("pcie_limited", re.compile(rf"({_PCI}): .{{1,60}} PCIe bandwidth, limited by")),
)

_BOOT = re.compile(r"(?:^|[\s\]])Linux version \d")
_BOOT_WITHIN = 200
_DENIED = re.compile(
    r"(?:dmesg|journalctl|sudo): |.*read kernel buffer failed|.*Operation not permitted"
    r"|.*(?:command not found|No such file or directory)$|No journal files were (?:found|opened)"
)
# A line of the kernel ring buffer: by its time stamp, by its tag, or by who speaks.
_KERNEL_LINE = re.compile(
    r"\s*(?:<\d{1,3}>)?\[\s*\d{1,12}\.\d+\]"
    r"|\s*\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
    r"|\s*(?:\S+ +){0,5}kernel: "
    r"|\s*(?:NVRM: |nvidia[\w-]*[ :]|Linux version \d|[\w-]+ [0-9a-f]{4}:[0-9a-f]{2}:)",
    re.ASCII,
)


def _fatal(text: str) -> bool | None:
    said = _PROCESS_NAME.sub("", text)
    if re.search(r"\bNon-?[Ff]atal\b", said):
        return False
    return True if re.search(r"\bFatal\b", said) else None


def _xid(line: str, number: int) -> XidEvent | None:
    if "NVRM: Xid" not in line:
        return None
    match = _XID.search(line)
    if match is None:
        raise ParseError(PROBE, number, f"an Xid line that cannot be read: {line[:120]!r}")
    text = match[3] or ""
    return XidEvent(
        line=number, xid=int(match[2]), pci=match[1].lower(), text=text, fatal=_fatal(text)
    )


def _sxid(line: str, number: int) -> SxidEvent | None:
    if ": SXid" not in line:
        return None
    match = _SXID.search(line)
    if match is None:
        raise ParseError(PROBE, number, f"an SXid line that cannot be read: {line[:120]!r}")
    severity = _SEVERITY.match(match[4])
    if severity is None:
        return None  # Severity and Data lines repeat the number of the event above
    port = _PORT.search(match[4])
    return SxidEvent(
        line=number,
        switch=match[1],
        pci=match[2].lower(),
        sxid=int(match[3]),
        fatal=severity[1] == "Fatal",
        port=int(port[1]) if port else None,
        text=match[4],
    )


def _note(line: str, number: int) -> KernelNote | None:
    for kind, pattern in _NOTES:
        match = pattern.search(line)
        if match is not None:
            pci = next((group.lower() for group in match.groups() if group), None)
            return KernelNote(line=number, kind=kind, pci=pci, text=line.strip())
    return None


def _is_kernel_log(lines: list[tuple[int, str]]) -> bool:
    return any(_KERNEL_LINE.match(line) for _, line in lines)


def parse_kernel_log(text: str) -> KernelLog:
    """Events in order of print. No log at all is refused: it is not a clean one."""
    lines = [(n, x) for n, x in enumerate(clean_lines(text), start=1) if x.strip()]
    told = [(number, line) for number, line in lines if not line.startswith("-- ")]
    if not told:
        raise ParseError(PROBE, 0, "no kernel messages")
    if not _is_kernel_log(told):
        denied = next((line for _, line in told if _DENIED.match(line)), None)
        why = f"no kernel messages: {denied.strip()[:120]}" if denied else "not a kernel log"
        raise ParseError(PROBE, told[0][0], why)
    xids, sxids, notes = [], [], []
    for number, line in told:
        if (xid := _xid(line, number)) is not None:
            xids.append(xid)
        elif (sxid := _sxid(line, number)) is not None:
            sxids.append(sxid)
        elif (note := _note(line, number)) is not None:
            notes.append(note)
    return KernelLog(
        from_boot=any(_BOOT.search(line) for _, line in told[:_BOOT_WITHIN]),
        line_count=len(told),
        xids=tuple(xids),
        sxids=tuple(sxids),
        notes=tuple(notes),
    )
