"""``ibstat`` and ``ibstatus``: RDMA devices with port state, rate and link layer.

Evidence: real captures of Ethernet and InfiniBand ports, ConnectX-3, soft RoCE, names only
(``| grep mlx5``); 11 devices of a B300 re-rendered from facts; ibstatus of soft RoCE. One port
(``ibstat CA PORT``) and FDR10 follow ibstat.c of rdma-core.
"""

from __future__ import annotations

import re

from fabric_tools.models.rdma import RdmaDevice, RdmaDevices, RdmaPort
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import ELIDED, PROMPT, first_words, read_lines
from fabric_tools.parsers.rdma_blocks import MAX_DEVICES, Block, closed

PROBE = "ibstat"
#: ``ibstat CA PORT`` writes a colon behind CA.
_CA = re.compile(r"\s*CA:? '([\w.-]{1,64})'$", re.ASCII)
_PORT = re.compile(r"\s*Port (\d{1,3}):$", re.ASCII)
_FIELD = re.compile(r"\s*([A-Z][A-Za-z ]{1,30}):\s*(.*)$", re.ASCII)
_STATUS = re.compile(r"Infiniband device '([\w.-]{1,64})' port (\d{1,3}) status:$", re.ASCII)
_STATUS_FIELD = re.compile(r"\s+([a-z][a-z_ ]{1,20}):\s*(.*)$", re.ASCII)
_NUMBER = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(?: Gb/sec \((.{1,20})\)| \(FDR10\))?$", re.ASCII)
_CODED = re.compile(r"\d{1,2}: ([\w<> ]{1,40})$", re.ASCII)


def _rate(block: Block, name: str) -> tuple[float | None, str | None]:
    value = block.text(name)
    if value is None:
        return None, None
    match = _NUMBER.match(value)
    if match is None:
        raise ParseError(PROBE, block.line, f"{block.name}: {name} is {value[:30]!r}")
    return float(match[1]), match[2]


def _port(block: Block) -> RdmaPort:
    return RdmaPort(
        line=block.line,
        port=block.integer("port") or 0,
        state=block.text("State"),
        physical_state=block.text("Physical state"),
        link_layer=block.text("Link layer"),
        rate_gbits_s=_rate(block, "Rate")[0],
        lid=block.integer("Base lid"),
    )


def _device(block: Block) -> RdmaDevice:
    return RdmaDevice(
        line=block.line,
        name=block.name,
        type=block.text("CA type"),
        firmware=block.text("Firmware version"),
        node_guid=block.text("Node GUID"),
        port_count=block.integer("Number of ports"),
        ports=tuple(_port(port) for port in block.ports),
    )


def _inside(device: Block, line: str, number: int) -> None:
    if match := _PORT.match(line):
        device.add_port(number, match[1])
    elif match := _FIELD.match(line):
        block = device.ports[-1] if device.ports else device
        block.set(match[1], match[2].strip(), number)
    else:
        raise ParseError(PROBE, number, f"not ibstat: {line.strip()[:60]!r}")


def parse_ibstat(text: str) -> RdmaDevices:
    """Every device of ``ibstat``; of ``ibstatus`` where that is what the text is."""
    if "Infiniband device '" in text:
        return _parse_ibstatus(text)
    blocks: list[Block] = []
    lines = read_lines(PROBE, text)
    elided = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if match := _CA.match(line):
            blocks.append(Block(PROBE, number, match[1]))
            if len(blocks) > MAX_DEVICES:
                raise ParseError(PROBE, number, f"more than {MAX_DEVICES} devices")
        elif blocks and ELIDED.match(line):
            elided = True
        elif blocks and not PROMPT.match(line):
            _inside(blocks[-1], line, number)
    if not blocks:
        raise ParseError(PROBE, 0, f"no CA line: {first_words(lines)!r}")
    return closed(PROBE, [_device(block) for block in blocks], elided)


def _status_port(block: Block) -> RdmaPort:
    def word(name: str) -> str | None:
        value = block.text(name)
        match = _CODED.match(value) if value else None
        return match[1] if match else value

    rate, width = _rate(block, "rate")
    return RdmaPort(
        line=block.line,
        port=block.integer("port") or 0,
        state=word("state"),
        physical_state=word("phys state"),
        link_layer=block.text("link_layer"),
        rate_gbits_s=rate,
        width=width,
    )


def _parse_ibstatus(text: str) -> RdmaDevices:
    blocks: dict[str, Block] = {}
    current: Block | None = None
    for number, line in enumerate(read_lines(PROBE, text), start=1):
        if not line.strip():
            continue
        if match := _STATUS.match(line):
            device = blocks.setdefault(match[1], Block(PROBE, number, match[1]))
            if len(blocks) > MAX_DEVICES:
                raise ParseError(PROBE, number, f"more than {MAX_DEVICES} devices")
            device.add_port(number, match[2])
            current = device.ports[-1]
        elif current is not None and (match := _STATUS_FIELD.match(line)):
            current.set(match[1], match[2].strip(), number)
        elif current is not None and not PROMPT.match(line):
            raise ParseError(PROBE, number, f"not ibstatus: {line.strip()[:60]!r}")
    if not blocks:
        raise ParseError(PROBE, 0, "no device line of ibstatus")
    return closed(
        PROBE,
        [
            RdmaDevice(
                line=block.line,
                name=block.name,
                port_count=len(block.ports),
                ports=tuple(_status_port(port) for port in block.ports),
            )
            for block in blocks.values()
        ],
    )
