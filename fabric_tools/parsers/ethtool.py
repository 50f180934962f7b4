"""``ethtool IFACE`` (link) and ``ethtool -i IFACE`` (driver).

Evidence: re-rendered from facts (a 400G port at 100G; OFED and inbox driver); other lines follow
ethtool's source (format unverified).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.network import EthtoolDriver, EthtoolDrivers, EthtoolLink, EthtoolLinks
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, first_words, read_lines

PROBE = "ethtool"
_MAX = 1000

_SETTINGS = re.compile(r"Settings for ([^\s:]{1,40}):$")
_FIELD = re.compile(r"\s+([A-Z][\w /()-]{1,50}):\s*(.*)$", re.ASCII)
_MORE = re.compile(r"\s{8,}(\S.*)$")
_SPEED = re.compile(r"(\d{1,7})Mb/s$", re.ASCII)
_MODE = re.compile(r"(\d{1,7})base\w{1,20}/(?:Full|Half)$", re.ASCII)
_LOOSE = re.compile(r"\s+(?:Speed|Duplex|Link detected|Auto-negotiation): ")
_NOISE = re.compile(
    r"netlink error: |Cannot get |\s+drv probe link\b|\s+Operation not permitted|No data available$"
)
_INFO = re.compile(r"([a-z][a-z-]{2,40}): ?(.*)$", re.ASCII)
_FIRMWARE = re.compile(r"(\S+) \(([A-Z0-9_]{4,32})\)$", re.ASCII)
_BUS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$")
_OFED = re.compile(r"\d{1,2}\.\d{1,2}-\d{1,2}\.\d{1,2}(?:\.\d{1,3}){0,3}$", re.ASCII)
#: Kernels before 5.11 had a version of the driver's own, and it never changed.
_KERNEL = re.compile(
    r"\d{1,2}\.\d{1,3}\.\d{1,4}(?:[-+.]\S*)?$|(?:5\.0-0|3\.0-1)(?: \(.{1,30}\))?$", re.ASCII
)


@dataclass
class _Open:
    """An interface whose lines are still being read."""

    line: int
    interface: str | None
    fields: dict[str, list[str]] = field(default_factory=dict)
    last: str | None = None

    def one(self, name: str) -> str | None:
        values = self.fields.get(name)
        if values is None:
            return None
        if len(values) != 1:
            raise ParseError(PROBE, self.line, f"{self.interface}: {name} has several lines")
        return values[0] or None

    def choice(self, name: str, choices: dict[str, bool]) -> bool | None:
        value = self.one(name)
        if value is None:
            return None
        word = value.split(" ")[0]
        if word not in choices:
            raise ParseError(PROBE, self.line, f"{self.interface}: {name} {value[:30]!r}")
        return choices[word]

    def words(self, name: str) -> tuple[str, ...]:
        words = [word for value in self.fields.get(name, []) for word in value.split()]
        return () if words in (["None"], ["Not", "reported"]) else tuple(words[:500])

    def speed(self) -> int | None:
        value = self.one("Speed")
        if value is None or value.startswith("Unknown!"):
            return None
        match = _SPEED.match(value)
        if match is None:
            raise ParseError(PROBE, self.line, f"{self.interface}: Speed {value[:30]!r}")
        return int(match[1])

    def lanes(self) -> int | None:
        value = self.one("Lanes")
        return int(value) if value and re.fullmatch(r"[0-9]{1,3}", value) else None

    def closed(self) -> EthtoolLink:
        modes = self.words("Supported link modes")
        speeds = [int(m[1]) for mode in modes if (m := _MODE.match(mode))]
        detected = self.choice("Link detected", {"yes": True, "no": False})
        duplex = self.one("Duplex")
        return EthtoolLink(
            line=self.line,
            interface=self.interface,
            speed_mbits_s=self.speed(),
            lanes=self.lanes(),
            duplex=None if duplex is None or duplex.startswith("Unknown!") else duplex,
            autoneg=self.choice("Auto-negotiation", {"on": True, "off": False}),
            autoneg_supported=self.choice("Supports auto-negotiation", {"Yes": True, "No": False}),
            port=self.one("Port"),
            link_detected=detected,
            supported_modes=modes,
            max_supported_mbits_s=max(speeds, default=None),
            fec_supported=self.words("Supported FEC modes"),
            complete=detected is not None and "Speed" in self.fields,
        )


def _below(item: _Open, line: str, number: int) -> None:
    more = _MORE.match(line)
    if match := _FIELD.match(line):
        if match[1] in item.fields:
            raise ParseError(PROBE, number, f"{item.interface}: {match[1]} stands there twice")
        item.fields[match[1]] = [match[2].strip()]
        item.last = match[1]
    elif item.last is not None and (more or line[:2] == "\t "):
        if len(item.fields[item.last]) < 500:
            item.fields[item.last].append(line.strip())
    elif not _NOISE.match(line):
        raise ParseError(PROBE, number, f"not ethtool: {line.strip()[:60]!r}")


def parse_ethtool(text: str) -> EthtoolLinks:
    """Link settings of each interface."""
    found: list[_Open] = []
    lines = read_lines(PROBE, text)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if match := _SETTINGS.match(line):
            found.append(_Open(number, match[1]))
            if len(found) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} interfaces")
        elif not found and _LOOSE.match(line):
            found.append(_Open(number, None))
            _below(found[-1], line, number)
        elif found and not PROMPT.match(line):
            _below(found[-1], line, number)
    if not found:
        raise ParseError(PROBE, 0, f"no settings: {first_words(lines)!r}")
    if len({item.interface for item in found}) != len(found):
        raise ParseError(PROBE, 0, "an interface stands there twice")
    return EthtoolLinks(links=tuple(item.closed() for item in found))


def _driver(line: int, fields: dict[str, str]) -> EthtoolDriver:
    firmware, psid = fields.get("firmware-version") or None, None
    if firmware and (match := _FIRMWARE.match(firmware)):
        firmware, psid = match[1], match[2]
    version, bus = fields.get("version") or None, fields.get("bus-info") or None
    # IPoIB interfaces say "mlx5_core[ib_ipoib]".
    mlx5 = fields["driver"].partition("[")[0] == "mlx5_core" and version is not None
    return EthtoolDriver(
        line=line,
        driver=fields["driver"],
        version=version,
        firmware=None if firmware in ("N/A", "") else firmware,
        psid=psid,
        bus_id=bus.lower() if bus and _BUS.match(bus) else None,
        origin=None
        if not mlx5 or version is None
        else "ofed"
        if _OFED.match(version)
        else "inbox"
        if _KERNEL.match(version)
        else None,
    )


def parse_ethtool_driver(text: str) -> EthtoolDrivers:
    """Driver and firmware of each interface; the tool does not print the interface."""
    found: list[tuple[int, dict[str, str]]] = []
    lines = read_lines(PROBE, text)
    for number, line in enumerate(lines, start=1):
        match = _INFO.match(line)
        if match is None:
            if line.strip() and found and not PROMPT.match(line):
                raise ParseError(PROBE, number, f"not ethtool -i: {line.strip()[:60]!r}")
            continue
        if match[1] == "driver":
            found.append((number, {}))
        if not found:
            continue
        if match[1] in found[-1][1] or len(found) > _MAX:
            raise ParseError(PROBE, number, f"{match[1]} stands there twice")
        found[-1][1][match[1]] = match[2].strip()
    if not found or not all(fields["driver"] for _, fields in found):
        raise ParseError(PROBE, 0, f"no driver line: {first_words(lines)!r}")
    return EthtoolDrivers(drivers=tuple(_driver(line, fields) for line, fields in found))


def parse_ethtool_any(text: str) -> EthtoolLinks | EthtoolDrivers:
    """Either of the two, by the first line that tells."""
    return (
        parse_ethtool(text)
        if "Settings for " in text or "Speed: " in text
        else parse_ethtool_driver(text)
    )
