"""``/proc/net/bonding/BOND``: what the bonding driver sees of its ports and of LACP.

Evidence: the kernel's source (drivers/net/bonding/bond_procfs.c) and texts in public reports, none
of a GPU node: format unverified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.network import BondPort, Bonds, BondStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, first_words, numbered, read_lines

PROBE = "proc_bonding"
_MAX = 1000
_DRIVER = re.compile(r"Ethernet Channel Bonding Driver: ?\S")
_FILE = re.compile(r"(?:==> |.{0,100}\s)?/proc/net/bonding/([\w.-]{1,15})(?: <==)?$", re.ASCII)
_FIELD = re.compile(r"\s*([A-Za-z][\w ./()-]{0,60}?): ?(.*)$", re.ASCII)
_SECTION = re.compile(r"802\.3ad info$|Active Aggregator Info:$|details (actor|partner) lacp pdu:$")
_NO_AGGREGATOR = re.compile(r"bond \S{1,15} has no active aggregator$", re.ASCII)
_SPEED = re.compile(r"(\d{1,7}) ?Mbps$", re.ASCII)
_INTEGER = re.compile(r"\d{1,10}$", re.ASCII)
_POLICY = re.compile(r"\S+")


@dataclass
class _Block:
    """Lines of the bond or of one port."""

    line: int
    name: str | None
    fields: dict[str, tuple[int, str]] = field(default_factory=dict)
    ports: list[_Block] = field(default_factory=list)
    section: str = ""
    no_aggregator: bool = False

    def set(self, name: str, value: str, number: int) -> None:
        key = self.section + name
        if key in self.fields:
            raise ParseError(PROBE, number, f"{key} stands there twice")
        self.fields[key] = (number, value)

    def text(self, name: str) -> str | None:
        return self.fields.get(name, (0, ""))[1] or None

    def number(self, name: str) -> int | None:
        line, value = self.fields.get(name, (0, ""))
        if value in ("", "N/A"):
            return None
        if _INTEGER.match(value) is None:
            raise ParseError(PROBE, line, f"{name} is no number: {value[:40]!r}")
        return int(value)

    def port(self) -> BondPort:
        speed, duplex = self.text("Speed"), self.text("Duplex")
        match = _SPEED.match(speed) if speed else None
        if speed not in (None, "Unknown") and match is None:
            raise ParseError(PROBE, self.line, f"Speed is {speed!r:.40}")
        mac = self.text("Permanent HW addr")
        return BondPort(
            line=self.line,
            name=self.name or "",
            mii_status=self.text("MII Status"),
            speed_mbits_s=int(match[1]) if match else None,
            duplex=None if duplex == "Unknown" else duplex,
            link_failures=self.number("Link Failure Count"),
            permanent_mac=mac.lower() if mac else None,
            aggregator_id=self.number("Aggregator ID"),
            actor_churn=self.text("Actor Churn State"),
            partner_churn=self.text("Partner Churn State"),
            actor_port_state=self.number("actor port state"),
            partner_port_state=self.number("partner port state"),
        )

    def whole(self, lacp: bool) -> bool:
        """Whether the port has its last lines; some are older or for root only."""
        names = {"MII Status", "Link Failure Count", "Permanent HW addr"}
        if lacp:
            names.add("Aggregator ID")
        if "actor system priority" in self.fields:
            names |= {"actor port state", "partner port state"}
        if "Actor Churn State" in self.fields:
            names.add("Partner Churned Count")
        return names <= set(self.fields)

    def closed(self, ended: bool) -> BondStatus:
        mode = self.text("Bonding Mode")
        if mode is None:
            raise ParseError(PROBE, self.line, "no Bonding Mode (cut?)")
        lacp, active = "802.3ad" in mode, self.text("Currently Active Slave")
        mac, policy = self.text("Partner Mac Address"), self.text("Transmit Hash Policy")
        ports = tuple(port.port() for port in self.ports)
        if len({port.name for port in ports}) != len(ports):
            raise ParseError(PROBE, self.line, "a port stands there twice")
        return BondStatus(
            line=self.line,
            interface=self.name,
            mode=mode,
            hash_policy=_POLICY.findall(policy)[0] if policy else None,
            mii_status=self.text("MII Status"),
            miimon_ms=self.number("MII Polling Interval (ms)"),
            active_port=None if active == "None" else active,
            lacp_rate=self.text("LACP rate"),
            aggregator_id=self.number("Aggregator ID"),
            aggregator_ports=self.number("Number of ports"),
            partner_mac=mac.lower() if mac else None,
            no_aggregator=self.no_aggregator,
            ports=ports,
            complete=ended
            and self.text("MII Status") is not None
            and all(port.whole(lacp) for port in self.ports),
        )


def _inside(bond: _Block, line: str, number: int) -> None:
    block = bond.ports[-1] if bond.ports else bond
    if match := _SECTION.match(line.strip()):
        block.section = f"{match[1]} " if match[1] else ""
    elif _NO_AGGREGATOR.match(line.strip()):
        bond.no_aggregator = True
    elif (match := _FIELD.match(line)) is None:
        raise ParseError(PROBE, number, f"not a line of a bond: {line.strip()[:60]!r}")
    elif match[1] == "Slave Interface":
        if len(bond.ports) >= _MAX:
            raise ParseError(PROBE, number, f"more than {_MAX} ports")
        bond.ports.append(_Block(number, match[2].strip()))
    else:
        block.set(match[1], match[2].strip(), number)


def parse_proc_bonding(text: str) -> Bonds:
    """Every bond in the text."""
    bonds: list[_Block] = []
    name: str | None = None
    lines = read_lines(PROBE, text, max_lines=100_000, max_line=1000)
    for number, line in numbered(lines):
        if _DRIVER.match(line.strip()):
            bonds.append(_Block(number, name))
            name = None
            if len(bonds) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} bonds")
        elif match := _FILE.match(line):
            name = match[1]
        elif bonds and not PROMPT.match(line):
            _inside(bonds[-1], line, number)
    if not bonds:
        raise ParseError(PROBE, 0, f"no line of the bonding driver: {first_words(lines)!r}")
    ended = text.endswith("\n")
    last = len(bonds) - 1
    return Bonds(bonds=tuple(b.closed(ended or i != last) for i, b in enumerate(bonds)))
