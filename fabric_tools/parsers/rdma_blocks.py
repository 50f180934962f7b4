"""What ``ibv_devinfo`` and ``ibstat`` share: devices with ports with lines of ``name: value``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.rdma import RdmaDevice, RdmaDevices, RdmaPort
from fabric_tools.parsers.base import ParseError

MAX_DEVICES = 1024
#: "4096 (5)" is 4096, "0x12" is no number of this form.
INTEGER = re.compile(r"\d{1,12}(?![\w.])", re.ASCII)


@dataclass
class Block:
    """Lines of one device or port; a name may stand there once."""

    probe: str
    line: int
    name: str
    fields: dict[str, str] = field(default_factory=dict)
    ports: list[Block] = field(default_factory=list)

    def set(self, name: str, value: str, number: int) -> None:
        """Remembers a field."""
        if name in self.fields:
            raise ParseError(self.probe, number, f"{self.name}: {name} stands there twice")
        self.fields[name] = value

    def text(self, name: str) -> str | None:
        """The field, None where it is missing or empty."""
        return self.fields.get(name) or None

    def integer(self, name: str, pattern: re.Pattern[str] = INTEGER) -> int | None:
        """The field as a whole number; text that is none is an error."""
        value = self.text(name)
        if value is None:
            return None
        match = pattern.match(value)
        if match is None:
            raise ParseError(self.probe, self.line, f"{self.name}: {name} is {value[:30]!r}")
        return int(match[0])

    def add_port(self, number: int, port: str) -> None:
        """Opens a port below this device."""
        name = f"{self.name} port {port}"
        if any(block.name == name for block in self.ports) or len(self.ports) > 255:
            raise ParseError(self.probe, number, f"{name} stands there twice")
        self.ports.append(Block(self.probe, number, name, {"port": port}))


def whole(devices: list[RdmaDevice]) -> bool:
    """Every device has the ports it counts, each with its state and link layer."""

    def port_whole(port: RdmaPort) -> bool:
        return port.state is not None and port.link_layer is not None

    return all(
        device.port_count == len(device.ports) and all(map(port_whole, device.ports))
        for device in devices
    )


def closed(probe: str, devices: list[RdmaDevice], elided: bool = False) -> RdmaDevices:
    """The fact; a device that stands there twice is an error."""
    names = [device.name for device in devices]
    if len(set(names)) != len(names):
        raise ParseError(probe, 0, "a device stands there twice")
    return RdmaDevices(devices=tuple(devices), complete=whole(devices) and not elided)
