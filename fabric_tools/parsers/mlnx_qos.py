"""``mlnx_qos -i IFACE``: trust, DSCP map, PFC, buffers and traffic classes of one interface.

Evidence: real captures with PFC on priority 3, without PFC and with the line breaks lost, and cut
before the PFC table; PFC on priority 5 re-rendered from facts. The form of mlx4 (``up``,
``skprio``) follows vendor documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.network import MlnxQos, TrafficClass
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import ELIDED, PROMPT, first_words, read_lines

PROBE = "mlnx_qos"
_PRIORITIES = 8

# Web pages lose the line breaks; every one of these begins a line in the tool's own output.
_BREAK = re.compile(
    r"(?=DCBX mode:|Priority trust state:|dscp2prio mapping:|default priority:"
    r"|Receive buffer size|Cable len:|PFC configuration:|(?<!default )priority(?:: | +0 +1)"
    r"|enabled +[01] |buffer +\d +\d |tc: \d|prio:\d dscp:)"
)
_INTERFACE = re.compile(r"mlnx_qos\s+-i\s*([\w.@-]{1,40}?)\s*$", re.ASCII)
_HEAD = re.compile(r"(DCBX mode|Priority trust state|Cable len): *(\S[^\n]{0,60}?)\s*$")
_DSCP = re.compile(r"prio:([0-7]) dscp:((?:\d\d?,)*)(?:\d\d?)?\s*$", re.ASCII)
_BUFFERS = re.compile(
    r"Receive buffer size \(bytes\): *((?:\d{1,9}, *)+)"
    r"(?:(?:max_buffer|total)_size=(\d{1,9}))?\s*$",
    re.ASCII,
)
_TABLE = re.compile(r"(priority|enabled|buffer)((?: +\d){1,16})\s*$", re.ASCII)
_TC = re.compile(
    r"tc: ([0-7]) ratelimit: ([^,]{1,40}), tsa: (\w{1,20})(?:, bw: (\d{1,3})%)?\s*$", re.ASCII
)
#: ``up`` and ``skprio`` are what mlx4 and old releases print.
_PRIORITY = re.compile(r"(?:priority|up): +([0-7])\s*$", re.ASCII)
_ELSE = re.compile(
    r"dscp2prio mapping:|default priority:|PFC configuration:"
    r"|skprio: \d{1,2}(?: \([a-z0-9 :]+\))?$"
    r"|[A-Z][A-Za-z ]{1,40} (?:is|are) not supported on your system!?$",
    re.ASCII,
)


@dataclass
class _Open:
    """What the lines have said so far."""

    head: dict[str, tuple[int, str]] = field(default_factory=dict)
    dscp: dict[int, int] = field(default_factory=dict)
    buffers: tuple[int, ...] | None = None
    max_buffer: int | None = None
    tables: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    classes: list[tuple[int, re.Match[str], list[int]]] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether a line of the tool came yet."""
        return bool(self.head or self.tables)

    def table(self, match: re.Match[str], number: int) -> None:
        values = tuple(map(int, match[2].split()))
        if len(values) != _PRIORITIES:
            raise ParseError(PROBE, number, f"{match[1]}: {len(values)} of 8 priorities")
        if match[1] == "priority" and values != tuple(range(_PRIORITIES)):
            raise ParseError(PROBE, number, "priorities out of order")
        if match[1] == "enabled" and not set(values) <= {0, 1}:
            raise ParseError(PROBE, number, "PFC is neither 0 nor 1")
        if match[1] in self.tables:
            raise ParseError(PROBE, number, f"{match[1]} stands there twice: two interfaces?")
        self.tables[match[1]] = (number, values)

    def map_dscp(self, priority: int, listed: str, number: int) -> None:
        for word in listed.split(","):
            if not word:
                continue
            if int(word) > 63 or int(word) in self.dscp:
                raise ParseError(PROBE, number, f"DSCP {word} stands there twice or is none")
            self.dscp[int(word)] = priority

    def line(self, line: str, number: int) -> bool:
        """Whether the line is one of the tool's."""
        if match := _HEAD.match(line):
            if match[1] in self.head:
                raise ParseError(PROBE, number, f"{match[1]} stands there twice: two interfaces?")
            self.head[match[1]] = (number, match[2])
        elif match := _DSCP.match(line):
            self.map_dscp(int(match[1]), line.partition("dscp:")[2].strip(), number)
        elif match := _BUFFERS.match(line):
            self.buffers = tuple(int(word) for word in match[1].split(",") if word.strip())
            self.max_buffer = int(match[2]) if match[2] else None
        elif match := _TABLE.match(line):
            self.table(match, number)
        elif match := _TC.match(line):
            if len(self.classes) >= _PRIORITIES:
                raise ParseError(PROBE, number, "more than 8 traffic classes")
            self.classes.append((number, match, []))
        elif match := _PRIORITY.match(line):
            if not self.classes:
                raise ParseError(PROBE, number, "a priority before any traffic class")
            self.classes[-1][2].append(int(match[1]))
        else:
            return _ELSE.match(line) is not None
        return True

    def closed_classes(self) -> tuple[TrafficClass, ...]:
        return tuple(
            TrafficClass(
                line=number,
                tc=int(match[1]),
                ratelimit=match[2].strip(),
                tsa=match[3],
                bw_percent=int(match[4]) if match[4] else None,
                priorities=tuple(priorities),
            )
            for number, match, priorities in self.classes
        )


