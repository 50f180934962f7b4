"""`lspci -D -nn -vv`: devices on the bus and their PCIe link.

Evidence: real captures with and without domain, with and without -nn, with and without root, of
H100 and A100 nodes (also as guests), NVSwitch, ConnectX-7, PCIe switches.
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import PciDevice, PciDevices
from fabric_tools.parsers.base import ParseError, clean_lines

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
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S+)$")
#: A full node has a few hundred; the bounds keep a hostile text from costing minutes.
_MAX_DEVICES = 10000
_MAX_LINE = 2000
_NOISE = re.compile(r"(?:pcilib|lspci): ")


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
        )


def parse_pci_devices(text: str) -> PciDevices:
    """Every device, in order. Lines before the first (a prompt, a question) are ignored."""
    devices: list[_Open] = []
    seen: set[str] = set()
    for number, line in enumerate(clean_lines(text), start=1):
        if len(line) > _MAX_LINE or len(devices) > _MAX_DEVICES:
            raise ParseError(PROBE, number, "too long to be the output of lspci")
        if not line or (line[0] in " \t" and not devices) or _NOISE.match(line):
            continue
        if line[0] in " \t":
            devices[-1].detail(line, number)
            continue
        match = _HEADER.match(line)
        if match is None:
            if devices:
                raise ParseError(PROBE, number, f"not a device: {line[:80]!r}")
            continue
        if re.fullmatch(r"[0-9a-f]{4}", match[3]):
            raise ParseError(PROBE, number, "numbers without names (lspci -n); use -nn")
        device = _Open(number, match)
        if device.bus_id in seen:
            raise ParseError(PROBE, number, f"{device.bus_id} stands there twice")
        seen.add(device.bus_id)
        devices.append(device)
    if not devices:
        raise ParseError(PROBE, 0, "no device line")
    return PciDevices(
        devices=tuple(device.closed() for device in devices),
        detailed=any(device.detailed for device in devices),
    )
