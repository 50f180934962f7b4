"""The clock: `chronyc -c -n tracking` and `timedatectl show`.

Evidence: chronyc 4.3 of Debian 12 (a real capture of a local reference; the fields are those of
its manual); timedatectl's form follows systemd's documentation (format unverified).
"""

from __future__ import annotations

import math
import re

from fabric_tools.models.os_state import ClockTracking, TimeState
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "chrony_tracking"
#: Of the 14 fields: reference id, its name, stratum, system offset, root delay and dispersion.
_FIELDS = 14
_ID, _NAME, _STRATUM, _OFFSET, _DELAY, _DISPERSION, _LEAP = 0, 1, 2, 4, 10, 11, 13
#: The id of chrony's own clock (127.127.1.1), and of none.
_OWN = {"7F7F0101", "00000000"}
#: 16 means not synchronised (RFC 5905); what follows somebody has less. chrony says 0 for nobody.
_MAX_STRATUM = 15
_LEAPS = {"Normal", "Insert second", "Delete second", "Not synchronised"}
_NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,12})?", re.ASCII)


def _seconds(word: str, number: int) -> float:
    if not _NUMBER.fullmatch(word) or not math.isfinite(float(word)):
        raise ParseError(PROBE, number, f"not a number of seconds: {word[:40]!r}")
    return abs(float(word))


def parse_chrony_tracking(text: str) -> ClockTracking:
    """One line of comma-separated fields."""
    told = list(numbered(read_lines(PROBE, text, max_lines=100)))
    if len(told) != 1:
        raise ParseError(PROBE, 0, f"{len(told)} lines where one is printed")
    number, line = told[0]
    fields = line.strip().split(",")
    if len(fields) != _FIELDS or not re.fullmatch(r"[0-9A-F]{8}", fields[_ID]):
        raise ParseError(PROBE, number, f"not chronyc -c tracking: {line.strip()[:60]!r}")
    if fields[_LEAP] not in _LEAPS:
        raise ParseError(PROBE, number, f"leap status {fields[_LEAP][:40]!r}")
    if not re.fullmatch(r"\d{1,2}", fields[_STRATUM], re.ASCII):
        raise ParseError(PROBE, number, f"stratum {fields[_STRATUM][:40]!r}")
    if int(fields[_STRATUM]) > _MAX_STRATUM:
        raise ParseError(PROBE, number, f"stratum {fields[_STRATUM]} is that of no clock")
    offset_s = _seconds(fields[_OFFSET], number)
    dispersion_s, delay_s = _seconds(fields[_DISPERSION], number), _seconds(fields[_DELAY], number)
    return ClockTracking(
        reference=fields[_NAME][:255],
        own=fields[_ID] in _OWN,
        stratum=int(fields[_STRATUM]),
        offset_s=offset_s,
        bound_s=offset_s + dispersion_s + delay_s / 2,
        leap=fields[_LEAP],
        line=number,
    )


def parse_timedatectl(text: str) -> TimeState:
    """``NTPSynchronized`` must be there; ``NTP`` is whether systemd knows a daemon that is on."""
    values: dict[str, tuple[str, int]] = {}
    for number, line in numbered(read_lines("timedatectl", text, max_lines=1000)):
        name, equals, value = line.strip().partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z]{1,60}", name):
            raise ParseError("timedatectl", number, f"not NAME=value: {line.strip()[:60]!r}")
        if name in values:
            raise ParseError("timedatectl", number, f"{name} stands there twice")
        values[name] = (value, number)
    found = {}
    for name in ("NTPSynchronized", "NTP"):
        word, number = values.get(name, ("", 0))
        if word not in ("yes", "no", ""):
            raise ParseError("timedatectl", number, f"{name} is {word[:40]!r}")
        found[name] = {"yes": True, "no": False}.get(word)
    synchronized = found["NTPSynchronized"]
    if synchronized is None:
        raise ParseError("timedatectl", 0, "no NTPSynchronized")
    return TimeState(synchronized=synchronized, ntp=found["NTP"], line=values["NTPSynchronized"][1])
