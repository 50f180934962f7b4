"""``ip -j -d -s link`` (or ``addr``): JSON of iproute2.

Evidence: a real capture of a virtual machine (``-j -d -s -s``); bond, VF and statistics fields
follow iproute2's source (format unverified).
"""

from __future__ import annotations

from typing import Any

from fabric_tools.models.network import Bond, BondSlave, IpLink, IpLinks, LinkErrors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    int_of,
    list_of,
    load_json,
    object_of,
    text_of,
)

PROBE = "ip_link"
_MAX_LINKS = 5000


def _object(item: dict[str, Any], key: str) -> dict[str, Any]:
    return object_of(PROBE, item.get(key) or {}, key)


def _strings(item: dict[str, Any], key: str) -> tuple[str, ...]:
    values = list_of(PROBE, item.get(key) or [], key)
    if not all(isinstance(value, str) for value in values) or len(values) > 100:
        raise ParseError(PROBE, 0, f"{key} is not a list of strings")
    return tuple(values)


def _bond(info: dict[str, Any]) -> Bond | None:
    if text_of(PROBE, info, "info_kind") != "bond":
        return None
    data = _object(info, "info_data")
    mode = text_of(PROBE, data, "mode")
    return Bond(mode=mode, miimon_ms=int_of(PROBE, data, "miimon")) if mode else None


def _slave(info: dict[str, Any]) -> BondSlave | None:
    if text_of(PROBE, info, "info_slave_kind") != "bond":
        return None
    data = _object(info, "info_slave_data")
    return BondSlave(
        state=text_of(PROBE, data, "state"),
        mii_status=text_of(PROBE, data, "mii_status"),
        ad_actor_oper_port_state=int_of(PROBE, data, "ad_actor_oper_port_state"),
        ad_partner_oper_port_state=int_of(PROBE, data, "ad_partner_oper_port_state"),
    )


def _errors(item: dict[str, Any]) -> LinkErrors | None:
    stats = item.get("stats64") or item.get("stats")
    if stats is None:
        return None
    both = object_of(PROBE, stats, "stats64")
    rx, tx = _object(both, "rx"), _object(both, "tx")
    return LinkErrors(
        rx_errors=int_of(PROBE, rx, "errors"),
        rx_dropped=int_of(PROBE, rx, "dropped"),
        rx_length_errors=int_of(PROBE, rx, "length_errors"),
        rx_crc_errors=int_of(PROBE, rx, "crc_errors"),
        tx_errors=int_of(PROBE, tx, "errors"),
        tx_dropped=int_of(PROBE, tx, "dropped"),
    )


def _addresses(item: dict[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for value in list_of(PROBE, item.get("addr_info") or [], "addr_info")[:1000]:
        entry = object_of(PROBE, value, "an address")
        local, length = text_of(PROBE, entry, "local"), int_of(PROBE, entry, "prefixlen")
        if local is not None:
            found.append(local if length is None else f"{local}/{length}")
    return tuple(found)


def _elsewhere(item: dict[str, Any]) -> str | None:
    """The other end is in another namespace: the text form says ``ifN``."""
    index = int_of(PROBE, item, "link_index")
    return None if index is None else f"if{index}"


def _link(item: dict[str, Any], lines: Finder) -> IpLink:
    name, index = text_of(PROBE, item, "ifname"), int_of(PROBE, item, "ifindex")
    mtu = int_of(PROBE, item, "mtu")
    if name is None or index is None or mtu is None or "flags" not in item:
        raise ParseError(PROBE, 0, "an entry without ifname, ifindex, mtu or flags")
    flags = _strings(item, "flags")
    info = _object(item, "linkinfo")
    mac = text_of(PROBE, item, "address")
    return IpLink(
        line=lines.key("ifname"),
        index=index,
        name=name,
        link=text_of(PROBE, item, "link") or _elsewhere(item),
        flags=flags,
        mtu_bytes=mtu,
        min_mtu_bytes=int_of(PROBE, item, "min_mtu"),
        max_mtu_bytes=int_of(PROBE, item, "max_mtu"),
        state=text_of(PROBE, item, "operstate"),
        carrier="LOWER_UP" in flags and "NO-CARRIER" not in flags,
        admin_up="UP" in flags,
        master=text_of(PROBE, item, "master"),
        mac=mac.lower() if mac else None,
        link_type=text_of(PROBE, item, "link_type"),
        kind=text_of(PROBE, info, "info_kind"),
        parentdev=text_of(PROBE, item, "parentdev"),
        altnames=_strings(item, "altnames"),
        addresses=_addresses(item),
        vfs=len(list_of(PROBE, item.get("vfinfo_list") or [], "vfinfo_list")),
        bond=_bond(info),
        bond_slave=_slave(info),
        errors=_errors(item),
    )


def parse_ip_link_json(text: str) -> IpLinks:
    """Every interface, in order."""
    items = list_of(PROBE, load_json(PROBE, text), "the text")
    # iproute2 prints an empty object for what a filter (ip -4 addr) leaves out.
    entries = [object_of(PROBE, item, "an entry") for item in items if item != {}]
    if not entries or len(entries) > _MAX_LINKS:
        raise ParseError(PROBE, 0, f"{len(entries)} interfaces")
    lines = Finder(text)
    links = tuple(_link(item, lines) for item in entries)
    if len({link.name for link in links}) != len(links):
        raise ParseError(PROBE, 0, "an interface stands there twice")
    return IpLinks(links=links, complete=True)
