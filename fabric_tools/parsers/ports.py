"""Ports of RDMA devices, from whichever tools were recorded, put into one list.

Evidence: that of the parsers behind it; ``device/net`` lines are those of our own collector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fabric_tools.models.base import Fact
from fabric_tools.models.fabric_ports import FabricPort, PortGid, RdmaPorts
from fabric_tools.models.rdma import Gid, RdmaDevice, RdmaDevices, RdmaPort
from fabric_tools.parsers.base import ParseError, clean_lines
from fabric_tools.parsers.gids import parse_gids
from fabric_tools.parsers.ibdev2netdev import parse_ibdev2netdev
from fabric_tools.parsers.ibstat import parse_ibstat
from fabric_tools.parsers.ibv_devinfo import parse_ibv_devinfo
from fabric_tools.parsers.sysfs_infiniband import parse_sysfs_infiniband

_NET = re.compile(
    r"(?:/sys/class/infiniband/)?([\w.-]{1,64})/device/net/([\w.@:+-]{1,40})/(\w{1,20}):",
    re.ASCII,
)
_WIDTH = re.compile(r"(\d{1,2})X", re.ASCII)
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) Gbps", re.ASCII)
#: Port states that carry traffic, and those that do not (ib_verbs.h), as the tools spell them.
_ACTIVE = ("active",)
_DOWN = ("down", "nop", "init", "initialize", "initializing", "armed", "active_defer", "polling",
         "activedefer")  # fmt: skip
#: The kernel prints no name for states that it does not know.
_PHYSICAL_UP = ("linkup", "link_up")

Key = tuple[str, int]


def _word(state: str) -> str:
    return state.lower().removeprefix("port_")


def _is_active(state: str | None, physical: str | None) -> bool | None:
    word = _word(state) if state else ""
    if word in _DOWN:
        return False
    if word not in _ACTIVE:
        return None
    return physical is None or physical.lower().replace(" ", "") in _PHYSICAL_UP


def _rate(port: RdmaPort) -> float | None:
    """As printed, else lanes times the speed of one (``ibv_devinfo -v``)."""
    if port.rate_gbits_s is not None:
        return port.rate_gbits_s
    width, speed = _WIDTH.match(port.width or ""), _SPEED.match(port.speed or "")
    return int(width[1]) * float(speed[1]) if width and speed else None


def _gid(gid: Gid) -> PortGid:
    return PortGid(
        line=gid.line, index=gid.index, gid=gid.gid, ipv4=gid.ipv4, version=gid.version,
        ndev=gid.ndev,
    )  # fmt: skip


def _guid(printed: str | None) -> str | None:
    """``0x0200...`` of ibstat and ``0200:...`` of sysfs as one form."""
    return printed.lower().removeprefix("0x").replace(":", "") if printed else None


def _ports(devices: Iterable[RdmaDevice]) -> list[FabricPort]:
    """Devices of all vendors' tools; the chip's number stands in vendor_part_id or in the type."""
    return [
        FabricPort(
            line=port.line,
            device=device.name,
            port=port.port,
            device_type=device.type
            or (f"MT{device.vendor_part_id}" if device.vendor_part_id else None),
            firmware=device.firmware,
            node_guid=_guid(device.node_guid),
            state=port.state,
            physical_state=port.physical_state,
            active=_is_active(port.state, port.physical_state),
            link_layer=port.link_layer,
            rate_gbits_s=_rate(port),
            active_mtu_bytes=port.active_mtu_bytes,
            counters=port.counters,
        )
        for device in devices
        for port in device.ports
    ]


def _of_tool(found: RdmaDevices) -> RdmaPorts:
    return RdmaPorts(ports=tuple(_ports(found.devices)), complete=found.complete)


def ports_of_ibstat(text: str) -> RdmaPorts:
    """``ibstat`` or ``ibstatus``."""
    return _of_tool(parse_ibstat(text))


def ports_of_devinfo(text: str) -> RdmaPorts:
    """``ibv_devinfo``; with ``-v`` it tells the rate too."""
    return _of_tool(parse_ibv_devinfo(text))


def ports_of_netdevs(text: str) -> RdmaPorts:
    """``ibdev2netdev``. Up and Down are the interface's, and without a link no port is active."""
    found = parse_ibdev2netdev(text)
    ports = tuple(
        FabricPort(
            line=item.line,
            device=item.device,
            port=item.port,
            state=None if item.up is None else "Up" if item.up else "Down",
            active=item.up,
            netdev=item.netdev,
        )
        for item in found.mappings
    )
    return RdmaPorts(ports=ports, complete=found.complete)


