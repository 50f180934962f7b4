"""Fabric manager log: `/var/log/fabricmanager.log` and `journalctl -u nvidia-fabricmanager`.

Evidence: real lines of H100, A100 and B300 nodes (550 to 610): SXid, version mismatch in two
wordings, missing switch, multicast handle, nvlsm; "nothing to do" is re-rendered from facts. The
forms of the journal but `short` follow its documentation (format unverified).
"""

from __future__ import annotations

import re
from typing import Literal

from fabric_tools.models.dcgm import FabricManagerLog, FmEvent, FmEventKind
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines
from fabric_tools.parsers.saved import bare

PROBE = "fabricmanager_log"

_FILE = re.compile(
    r"\[(\w{3} \d\d \d{4} \d\d:\d\d:\d\d)\] \[([A-Z]{3,10})\] (?:\[tid \d{1,10}\] )?", re.ASCII
)
_JOURNAL = re.compile(
    r"\s*(?:((?:\w{3} \d{4}-\d\d-\d\d|\w{3} [ \d]\d) \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: [A-Z]{2,5})?"
    r"|\d{4}-\d\d-\d\dT\S{1,32}|\d{9,11}\.\d{6}|\[ *\d{1,10}\.\d{6}\]) (?:\S{1,255} )?)?"
    r"(nv-fabricmanager|nvidia-fabricmanager[\w.-]*|nvidia-fabricma\S{0,20}|OpenSM|nvlsm|systemd)"
    r"(?:\[\d{1,10}\])?: ",
    re.ASCII,
)
_VERSION = r"(?:version )?(\d{3,4}(?:\.\d{1,6}){1,3})"
_NOT = r"(?:(?:do|does|did)(?:n[\u2019']?t| not)|not) match(?:ing|es)?"
_MISMATCH = re.compile(
    rf"fabric ?manager\b.{{0,80}}? {_VERSION} {_NOT}\b.{{0,60}}?\bdriver\b.{{0,30}}? {_VERSION}",
    re.IGNORECASE | re.ASCII,
)
_MISMATCH_BACK = re.compile(
    rf"driver\b.{{0,80}}? {_VERSION} {_NOT}\b.{{0,60}}?\bfabric ?manager\b.{{0,30}}? {_VERSION}",
    re.IGNORECASE | re.ASCII,
)
_MISMATCH_LIKE = re.compile(rf"version\b.{{0,60}}\b{_NOT}\b|version mismatch", re.IGNORECASE)
_SXID = re.compile(
    r"NVSwitch (non-?fatal|fatal) error (\d{1,6})\b(?:.{0,40}pci bus id ([0-9A-Fa-f:.]{7,16}))?"
    r"(?:.{0,40}\bport (\d{1,4}))?",
    re.IGNORECASE | re.ASCII,
)
_SXID_LIKE = re.compile(r"\bNVSwitch (?:\w+-?)?fatal\b", re.IGNORECASE)
# The words are looked for first, in lower case: that is much faster than the pattern.
_KINDS: tuple[tuple[FmEventKind, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        "nvswitch_count",
        ("match",),
        re.compile(rf"number of NVSwitches .{{0,20}}{_NOT}|NVSwitch(?:es)? count mismatch", re.I),
    ),
    ("nothing_to_do", ("nothing",), re.compile(r"NV_WARN_NOTHING_TO_DO|WARNING Nothing to do")),
    (
        "multicast_handle",
        ("multi",),
        re.compile(r"failed to .{0,60}\bmulticast\b|GPU handle \d+ in the multi"),
    ),
    (
        "configured",
        ("configured",),
        re.compile(r"Successfully configured all the available .{0,30}\bNVSwitches"),
    ),
    (
        "started",
        ("started",),
        re.compile(r"Started (?:nvidia-fabricmanager\.service|\"?NVIDIA fabric manager)", re.I),
    ),
    (
        "failed",
        ("fail", "exited", "aborting"),
        re.compile(
            r"failed! Exit code: \d|Failed with result '|(?:Control|Main) process exited, code="
            r"(?!exited, status=0)|Failed to start .{0,40}fabric ?manager|aborting fabric manager",
            re.I,
        ),
    ),
    (
        "stopped",
        ("stopped", "succe"),
        re.compile(
            r"Stopped (?:nvidia-fabricmanager\.service|NVIDIA fabric manager)"
            r"|nvidia-fabricmanager\.service: (?:Deactivated successfully|Succeeded)",
            re.I,
        ),
    ),
)
_BY_WORD = tuple((word, kind, like) for kind, words, like in _KINDS for word in words)
_MAX_EVENTS = 100_000
_BAD_LEVELS = ("ERROR", "CRITICAL", "FATAL", "ALERT", "EMERG")
_STATES: dict[FmEventKind, Literal["active", "failed", "inactive"]] = {
    "configured": "active",
    "started": "active",
    "failed": "failed",
    "nvswitch_count": "failed",
    "version_mismatch": "failed",
    "stopped": "inactive",
}
_OTHER_UNIT = re.compile(r"(?!nvidia-fabricmanager)[\w@-]+\.(?:service|scope|timer|socket)\b")


