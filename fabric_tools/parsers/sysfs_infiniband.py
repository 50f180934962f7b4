"""Files of ``/sys/class/infiniband``, one line each: ``grep . FILES`` or ``DEVICE/FILE: value``.

Evidence: a real capture of eight ConnectX-7 and a BlueField bond; the ``grep .`` form is
schema-derived.
"""

from __future__ import annotations

import re

from fabric_tools.models.rdma import RdmaDevice, RdmaPort, SysfsInfiniband
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines
from fabric_tools.parsers.gids import SysfsGids

PROBE = "sysfs_infiniband"
_PATH = re.compile(
    r"(?:/sys/\S{0,200}/infiniband/)?([\w.-]{1,64})/(?:ports/(\d{1,3})/)?([\w./-]{1,80}?): ?(.*)$",
    re.ASCII,
)
_NOISE = re.compile(r"(?:grep|cat|head): .{1,400}: |\s*[$#] ")
_CODED = re.compile(r"\d{1,2}: ([\w<> ]{1,40})$", re.ASCII)
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec \(([^()]{1,30})\)$", re.ASCII)
_INTEGER = re.compile(r"\d{1,20}", re.ASCII)
_MAX_DEVICES = 1024

Files = dict[str, tuple[int, str]]


def _text(files: Files, name: str) -> str | None:
    return files.get(name, (0, ""))[1] or None


def _word(files: Files, name: str) -> str | None:
    value = _text(files, name)
    match = _CODED.match(value) if value else None
    return match[1] if match else value


def _port(number: int, files: Files) -> RdmaPort:
    rate, width = None, None
    if (value := _text(files, "rate")) is not None:
        match = _RATE.match(value)
        if match is None:
            raise ParseError(PROBE, files["rate"][0], f"not a rate: {value[:40]!r}")
        rate, width = float(match[1]), match[2]
    counters: dict[str, int] = {}
    for name, (line, counted) in files.items():
        folder, slash, counter = name.rpartition("/")
        if not slash or folder not in ("counters", "hw_counters") or not counted:
            continue
        if _INTEGER.fullmatch(counted) is None:
            raise ParseError(PROBE, line, f"not a counter: {counted[:40]!r}")
        counters[counter] = int(counted)
    return RdmaPort(
        line=min(line for line, _ in files.values()),
        port=number,
        state=_word(files, "state"),
        physical_state=_word(files, "phys_state"),
        link_layer=_text(files, "link_layer"),
        rate_gbits_s=rate,
        width=width,
        counters=counters,
    )


def _is_port(files: Files) -> bool:
    counters = any(name.startswith(("counters/", "hw_counters/")) for name in files)
    return counters or not {"state", "link_layer", "rate"}.isdisjoint(files)


def _device(name: str, line: int, files: Files, ports: dict[int, Files]) -> RdmaDevice:
    return RdmaDevice(
        line=line,
        name=name,
        type=_text(files, "hca_type"),
        firmware=_text(files, "fw_ver"),
        board_id=_text(files, "board_id"),
        node_guid=_text(files, "node_guid"),
        ports=tuple(_port(number, port) for number, port in ports.items() if port),
    )


def parse_sysfs_infiniband(text: str) -> SysfsInfiniband:
    """Devices, ports, counters and GIDs, as far as their files are in the text."""
    gids = SysfsGids()
    devices: dict[str, tuple[int, Files, dict[int, Files]]] = {}
    for number, line in numbered(read_lines(PROBE, text, max_lines=100_000, max_line=2000)):
        if _NOISE.match(line):
            continue
        match = _PATH.match(line)
        if match is None:
            raise ParseError(PROBE, number, f"not FILE: value: {line.strip()[:60]!r}")
        _, files, ports = devices.setdefault(match[1], (number, {}, {}))
        if len(devices) > _MAX_DEVICES:
            raise ParseError(PROBE, number, f"more than {_MAX_DEVICES} devices")
        if match[2] is not None:
            files = ports.setdefault(int(match[2]), {})
        if gids.take(line, number):
            continue
        if match[3] in files:
            raise ParseError(PROBE, number, f"{match[1]}: {match[3]} stands there twice")
        files[match[3]] = (number, match[4].strip())
    known = {"fw_ver", "hca_type", "board_id", "node_guid"}
    table = gids.table()
    for _, files, ports in devices.values():
        ports_known = any(map(_is_port, ports.values()))
        if not known & set(files) and not ports_known and table is None:
            raise ParseError(PROBE, 0, "no file of /sys/class/infiniband")
    if not devices:
        raise ParseError(PROBE, 0, "no file of /sys/class/infiniband")
    return SysfsInfiniband(
        devices=tuple(_device(name, *parts) for name, parts in devices.items()),
        gids=table.gids if table else (),
        empty_gids=table.empty if table else (),
    )
