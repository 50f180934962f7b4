"""What RoCE needs of each compute NIC: an address in its GID table, and the MTU."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from fabric_tools.checks.rails import (
    Judged,
    Nic,
    each_nic,
    every_rail,
    evidence,
    no_roce,
)
from fabric_tools.checks.registry import Check, Finding, at, check
from fabric_tools.models.fabric_ports import FabricPort, PortGid, RdmaPorts
from fabric_tools.models.network import IpLink, IpLinks
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Least MTU of an interface whose RDMA MTU is 4096: payload, headers of IPv6, UDP and InfiniBand
#: (the kernel's iboe_get_mtu); 1500 gives 1024 (NVIDIA in dgx-spark-playbooks#103).
MTU_MIN = 4200
RDMA_MTU = 4096


@check(
    "roce.gid",
    phases=(Phase.ROCE,),
    title="every compute port has a RoCE v2 address",
    remedy="give the interface its IPv4 address (`ip addr`, netplan); only v1: the driver's RoCE "
    "mode (`cma_roce_mode -d DEV -p 1 -m 2`); `show_gids` shows the table",
    subjects=every_rail,
    not_applicable=no_roce,
)
def gid(found: RdmaPorts, spec: Target) -> Iterator[Finding]:
    """A GID of type RoCE v2 with the rail's address, and its index.

    The index is what NCCL_IB_GID_INDEX and perftest's -x want. It is often 3, but moves with VLANs,
    IPv6 addresses and bonds, so it is looked up and never assumed. Only link-local or only v1: the
    interface has no IPv4 address, or the driver was told to use v1, which no router passes on.
    """
    yield from each_nic(
        spec, found, "a RoCE v2 GID with an IPv4 address", lambda nic: _gid(nic, found)
    )


def _gid(nic: Nic, found: RdmaPorts) -> Judged:
    port = nic.port
    if port is None:
        return Judged(Status.UNKNOWN, nic.missing, (at(found),), "see nic.ports")
    if port.gids is None:
        remedy = "record `show_gids` as show_gids.txt, or collect with fabric-collect.pyz"
        return Judged(Status.UNKNOWN, "no GID table", evidence(found, port), remedy)
    usable = [item for item in port.gids if item.version == "v2" and _routable(item)]
    planned = _address(nic)
    fits = [item for item in usable if planned in (None, _value(item))]
    if fits:
        best = fits[0]
        actual = f"index {best.index}: {_value(best)}" + (f" on {best.ndev}" if best.ndev else "")
        more = [str(item.index) for item in fits[1:]]
        actual += f" (also {', '.join(more)})" if more else ""
        return Judged(Status.PASS, actual, (_proof(found, best),))
    shown = port.gids[:1]
    proof = tuple(_proof(found, item) for item in (usable or shown)[:2]) or evidence(found, port)
    if usable and all(_is_placeholder(item) for item in usable):
        actual = f"{len(usable)} addresses, all replaced (redacted?): none to compare with the plan"
        remedy = "judge a snapshot that is not redacted"
        return Judged(Status.UNKNOWN, actual, proof, remedy)
    if usable:
        has = ", ".join(f"{_value(item)} (index {item.index})" for item in usable[:4])
        remedy = "correct the address of the interface, or of the rail in the inventory"
        return Judged(Status.FAIL, f"{has}, not {planned}", proof, remedy)
    if not port.gids_whole or any(item.version is None for item in port.gids):
        return Judged(Status.UNKNOWN, "the GID table is cut or has no types", proof)
    kinds = sorted({f"{item.version} {_value(item)}" for item in port.gids})
    actual = f"only {', '.join(kinds[:4])}" if kinds else "the GID table is empty"
    return Judged(Status.FAIL, actual, proof)


def _proof(found: RdmaPorts, item: PortGid) -> Evidence:
    return Evidence(probe=item.probe or found.probe, line=item.line)


def _value(item: PortGid) -> str:
    if item.ipv4:
        return item.ipv4
    try:
        return str(ipaddress.IPv6Address(item.gid))
    except ValueError:  # a place holder of a published text
        return item.gid


#: What ``collect --redact`` puts in place of addresses; no interface of a node has one of these.
_PLACEHOLDERS = tuple(
    ipaddress.ip_network(text) for text in ("192.0.2.0/24", "198.18.0.0/15", "2001:db8::/32")
)


def _is_placeholder(item: PortGid) -> bool:
    try:
        address = ipaddress.ip_address(item.ipv4 or item.gid)
    except ValueError:
        return False
    return any(address in network for network in _PLACEHOLDERS)


def _routable(item: PortGid) -> bool:
    """An IPv4 address, or an IPv6 address that is not link-local."""
    if item.ipv4 or _is_placeholder(item):
        return True
    try:
        return ipaddress.IPv6Address(item.gid).is_global or ipaddress.IPv6Address(
            item.gid
        ) in ipaddress.IPv6Network("fc00::/7")
    except ValueError:
        return False


def _address(nic: Nic) -> str | None:
    """The planned address, without its prefix length; None where none is planned."""
    if nic.rail is None:
        return None
    text = nic.rail.address.partition("/")[0].strip()
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


@check(
    "roce.mtu",
    phases=(Phase.ROCE,),
    title="the MTU of every compute NIC carries RDMA at 4096",
    remedy="`ip link set IFACE mtu 9000` on the interface, its VLAN and its bond (slaves first), "
    "and in netplan or NetworkManager; the switch ports need 9216",
    subjects=every_rail,
    not_applicable=no_roce,
)
def mtu(links: IpLinks | Missing, found: RdmaPorts | Missing, spec: Target) -> Iterator[Finding]:
    """MTU of the interface: at least 4200, and ``mtu_bytes`` of the rail where it is declared.

    The RDMA MTU follows from it: 1500 gives 1024, from 4200 on it is 4096, the largest; 9000 is not
    needed for RDMA. With a VLAN or a bond every layer must have it. An ``active_mtu`` below 4096
    beside a good interface means that the port came up before the MTU was set.
    """
    expected = f"MTU {MTU_MIN} or more, and as planned"
    yield from each_nic(spec, found, expected, lambda nic: _mtu(nic, links))


def find_link(links: IpLinks, name: str | None) -> IpLink | None:
    """The interface of that name or alternative name."""
    return next((item for item in links.links if name in (item.name, *item.altnames)), None)


def lost_link(nic: Nic, links: IpLinks, gone: Status = Status.FAIL) -> Judged:
    """What to say of a NIC whose interface is not in ``ip link``: ``gone`` where that is whole."""
    if nic.netdev is None:
        remedy = "record `ibdev2netdev`, or declare the node's rails in the inventory"
        return Judged(Status.UNKNOWN, f"which interface {nic.device} has is not told",
                      (at(links),), remedy)  # fmt: skip
    status = gone if links.complete else Status.UNKNOWN
    return Judged(status, f"no interface {nic.netdev}", (at(links),))


def _mtu(nic: Nic, links: IpLinks | Missing) -> Judged:
    if isinstance(links, Missing):
        port = nic.port
        if port and port.active and port.active_mtu_bytes and port.active_mtu_bytes < RDMA_MTU:
            actual = f"the RDMA MTU of {port.name} is {port.active_mtu_bytes}"
            return Judged(Status.FAIL, actual, evidence(links, port))
        return Judged(Status.UNKNOWN, links.reason, (at(links, links.line),))
    link = find_link(links, nic.netdev)
    if link is None:
        return lost_link(nic, links)
    if link.state == "DOWN" or not link.admin_up:
        remedy = "`ip link set IFACE up`, and in netplan or NetworkManager; see the cable"
        return Judged(Status.FAIL, f"{link.name} is DOWN", (at(links, link.line),), remedy)
    planned = None
    if nic.rail is not None and "mtu_bytes" in nic.rail.model_fields_set:
        planned = nic.rail.mtu_bytes
    layers = [link, *_below_and_above(link, links, nic.port)]
    small = [item for item in layers if item.mtu_bytes < MTU_MIN]
    other = [item for item in layers if planned is not None and item.mtu_bytes != planned]
    shown = small or other or layers
    actual = ", ".join(f"{item.name} {item.mtu_bytes}" for item in shown[:6])
    proof = tuple(at(links, item.line) for item in shown[:3])
    if small:
        return Judged(Status.FAIL, actual, proof)
    if other:
        return Judged(Status.FAIL, f"{actual}, planned {planned}", proof)
    active = nic.port.active_mtu_bytes if nic.port else None
    if nic.port and active is not None and active < RDMA_MTU:
        actual += f", but the RDMA MTU is {active}"
        remedy = "set the port down and up again; it took its RDMA MTU before"
        return Judged(Status.FAIL, actual, evidence(links, nic.port), remedy)
    return Judged(Status.PASS, actual, proof)


def _below_and_above(link: IpLink, links: IpLinks, port: FabricPort | None) -> list[IpLink]:
    """The layers that the same frames pass: what a VLAN lies on, the bond, and VLANs with a GID."""
    found = []
    below = find_link(links, link.link) if link.link else None
    if below is not None:
        found.append(below)
    if bonded(link) and (master := find_link(links, link.master)):
        found.append(master)
    if link.bond is not None or link.kind == "bond":
        found += [item for item in links.links if item.master == link.name]
    with_gid = {gid.ndev for gid in (port.gids if port else None) or () if gid.version == "v2"}
    found += [item for item in links.links if item.link == link.name and item.name in with_gid]
    return found


def bonded(link: IpLink) -> bool:
    """Whether it is a port of a bond. A VRF or a bridge is a master too, and no bond."""
    return link.bond_slave is not None or "SLAVE" in link.flags


CHECKS: tuple[Check, ...] = (gid, mtu)