#: What no other program says: by these a log without names (`journalctl -o cat`) is known.
_OWN: tuple[FmEventKind, ...] = (
    "nvswitch_count", "nothing_to_do", "configured", "sxid", "version_mismatch",
)  # fmt: skip


def _mismatch(text: str, number: int) -> dict[str, str] | None:
    if _MISMATCH_LIKE.search(text) is None:
        return None
    if match := _MISMATCH.search(text):
        return {"fm_version": match[1], "driver_version": match[2]}
    if match := _MISMATCH_BACK.search(text):
        return {"fm_version": match[2], "driver_version": match[1]}
    raise ParseError(PROBE, number, f"a version mismatch that cannot be read: {text[:160]!r}")


def _kind(text: str, lowered: str) -> FmEventKind | None:
    for word, kind, pattern in _BY_WORD:
        if word in lowered and pattern.search(text):
            return kind
    return None


def _event(number: int, time: str | None, level: str | None, text: str) -> FmEvent | None:
    lowered = text.lower()
    kept = text.strip()[:400]
    versions = _mismatch(text, number) if "match" in lowered else None
    if versions is not None:
        return FmEvent(
            line=number, kind="version_mismatch", level=level, time=time, text=kept, **versions
        )
    match = _SXID.search(text) if "fatal" in lowered else None
    if match is not None:
        return FmEvent(
            line=number, kind="sxid", level=level, time=time, text=kept,
            sxid=int(match[2]), fatal=match[1].lower() == "fatal",
            pci=match[3].lower() if match[3] else None, port=int(match[4]) if match[4] else None,
        )  # fmt: skip
    if "fatal" in lowered and _SXID_LIKE.search(text):
        raise ParseError(PROBE, number, f"an NVSwitch error that cannot be read: {text[:160]!r}")
    kind = _kind(text, lowered)
    if kind is None and level in _BAD_LEVELS:
        kind = "error"
    if kind is None:
        return None
    return FmEvent(line=number, kind=kind, level=level, time=time, text=kept)


def _without_names(lines: list[str]) -> list[FmEvent]:
    """Events of bare messages; nothing where none of them is certainly the fabric manager's."""
    found = [_event(number, None, None, line[:2000]) for number, line in numbered(lines)]
    events = [event for event in found if event is not None]
    return events if any(event.kind in _OWN for event in events) else []


def parse_fabricmanager_log(text: str) -> FabricManagerLog:
    """Events in order. A text without one line of the fabric manager is refused: no clean log."""
    lines = read_lines(PROBE, bare(text), max_chars=16 * MIB, max_lines=300_000, max_line=8192)
    events: list[FmEvent] = []
    errors = known = spoken = 0
    nvlsm = False
    level: str | None = None
    time: str | None = None
    for number, line in numbered(lines):
        spoken += 1
        entry, journal = _FILE.match(line), _JOURNAL.match(line)
        if entry is not None:
            known, (time, level) = known + 1, entry.group(1, 2)
            errors += level in _BAD_LEVELS
            line = line[entry.end() :]
        elif journal is not None:
            time, level, line = journal[1], None, line[journal.end() :]
            nvlsm = nvlsm or journal[2] in ("OpenSM", "nvlsm")
            if journal[2] == "systemd" and (not line or _OTHER_UNIT.match(line)):
                continue
            known += journal[2] != "systemd" or "fabric" in line.lower()
        elif not line[0].isspace() and known == 0:
            continue
        found = _event(number, time, level if entry else None, line[:2000])
        if found is not None:
            events.append(found)
        if len(events) > _MAX_EVENTS:
            raise ParseError(PROBE, number, f"more than {_MAX_EVENTS} events")
    if not known:
        events = _without_names(lines)
    if not events and not known:
        raise ParseError(PROBE, 0, "no line of the fabric manager")
    states = [_STATES[event.kind] for event in events if event.kind in _STATES]
    return FabricManagerLog(
        events=tuple(events),
        errors=errors,
        state=states[-1] if states else None,
        nvlsm=nvlsm,
        line_count=spoken,
    )
