"""``lldpcli show neighbors`` (or ``lldpctl``) as people read it.

Evidence: the tool's own layout (lldpd's text writer); no capture of a GPU node: format unverified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.network import LldpNeighbour, LldpNeighbours
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, first_words, numbered, read_lines

PROBE = "lldp"
_MAX = 2000
_RULE = re.compile(r"-{20,}$")
_TITLE = re.compile(r"LLDP neighbors:$")
_INTERFACE = re.compile(
    r"Interface: +([\w.@-]{1,40}), via: ([\w ]{1,20})(?:, .{0,100})?$", re.ASCII
)
_FIELD = re.compile(r"\s{1,12}([A-Z][\w /.-]{1,30}): *(.*)$", re.ASCII)
_MORE = re.compile(r"\s{15,}\S")
_ONCE = ("ChassisID", "SysName", "SysDescr", "PortID", "PortDescr")


@dataclass
class _Open:
    """A neighbour whose lines are still being read."""

    line: int
    interface: str
    via: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    last: str | None = None

    def below(self, line: str, number: int) -> None:
        if match := _FIELD.match(line):
            self.last = match[1]
            values = self.fields.setdefault(match[1], [])
            if match[1] in _ONCE and values:
                raise ParseError(PROBE, number, f"{match[1]} stands there twice")
            values.append(match[2].strip())
        elif self.last is not None and _MORE.match(line):
            self.fields[self.last][-1] = f"{self.fields[self.last][-1]} {line.strip()}"[:4000]
        else:
            raise ParseError(PROBE, number, f"not a line of lldpcli: {line.strip()[:60]!r}")

    def one(self, name: str) -> str | None:
        return next(iter(self.fields.get(name, [])), None) or None

    def id(self, name: str) -> tuple[str | None, str | None]:
        """``mac 02:00...``: the type stands before the value."""
        kind, _, value = (self.one(name) or "").partition(" ")
        return (value.strip(), kind) if value.strip() else (None, None)

    def closed(self) -> LldpNeighbour:
        chassis, chassis_type = self.id("ChassisID")
        port, port_type = self.id("PortID")
        if chassis is None or port is None:
            raise ParseError(PROBE, self.line, f"{self.interface}: no ChassisID or PortID (cut?)")
        said = [word.rpartition(", ") for word in self.fields.get("Capability", [])]
        return LldpNeighbour(
            line=self.line,
            interface=self.interface,
            via=self.via,
            system_name=self.one("SysName"),
            system_descr=self.one("SysDescr"),
            chassis_id=chassis,
            chassis_id_type=chassis_type,
            port_id=port,
            port_id_type=port_type,
            port_descr=self.one("PortDescr"),
            management_addresses=tuple(filter(None, self.fields.get("MgmtIP", []))),
            capabilities=tuple(name for name, _, state in said if state == "on"),
        )


def parse_lldp_text(text: str) -> LldpNeighbours:
    """Every neighbour; the rule below the last one closes the text."""
    found: list[_Open] = []
    titled = ended = False
    lines = read_lines(PROBE, text)
    for number, line in numbered(lines):
        if _TITLE.match(line):
            titled = True
        elif _RULE.match(line):
            ended = titled
        elif match := _INTERFACE.match(line):
            ended = False
            found.append(_Open(number, match[1], match[2]))
            if len(found) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} neighbours")
        elif found and line[0] in " \t":
            found[-1].below(line, number)
        elif not PROMPT.match(line):
            raise ParseError(PROBE, number, f"not a line of lldpcli: {line.strip()[:60]!r}")
    if not titled and not found:
        raise ParseError(PROBE, 0, f"not lldpcli show neighbors: {first_words(lines)!r}")
    return LldpNeighbours(
        format="text", neighbours=tuple(item.closed() for item in found), complete=ended
    )
