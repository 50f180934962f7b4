"""`ipmitool sdr list` and `sdr elist`: sensors of the BMC.

Evidence: none that is a capture (names are real, readings made up): format unverified.
"""

from __future__ import annotations

import re

from fabric_tools.models.bmc import IpmiSensor, IpmiSensors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "ipmi_sdr"

_STATUS = re.compile(r"ok|ns|nc|cr|nr|lnc|lcr|lnr|unc|ucr|unr|us|na")
_VALUE = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?) ([A-Za-z%][\w %/]{0,30})$", re.ASCII)


def _sensor(cells: list[str], number: int) -> IpmiSensor:
    name, status, text = cells[0], cells[2], cells[1]
    if len(cells) == 5:
        text = cells[4]
    if not name or not _STATUS.fullmatch(status):
        raise ParseError(
            PROBE, number, f"no sensor with a known status: {' | '.join(cells)[:80]!r}"
        )
    match = _VALUE.match(text)
    return IpmiSensor(
        line=number,
        name=name,
        value=float(match[1]) if match else None,
        unit=match[2] if match else None,
        text=text,
        status=status,
    )


def parse_ipmi_sdr(text: str) -> IpmiSensors:
    """One sensor a row of three columns (list) or five (elist)."""
    sensors: list[IpmiSensor] = []
    for number, line in numbered(read_lines(PROBE, text, max_lines=10_000, max_line=400)):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) not in (3, 5):
            if sensors or "ipmitool" not in line:
                raise ParseError(PROBE, number, f"not a sensor: {line.strip()[:80]!r}")
            continue
        sensors.append(_sensor(cells, number))
    if not sensors:
        raise ParseError(PROBE, 0, "no sensor")
    return IpmiSensors(sensors=tuple(sensors))