def ports_of_gids(text: str) -> RdmaPorts:
    """``show_gids`` or a dump of the GIDs in sysfs. It lists no port without a GID."""
    table = parse_gids(text)
    loose = tuple(_gid(gid) for gid in table.gids if gid.device is None)
    return RdmaPorts(ports=tuple(_with_gids([], table.gids, table.complete)), loose_gids=loose)


def _with_gids(ports: list[FabricPort], gids: Iterable[Gid], whole: bool) -> list[FabricPort]:
    """The ports with their GIDs; ports that only the GIDs tell of are added."""
    by_port: dict[Key, list[PortGid]] = {}
    for gid in gids:
        if gid.device is not None:
            by_port.setdefault((gid.device, gid.port or 1), []).append(_gid(gid))
    known = {(port.device, port.port) for port in ports}
    filled = [
        port.model_copy(
            update={
                "gids": tuple(by_port.get((port.device, port.port), ())),
                "gids_whole": whole,
            }
        )
        for port in ports
    ]
    return filled + [
        FabricPort(
            line=found[0].line, device=key[0], port=key[1], gids=tuple(found), gids_whole=whole
        )
        for key, found in by_port.items()
        if key not in known
    ]


def ports_of_sysfs(text: str) -> RdmaPorts:
    """What the collector read, or ``grep . FILES`` by hand."""
    found = parse_sysfs_infiniband(text)
    nets: dict[str, dict[str, None]] = {}
    for line in clean_lines(text):
        if match := _NET.match(line):
            nets.setdefault(match[1], {})[match[2]] = None
    ports = _ports(found.devices)
    if found.gids or found.empty_gids or nets:
        # Our collector lists interfaces and leaves empty GIDs out: no GID line is no GID.
        ports = _with_gids(ports, found.gids, all(gid.version for gid in found.gids))
    named = [port.model_copy(update={"netdev": _netdev(port, nets)}) for port in ports]
    whole = bool(named) and all(port.state and port.link_layer for port in named)
    if not named and not found.devices:
        raise ParseError("sysfs_infiniband", 0, "no port")
    return RdmaPorts(ports=tuple(named), complete=whole)


def _netdev(port: FabricPort, nets: dict[str, dict[str, None]]) -> str | None:
    """The one interface of the device; where it has several (representors), that of its GIDs."""
    names = list(nets.get(port.device, ()))
    if len(names) == 1:
        return names[0]
    of_gids = {gid.ndev for gid in port.gids or () if gid.ndev}
    plain = [name for name in of_gids if name in names] if names else list(of_gids)
    return plain[0] if len(plain) == 1 else None


def merge_ports(found: Sequence[Fact]) -> RdmaPorts:
    """One list of all: of each value the first that was told, but the worst of the states."""
    facts = [fact for fact in found if isinstance(fact, RdmaPorts)]
    merged: dict[Key, FabricPort] = {}
    loose: list[PortGid] = []
    for fact in facts:
        loose += [gid.model_copy(update={"probe": fact.probe}) for gid in fact.loose_gids]
        for port in fact.ports:
            gids = port.gids and tuple(
                gid.model_copy(update={"probe": fact.probe}) for gid in port.gids
            )
            told = port.model_copy(update={"probe": fact.probe, "gids": gids})
            key = (port.device, port.port)
            merged[key] = _joined(merged[key], told) if key in merged else told
    return RdmaPorts(
        probe=facts[0].probe,
        ports=tuple(_adopt(list(merged.values()), loose)),
        loose_gids=tuple(loose),
        complete=any(fact.complete for fact in facts),
    )


def _joined(first: FabricPort, second: FabricPort) -> FabricPort:
    worse = first.active is not False and second.active is False
    update = {
        name: getattr(second, name)
        for name in FabricPort.model_fields
        if getattr(first, name) in (None, {}) and getattr(second, name) is not None
    }
    if first.gids is None and second.gids is not None:
        update["gids_whole"] = second.gids_whole
    if worse:  # then its line is the evidence
        for name in ("active", "state", "physical_state", "line", "probe"):
            update[name] = getattr(second, name)
    return first.model_copy(update=update)


def _adopt(ports: list[FabricPort], loose: list[PortGid]) -> list[FabricPort]:
    """GIDs of a table without devices belong to the only port, else to the one of their netdev."""
    if not loose:
        return ports
    by_netdev: dict[str | None, list[PortGid]] = {}
    for gid in loose:
        by_netdev.setdefault(gid.ndev, []).append(gid)
    adopted = []
    for port in ports:
        named = by_netdev.get(port.netdev, []) if port.netdev else []
        mine = tuple(loose if len(ports) == 1 else named)
        if port.gids is None and mine:
            port = port.model_copy(update={"gids": mine, "gids_whole": True})
        adopted.append(port)
    return adopted
