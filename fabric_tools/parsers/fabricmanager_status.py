"""`systemctl status nvidia-fabricmanager` as a whole: the unit, and the lines of its journal below.

Evidence: that of ``systemd`` and ``fabricmanager_log``; nvlsm in the CGroup is a real B300 node's.
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import FabricManagerStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.fabricmanager_log import parse_fabricmanager_log
from fabric_tools.parsers.saved import bare_lines
from fabric_tools.parsers.systemd import parse_unit_state

PROBE = "fabricmanager_unit"

_NVLSM = re.compile(r"\s*[\u251c\u2514|`]?[\u2500-]*\s?\d{1,10} \S{0,200}/nvlsm\b", re.ASCII)
_SPEAKS = re.compile(r".{0,300}? (?:OpenSM|nvlsm)\[\d{1,10}\]: ", re.ASCII)
_SIGNAL = re.compile(
    r"\s*Main PID: \d{1,10} \((?:.{0,80}, )?code=\w{1,20}, signal=([A-Z0-9]{1,10})"
)


def parse_fabricmanager_status(text: str) -> FabricManagerStatus:
    """The unit as ``parse_unit_state`` reads it, with what else the text shows."""
    unit = parse_unit_state(text)
    lines = bare_lines(PROBE, text)
    try:
        log = parse_fabricmanager_log(text)
    except ParseError:
        log = None  # none of its lines, or one that systemctl cut at the width of the screen
    signals = [match[1] for line in lines if (match := _SIGNAL.match(line))]
    return FabricManagerStatus(
        **unit.model_dump(),
        signal=signals[0] if signals else None,
        nvlsm=(log is not None and log.nvlsm)
        or any(_NVLSM.match(line) or _SPEAKS.match(line) for line in lines),
        events=log.events if log else (),
    )
