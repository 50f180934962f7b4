"""`lspci -D -nn -vv`: devices on the bus and their PCIe link.

Evidence: real captures with and without domain, with and without -nn, with and without root, of
H100 and A100 nodes (also as guests), NVSwitch, ConnectX-7, PCIe switches with their ACSCtl; also
the lines that ``grep`` left of such a text.
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import PciDevice, PciDevices
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines

PROBE = "lspci"

_HEADER = re.compile(
    r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]) "
    r"([^:\[]{1,80}?)(?: \[([0-9a-f]{4})\])?: (.+)$"
)
_TAIL = re.compile(r" \((?:rev [0-9a-f]{2}|prog-if [0-9a-f]{2}(?: \[[^\]]*\])?)\)$")
_IDS = re.compile(r" ?\[([0-9a-f]{4}:[0-9a-f]{4})\]$")
_LINK = re.compile(
    r"\s+Lnk(Cap|Sta):\s*(?:Port #\d+, )?Speed (unknown|\d{1,3}(?:\.\d{1,2})?GT/s)"
    r"(?: \([\w ]+\))?, Width x(\d{1,3})\b",
    re.ASCII,
)
_IS_LINK = re.compile(r"\s+Lnk(?:Cap|Sta):")
_ACS = re.compile(r"\s+ACSCtl:((?:\s+[A-Z]\w{1,20}[+-]){1,12})$", re.ASCII)
_PAYLOAD = re.compile(r"\s+MaxPayload (\d{2,5}) bytes, MaxReadReq (\d{2,5}) bytes", re.ASCII)
_BUSES = re.compile(
    r"\s+Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})\b", re.ASCII
)
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S+)$")
#: A full node has a few hundred devices.
_MAX_DEVICES = 10000
#: Messages of the library, and the bytes that -x adds.
_NOISE = re.compile(r"(?:pcilib|lspci): |[0-9a-f]{2,3}:(?: [0-9a-f]{2}){1,16}$")


class _Open:
    """A device whose lines are still being read."""

    def __init__(self, line: int, match: re.Match[str]) -> None:
        name = match[5].rstrip()
        self.answers = True
        while tail := _TAIL.search(name):
            # All ones is what the bus reads where nobody answers.
            self.answers = self.answers and tail[0] != " (rev ff)"
            name = name[: tail.start()]
        ids = _IDS.search(name)
        self.line = line
        self.bus_id = f"{match[1] or '0000'}:{match[2]}".lower()
        self.device_class, self.class_name = match[4], match[3]
        self.vendor_device = ids[1] if ids else None
        self.name = name[: ids.start()] if ids else name
        self.driver: str | None = None
        self.access_denied = False
        self.detailed = False
        self.links: dict[str, tuple[float | None, int | None]] = {}
        self.link_line: int | None = None
        self.acs: tuple[str, ...] | None = None
        self.acs_line: int | None = None
        self.acs_capable = False
        self.payload: tuple[int, int] | None = None
        self.buses: tuple[int, int] | None = None

    def detail(self, line: str, number: int) -> None:
        """One indented line."""
        if "Capabilities: <access denied>" in line:
            self.access_denied = True
        elif "!!! Unknown header type" in line:
            self.answers = False
        elif line.lstrip().startswith("Capabilities: ["):
            self.detailed = True
        elif driver := _DRIVER.match(line):
            self.driver = driver[1]
        elif _IS_LINK.match(line):
            self._link(line, number)
        elif payload := _PAYLOAD.match(line):
            self.payload = int(payload[1]), int(payload[2])
        elif buses := _BUSES.match(line):
            self.buses = int(buses[1], 16), int(buses[2], 16)
        elif line.lstrip().startswith("ACSCap:"):
            self.acs_capable = True
        elif line.lstrip().startswith("ACSCtl:"):
            self._acs(line, number)

    def _acs(self, line: str, number: int) -> None:
        match = _ACS.match(line)
        if match is None or self.acs is not None:
            raise ParseError(PROBE, number, f"cannot read the ACS line {line.strip()[:80]!r}")
        self.acs = tuple(word[:-1] for word in match[1].split() if word.endswith("+"))
        self.acs_line, self.detailed = number, True

    def _link(self, line: str, number: int) -> None:
        match = _LINK.match(line)
        if match is None:
            raise ParseError(PROBE, number, f"cannot read the link line {line.strip()[:80]!r}")
        if match[1] in self.links:
            raise ParseError(PROBE, number, f"{self.bus_id} has two Lnk{match[1]} lines")
        speed = None if match[2] == "unknown" else float(match[2].removesuffix("GT/s"))
        self.links[match[1]] = (speed, int(match[3]))
        self.detailed = True
        if match[1] == "Sta":
            self.link_line = number

    def closed(self) -> PciDevice:
        """The device as a fact."""
        cap, sta = self.links.get("Cap", (None, None)), self.links.get("Sta", (None, None))
        return PciDevice(
            line=self.line,
            bus_id=self.bus_id,
            device_class=self.device_class,
            class_name=self.class_name,
            vendor_device=self.vendor_device,
            name=self.name,
            driver=self.driver,
            access_denied=self.access_denied,
            answers=self.answers,
            link_cap_gt_s=cap[0],
            link_cap_width=cap[1],
            link_sta_gt_s=sta[0],
            link_sta_width=sta[1],
            link_line=self.link_line,
            acs=self.acs,
            acs_line=self.acs_line,
            acs_capable=self.acs_capable,
            max_payload_bytes=self.payload[0] if self.payload else None,
            max_read_request_bytes=self.payload[1] if self.payload else None,
            buses=self.buses,
        )


def _opened(line: str, number: int) -> _Open | None:
    match = _HEADER.match(line)
    if match is not None and re.fullmatch(r"[0-9a-f]{4}", match[3]):
        raise ParseError(PROBE, number, "numbers without names (lspci -n); use -nn")
    return _Open(number, match) if match is not None else None


def parse_pci_devices(text: str) -> PciDevices:
    """Every device, in order. Lines before the first (a prompt, a question) are ignored."""
    devices: dict[str, _Open] = {}
    current: _Open | None = None
    lines = read_lines(PROBE, text, max_chars=8 * MIB, max_lines=100_000, max_line=2000)
    if not text.endswith("\n") and re.search(r"Width x\d{1,2}$", lines[-1]):
        raise ParseError(PROBE, len(lines), "the last line has no end: x1 may be x16")
    for number, line in numbered(lines):
        if line[0] in " \t":
            if current is not None:
                current.detail(line, number)
        elif line == "--":
            current = None  # what grep shows next may be the middle of another device
        elif not _NOISE.match(line):
            current = _opened(line, number)
            if current is None and devices:
                raise ParseError(PROBE, number, f"not a device: {line[:80]!r}")
            if current is not None and current.bus_id in devices:
                raise ParseError(PROBE, number, f"{current.bus_id} stands there twice")
            if current is not None:
                devices[current.bus_id] = current
        if len(devices) > _MAX_DEVICES:
            raise ParseError(PROBE, number, f"more than {_MAX_DEVICES} devices")
    if not devices:
        raise ParseError(PROBE, 0, "no device line")
    return PciDevices(
        devices=tuple(device.closed() for device in devices.values()),
        detailed=any(device.detailed for device in devices.values()),
    )