def _collect(lines: list[str]) -> tuple[_Open, str | None]:
    seen, interface = _Open(), None
    for number, line in enumerate(lines, start=1):
        for part in _BREAK.split(line):
            stripped = part.strip()
            if not stripped or seen.line(stripped, number):
                continue
            if match := _INTERFACE.search(stripped):
                if interface not in (None, match[1]):
                    raise ParseError(PROBE, number, "two interfaces in one text")
                interface = match[1]
            elif (
                (seen.head or seen.tables)
                and not ELIDED.match(stripped)
                and not PROMPT.match(stripped)
            ):
                raise ParseError(PROBE, number, f"not mlnx_qos: {stripped[:60]!r}")
    return seen, interface


def parse_mlnx_qos(text: str) -> MlnxQos:
    """The settings of one interface; two interfaces in one text are refused."""
    lines = read_lines(PROBE, text, max_lines=2000)
    seen, interface = _collect(lines)
    if not seen.begun:
        raise ParseError(PROBE, 0, f"neither trust state nor PFC: {first_words(lines)!r}")
    classes = seen.closed_classes()
    listed = sorted(priority for entry in classes for priority in entry.priorities)
    if len(set(listed)) != len(listed) or len({entry.tc for entry in classes}) != len(classes):
        raise ParseError(PROBE, 0, "a priority or traffic class stands there twice")
    pfc_line, pfc = seen.tables.get("enabled", (None, None))
    buffer = seen.tables.get("buffer")
    trust_line, trust = seen.head.get("Priority trust state", (None, None))
    cable = seen.head.get("Cable len", (0, ""))[1]
    whole = trust is not None and pfc is not None and listed == list(range(_PRIORITIES))
    return MlnxQos(
        interface=interface,
        dcbx_mode=seen.head.get("DCBX mode", (0, None))[1],
        trust=trust,
        trust_line=trust_line,
        dscp_prio=seen.dscp or None,
        buffers_bytes=seen.buffers,
        max_buffer_bytes=seen.max_buffer,
        cable_len_m=int(cable) if re.fullmatch(r"[0-9]{1,5}", cable) else None,
        pfc=tuple(map(bool, pfc)) if pfc else None,
        pfc_enabled=tuple(i for i, on in enumerate(pfc) if on) if pfc else None,
        pfc_line=pfc_line,
        pfc_buffer=buffer[1] if buffer else None,
        traffic_classes=classes,
        complete=whole,
    )
