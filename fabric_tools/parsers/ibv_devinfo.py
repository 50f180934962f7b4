"""``ibv_devinfo`` (and ``-v``): RDMA devices with port state, MTU and link layer.

Evidence: real captures of ConnectX-7 ports up and down and of soft RoCE with and without ``-v``.
"""

from __future__ import annotations

import re

from fabric_tools.models.rdma import RdmaDevice, RdmaDevices, RdmaPort
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import ELIDED, PROMPT, first_words, read_lines
from fabric_tools.parsers.rdma_blocks import MAX_DEVICES, Block, closed

PROBE = "ibv_devinfo"
_HCA = re.compile(r"\s*hca_id:\s*([\w.-]{1,64})$", re.ASCII)
_PORT = re.compile(r"\s*port:\s*(\d{1,3})$", re.ASCII)
_FIELD = re.compile(r"\s*([a-z][\w.]{0,40}):\s*(.*)$", re.ASCII)
_CODE = re.compile(r"\s*\(\d{1,6}\)$", re.ASCII)
_DEVICE_FIELDS = ("fw_ver", "node_guid", "vendor_part_id", "board_id", "phys_port_cnt", "transport")
_PORT_FIELDS = (
    "state", "max_mtu", "active_mtu", "port_lid", "link_layer", "phys_state",
    "active_width", "active_speed",
)  # fmt: skip
_NONE = re.compile(r"No IB devices found\s*$")
_MTUS = (256, 512, 1024, 2048, 4096)


def _mtu(block: Block, name: str) -> int | None:
    if (block.text(name) or "").startswith("invalid MTU"):
        return None
    value = block.integer(name)
    if value is not None and value not in _MTUS:
        raise ParseError(PROBE, block.line, f"{block.name}: {name} {value} is no InfiniBand MTU")
    return value


def _uncoded(block: Block, name: str) -> str | None:
    value = block.text(name)
    return _CODE.sub("", value) if value else None


def _port(block: Block) -> RdmaPort:
    return RdmaPort(
        line=block.line,
        port=block.integer("port") or 0,
        state=_uncoded(block, "state"),
        physical_state=_uncoded(block, "phys_state"),
        link_layer=block.text("link_layer"),
        max_mtu_bytes=_mtu(block, "max_mtu"),
        active_mtu_bytes=_mtu(block, "active_mtu"),
        lid=block.integer("port_lid"),
        width=_uncoded(block, "active_width"),
        speed=_uncoded(block, "active_speed"),
    )


def _device(block: Block) -> RdmaDevice:
    return RdmaDevice(
        line=block.line,
        name=block.name,
        firmware=block.text("fw_ver"),
        board_id=block.text("board_id"),
        vendor_part_id=block.integer("vendor_part_id"),
        node_guid=block.text("node_guid"),
        port_count=block.integer("phys_port_cnt"),
        ports=tuple(_port(port) for port in block.ports),
    )


def _inside(device: Block, line: str, number: int) -> None:
    if match := _PORT.match(line):
        device.add_port(number, match[1])
        return
    match = _FIELD.match(line)
    if match is None:
        # -v lists capabilities below their heading; other text at the margin is not the tool's.
        if line[:1] not in " \t":
            raise ParseError(PROBE, number, f"not ibv_devinfo: {line[:60]!r}")
        return
    block = device.ports[-1] if device.ports else device
    if match[1] in (_PORT_FIELDS if device.ports else _DEVICE_FIELDS):
        block.set(match[1], match[2].strip(), number)


def parse_ibv_devinfo(text: str) -> RdmaDevices:
    """Every device. "No IB devices found" is an answer: none."""
    blocks: list[Block] = []
    lines = read_lines(PROBE, text, max_lines=100_000)
    none_found, elided = 0, False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if match := _HCA.match(line):
            blocks.append(Block(PROBE, number, match[1]))
            if len(blocks) > MAX_DEVICES:
                raise ParseError(PROBE, number, f"more than {MAX_DEVICES} devices")
        elif blocks and ELIDED.match(line):
            elided = True
        elif blocks and not PROMPT.match(line):
            _inside(blocks[-1], line, number)
        elif _NONE.match(line):
            none_found = number
    if not blocks and not none_found:
        raise ParseError(PROBE, 0, f"no hca_id line: {first_words(lines)!r}")
    return closed(PROBE, [_device(block) for block in blocks], elided)
