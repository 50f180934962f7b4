"""Kernel messages about the driver: Xid, SXid and the few other lines known to be faults.

Evidence: real captures of Xid 64, 79, 94, 119, 144-149, of SXid 12028, 20009, 20034, 24007,
28006 and of a refused GPU; one fabric line re-rendered from facts. Time stamps seen: seconds, wall
clock, "kernel:", `dmesg -x` with ISO time, short-iso, none; the other forms of dmesg and of the
journal follow the documentation.
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import (
    KernelLog,
    KernelNote,
    KernelNoteKind,
    SxidEvent,
    XidEvent,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.journal import messages
from fabric_tools.parsers.saved import bare_lines

PROBE = "kernel_log"

_PCI = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
# A GPU in MIG mode names the instance behind its address.
_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?({_PCI})(?: GPU-I:\d+(?: GPU-CI:\d+)?)?\): (\d{{1,6}})(?:, (.*))?$",
    re.ASCII,
)
# `_kgspLogXid119` and "caused by previous Xid 45" name an Xid without being its line.
_XID_LIKE = re.compile(r"\bNVRM:\s+(?:GPU ?\d{1,3}:? )?Xid\b", re.IGNORECASE)
_SXID = re.compile(rf"nvidia-(nvswitch\d+): SXid \(PCI:({_PCI})\): (\d{{1,6}}), (.*)$", re.ASCII)
_SEVERITY = re.compile(r"(Fatal|Non-fatal)\b")
# These repeat the number of the event above.
_SXID_DETAIL = re.compile(r"Severity \d|Data \{")
_PORT = re.compile(r"\bLink (\d{1,4})\b", re.ASCII)
# The name of a process is free text and may say "Fatal".
_PROCESS_NAME = re.compile(r"\bname=[^,]*")

# The words are looked for first, in lower case: a long log is read in half the time.
_NOTES: tuple[tuple[KernelNoteKind, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        "probe_failed",
        ("probe",),
        re.compile(
            rf"(?:\bnvidia[\w-]* ({_PCI}): probe with driver nvidia[\w-]* failed"
            rf"|\bnvidia[\w-]*: probe of ({_PCI}) failed with error"
            r"|NVRM: The NVIDIA probe routine failed for \d+ device)"
        ),
    ),
    (
        "init_failed",
        ("rminitadapter", "rm_init_adapter", "gsp firmware image"),
        re.compile(
            rf"NVRM: (?:GPU )?({_PCI})?.{{0,20}}(?:RmInitAdapter|rm_init_adapter(?:\(\d+\))?)"
            r" failed"
            r"|NVRM: .{0,80}RmInitAdapter: Cannot initialize"
            r"|NVRM: .{0,80}GSP firmware image version mismatch"
        ),
    ),
    # The line goes on in several ways, or ends there and the versions follow on lines of their own.
    (
        "api_mismatch",
        ("mismatch",),
        re.compile(r"NVRM: API mismatch:|\bnvidia-nvswitch\d*: Version mismatch"),
    ),
    (
        "gsp_timeout",
        ("timeout", "timed out"),
        re.compile(
            r"NVRM: .{0,80}(?:Timeout waiting for RPC from GSP|Heartbeat timed out|GSP Timeout)",
            re.IGNORECASE,
        ),
    ),
    (
        "reset_required",
        ("reset",),
        re.compile(r"NVRM: .{0,200}(?:NV_ERR_RESET_REQUIRED|\breset required\b)", re.IGNORECASE),
    ),
    (
        "device_inaccessible",
        ("inaccessible",),
        re.compile(rf"({_PCI}): Unable to change power state .{{0,40}}device inaccessible"),
    ),
    (
        "hung_task",
        ("blocked for", "lockup"),
        re.compile(
            r"task (?:nvidia|nv-)[^ ]{0,60}:\d+ blocked for more than"
            r"|soft lockup - CPU#\d{1,5} stuck for .{1,20}\[(?:nvidia|nv-)"
        ),
    ),
    (
        "fabric_out_of_sync",
        ("out of sync",),
        re.compile(r"NVLink fabric state cached by the driver is out of sync"),
    ),
    (
        "fallen_off_bus",
        ("off the bus",),
        # The second form stands on several lines; the address is on the first of them.
        re.compile(
            rf"GPU (?:at )?(?:PCI:)?({_PCI})?.{{0,40}}has fallen off the bus"
            r"|NVRM: .{0,60}\bfallen off the bus and is not responding"
        ),
    ),
    (
        "pcie_limited",
        ("limited by",),
        re.compile(rf"({_PCI}): .{{1,60}} PCIe bandwidth, limited by"),
    ),
    (
        "aer_fatal",
        ("aer:",),
        re.compile(
            r"AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error"
            rf"(?: received:| message received from) ({_PCI})"
        ),
    ),
)

_BY_WORD = tuple((word, kind, like) for kind, words, like in _NOTES for word in words)

_LEVEL = r"(?:(?:kern|user|daemon|syslog|auth|authpriv|local[0-7]) *:\w{1,8} *: )?"
# [12.5], [  12.5 <    0.1>], [Tue Jan  1 10:00:00 2030], [Jan01 10:00], [  +0.000012], [T1234]
_BRACKET = r"\[[ +]{0,12}[\w.:<> -]{1,40}\]\s{0,4}"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{3,9}\S{0,6} "
_KMSG = r"\d{1,4},\d{1,12},\d{1,18},[-c+][^;]{0,60};"
# What dmesg, /dev/kmsg and the journal put before a message.
_STAMP = rf"(?:<\d{{1,3}}>)?\s{{0,12}}{_LEVEL}(?:{_KMSG})?(?:{_ISO})?(?:{_BRACKET}){{0,2}}"
_BOOT = re.compile(
    rf"{_STAMP}(?:(?:\S{{1,255}}\s+){{0,5}}kernel:\s+)?(?:{_BRACKET}){{0,2}}"
    r"Linux version (\d\S{0,120})"
)
_NEW_BOOT = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")
_LOST = re.compile(r"Missed \d+ kernel messages|some messages (?:were )?lost")
_LOADING = re.compile(r"NVRM: loading NVIDIA ")
# Longer lines are no message of these; the bound keeps the patterns from costing minutes.
_MAX_LINE = 4096
_DENIED = re.compile(
    r"(?:dmesg|journalctl|sudo): |.*read kernel buffer failed|.*Operation not permitted"
    r"|.*(?:command not found|No such file or directory)$|No journal files were (?:found|opened)"
)
# A line of the kernel ring buffer: by its time stamp, by its tag, or by who speaks.
_KERNEL_LINE = re.compile(
    rf"\s*(?:<\d{{1,3}}>)?{_LEVEL}\[\s*\d{{1,12}}\.\d+(?: <\s*\d{{1,12}}\.\d+>)?\]"
    rf"|\s*{_LEVEL}\[\w{{3}} \w{{3}} [ \d]\d \d\d:\d\d:\d\d \d{{4}}\]"
    rf"|\s*{_LEVEL}\[(?:\w{{3}}\d\d \d\d:\d\d| +\+\d{{1,9}}\.\d{{6}})\]"
    rf"|\s*{_LEVEL}{_ISO}|{_KMSG}"
    # talosctl dmesg: the node, facility, level, and the time in brackets
    r"|\s*(?:[\w.:-]{1,255}: )?kern: +\w{1,8}: \[\d{4}-\d\d-\d\dT[\d:.]{8,20}Z?\]: "
    r"|\s*(?:\S+ +){0,5}kernel: "
    r"|\s*(?:NVRM: |nvidia[\w-]*[ :]|Linux version \d|[\w-]+ [0-9a-f]{4}:[0-9a-f]{2}:)",
    re.ASCII,
)
# A line of the journal or of syslog that another program wrote: it may quote the kernel.
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_OTHER_PROGRAM = re.compile(
    rf"(?:\w{{3}} [ \d]\d {_CLOCK}|\d{{4}}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:?\d\d)"
    rf"|\d{{9,11}}\.\d{{6}}|\w{{3}} \d{{4}}-\d\d-\d\d {_CLOCK} \w{{1,6}})"
    r" [\w.-]{1,255} (?!kernel\b)[\w@./()-]{1,80}(?:\[\d{1,10}\])?: ",
    re.ASCII,
)
_MAX_EVENTS = 60_000


def _fatal(text: str) -> bool | None:
    said = _PROCESS_NAME.sub("", text)
    if re.search(r"\bNon-?[Ff]atal\b", said):
        return False
    return True if re.search(r"\bFatal\b", said) else None


def _xid(line: str, number: int) -> XidEvent | None:
    if _XID_LIKE.search(line) is None:
        return None
    match = _XID.search(line)
    if match is None:
        raise ParseError(PROBE, number, f"an Xid line that cannot be read: {line[:120]!r}")
    text = match[3] or ""
    return XidEvent(
        line=number, xid=int(match[2]), pci=match[1].lower(), text=text, fatal=_fatal(text)
    )


def _sxid(line: str, number: int, told: set[int]) -> SxidEvent | None:
    """``told``: numbers of the events before, of which a line of details is no second one."""
    if ": SXid" not in line:
        return None
    match = _SXID.search(line)
    if match is None:
        raise ParseError(PROBE, number, f"an SXid line that cannot be read: {line[:120]!r}")
    severity = _SEVERITY.match(match[4])
    number_said = int(match[3])
    if severity is None and _SXID_DETAIL.match(match[4]) and number_said in told:
        return None
    if severity is None and "fatal" in match[4].lower():
        raise ParseError(PROBE, number, f"an SXid of unknown severity: {line[:120]!r}")
    port = _PORT.search(match[4])
    return SxidEvent(
        line=number,
        switch=match[1],
        pci=match[2].lower(),
        sxid=number_said,
        fatal=severity[1] == "Fatal" if severity else None,
        port=int(port[1]) if port else None,
        text=match[4],
    )


_RATES = re.compile(
    r"(\d{1,4}\.\d{1,3}) Gb/s available .{1,120}\(capable of (\d{1,4}\.\d{1,3}) Gb/s", re.ASCII
)


def _note(line: str, lowered: str, number: int) -> KernelNote | None:
    for word, kind, pattern in _BY_WORD:
        match = pattern.search(line) if word in lowered else None
        if match is not None:
            pci = next((group.lower() for group in match.groups() if group), None)
            rates = _RATES.search(line) if kind == "pcie_limited" else None
            return KernelNote(
                line=number,
                kind=kind,
                pci=pci,
                available_gbits_s=float(rates[1]) if rates else None,
                capable_gbits_s=float(rates[2]) if rates else None,
                text=line.strip(),
            )
    return None


def _is_kernel_log(lines: list[tuple[int, str]]) -> bool:
    return any(_KERNEL_LINE.match(line) for _, line in lines)


class _Boot:
    """What was read of one boot."""

    def __init__(self, kernel: str | None) -> None:
        self.kernel = kernel
        self.lost_line = 0
        self.driver_loading = False
        self.lines = 0
        self.xids: list[XidEvent] = []
        self.sxids: list[SxidEvent] = []
        self.sxid_numbers: set[int] = set()
        self.notes: list[KernelNote] = []

    def add(self, line: str, number: int) -> None:
        self.lines += 1
        if _OTHER_PROGRAM.match(line):
            return
        lowered = line.lower()
        if (xid := _xid(line, number) if "xid" in lowered else None) is not None:
            self.xids.append(xid)
        elif (sxid := _sxid(line, number, self.sxid_numbers)) is not None:
            self.sxids.append(sxid)
            self.sxid_numbers.add(sxid.sxid)
        elif (note := _note(line, lowered, number)) is not None:
            self.notes.append(note)
        elif "messages" in lowered and _LOST.search(line):
            self.lost_line = self.lost_line or number
        elif "loading" in lowered and _LOADING.search(line):
            self.driver_loading = True


def parse_kernel_log(text: str) -> KernelLog:
    """Events of the last boot, in order. No log at all is refused: it is not a clean one."""
    every = messages(PROBE, bare_lines(PROBE, text))
    lines = [(number, line[:_MAX_LINE]) for number, line in every if line.strip()]
    told = [(number, line) for number, line in lines if not line.startswith("-- ")]
    if not told:
        raise ParseError(PROBE, 0, "no kernel messages")
    if not _is_kernel_log(told):
        denied = next((line for _, line in told if _DENIED.match(line)), None)
        why = f"no kernel messages: {denied.strip()[:120]}" if denied else "not a kernel log"
        raise ParseError(PROBE, told[0][0], why)
    boot = _Boot(None)
    for number, line in lines:
        started = _BOOT.match(line) if "Linux version" in line else None
        if started or _NEW_BOOT.match(line):
            boot = _Boot(started[1] if started else None)
        if not line.startswith("-- "):
            boot.add(line, number)
        if len(boot.xids) + len(boot.sxids) + len(boot.notes) > _MAX_EVENTS:
            raise ParseError(PROBE, number, f"more than {_MAX_EVENTS} events")
    return KernelLog(
        from_boot=boot.kernel is not None,
        lost_line=boot.lost_line,
        driver_loading=boot.driver_loading,
        kernel=boot.kernel,
        line_count=boot.lines,
        xids=tuple(boot.xids),
        sxids=tuple(boot.sxids),
        notes=tuple(boot.notes),
    )
