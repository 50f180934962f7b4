"""``ibdev2netdev`` (and ``-v``): which interface belongs to which RDMA device.

Evidence: real captures with mlx5_, roce and Azure names, padded and commented; ``-v`` follows the
script (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.rdma import IbdevNetdevs, NetdevMapping
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import ELIDED, PROMPT, read_lines

PROBE = "ibdev2netdev"
_LINE = re.compile(
    r"\s*(?:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+)?([A-Za-z][\w.-]{0,63})\s+"
    r"(?:\([^()]{1,80}\) .{0,200}?)?port\s+(\d{1,3})\s+(?:\(\w{1,20}\s*\)\s+)?==>"
    r"(?:\s+([^\s()]{1,40}))?\s+\((Up|Down|)\)\s*(?:#.*)?$",
    re.ASCII,
)


def parse_ibdev2netdev(text: str) -> IbdevNetdevs:
    """Every mapping, in order."""
    found: list[NetdevMapping] = []
    seen: set[tuple[str, str]] = set()
    complete = True
    for number, line in enumerate(read_lines(PROBE, text, max_lines=5000, max_line=1000), start=1):
        if not line.strip() or line.lstrip().startswith("#") or not line.strip("- "):
            continue  # notes and rules that people add
        match = _LINE.match(line)
        if match is None and ELIDED.match(line):
            complete = False
            continue
        if match is None:
            if "==>" not in line and PROMPT.match(line):
                continue
            raise ParseError(PROBE, number, f"not a mapping: {line.strip()[:60]!r}")
        if (match[2], match[3]) in seen:
            raise ParseError(PROBE, number, f"{match[2]} port {match[3]} stands there twice")
        seen.add((match[2], match[3]))
        found.append(
            NetdevMapping(
                line=number,
                device=match[2],
                port=int(match[3]),
                netdev=match[4],
                up={"Up": True, "Down": False}.get(match[5]),
                bus_id=match[1].lower() if match[1] else None,
            )
        )
    if not found:
        raise ParseError(PROBE, 0, "no mapping")
    return IbdevNetdevs(mappings=tuple(found), complete=complete)
