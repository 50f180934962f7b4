"""`nvidia-ctk cdi list`: devices of the CDI specification.

Evidence: texts of toolkit 1.17 and 1.19 re-rendered from facts; the empty one is schema-derived.
"""

from __future__ import annotations

import re

from fabric_tools.models.system import CdiDevices
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "cdi"

_DEVICE = re.compile(
    r"[a-z0-9][\w.-]{0,100}/[A-Za-z][\w.-]{0,60}=[A-Za-z0-9][\w.:-]{0,120}", re.ASCII
)
_FOUND = re.compile(
    r"(?:INFO\[\d{1,9}\] |time=.{1,60} level=info msg=\")Found (\d{1,6}) CDI devices"
)
_LOG = re.compile(r"(?:INFO|WARN|DEBU)\[\d{1,9}\] |time=\S{1,60} level=(?:info|warning|debug) ")


def parse_cdi(text: str) -> CdiDevices:
    """Names in order; whole where the tool's own count agrees."""
    lines: dict[str, int] = {}
    announced: int | None = None
    for number, line in numbered(read_lines(PROBE, text, max_lines=20_000)):
        said = line.strip()
        if match := _FOUND.match(said):
            if announced is not None:
                raise ParseError(PROBE, number, "counted twice")
            announced = int(match[1])
        elif _DEVICE.fullmatch(said):
            if said in lines:
                raise ParseError(PROBE, number, f"{said[:80]} stands there twice")
            lines[said] = number
        elif not _LOG.match(said) and "nvidia-ctk cdi list" not in said:
            raise ParseError(PROBE, number, f"not a CDI device: {said[:80]!r}")
    if not lines and announced is None:
        raise ParseError(PROBE, 0, "neither a device nor a count")
    return CdiDevices(lines=lines, announced=announced, complete=announced == len(lines))
