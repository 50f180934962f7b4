"""RoCE beyond one port: bonds, the way from GPU to NIC, and cabling."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.rails import (
    Judged,
    Nic,
    each_nic,
    every_rail,
    is_bridge,
    no_fabric,
    no_roce,
)
from fabric_tools.checks.registry import Check, Finding, at, check, every_gpu, gpu
from fabric_tools.checks.roce import bonded, find_link, lost_link
from fabric_tools.models.fabric_ports import RdmaPorts
from fabric_tools.models.facts import Topology, TopologyRow
from fabric_tools.models.network import IpLink, IpLinks, LldpNeighbours
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Bond modes over which mlx5 runs RoCE as one device (kernel, mlx5 lag): 1, 2 and 4.
_LAG_MODES = ("active-backup", "balance-xor", "802.3ad")


@check(
    "roce.bond",
    phases=(Phase.ROCE,),
    title="no compute NIC is in a bond across cards",
    remedy="take the GPU's NICs out of the bond, one rail and one subnet each; bonds are for the "
    "front end",
    subjects=every_rail,
    not_applicable=no_roce,
)
def bond(links: IpLinks, found: RdmaPorts | Missing, spec: Target) -> Iterator[Finding]:
    """Master of each compute interface.

    RoCE runs over a bond only where its ports are the two ports of one card (RoCE LAG, modes 1, 2
    and 4; kernel mlx5 lag); over two cards it goes past the bond, or fails. A bond with miimon 0
    does not notice a dead link: its UP and MII status prove nothing, so each port must have its own
    carrier. A VRF and a bridge are masters too, and no bond.
    """
    expected = "no bond, or the two ports of one card"
    yield from each_nic(spec, found, expected, lambda nic: _bond(nic, links))


def _bond(nic: Nic, links: IpLinks) -> Judged:
    link = find_link(links, nic.netdev)
    if link is None:
        return lost_link(nic, links, gone=Status.UNKNOWN)
    if link.kind == "vlan" and link.link and (below := find_link(links, link.link)):
        link = below
    is_bond = link.bond is not None or link.kind == "bond" or "MASTER" in link.flags
    if not is_bond and not bonded(link):
        other = f", master {link.master}" if link.master else ""
        return Judged(Status.PASS, f"{link.name} is in no bond{other}", (at(links, link.line),))
    name = link.name if is_bond else link.master
    master = find_link(links, name)
    ports = [item for item in links.links if item.master == name]
    actual = f"{name}: {', '.join(item.name for item in ports) or 'its ports are not listed'}"
    proof = tuple(at(links, item.line) for item in (link, *ports)[:3])
    return _lag(links, master, ports, actual, proof)


def _lag(
    links: IpLinks,
    master: IpLink | None,
    ports: list[IpLink],
    actual: str,
    proof: tuple[Evidence, ...],
) -> Judged:
    cards = {item.parentdev.rpartition(".")[0] for item in ports if item.parentdev}
    dead = [item.name for item in ports if not item.carrier]
    if len(cards) > 1 or len(ports) > 2:
        return Judged(Status.FAIL, f"{actual}: more than one card", proof)
    if dead:
        return Judged(Status.FAIL, f"{actual}: {', '.join(dead)} without carrier", proof)
    if master is None or master.bond is None or not links.complete or len(ports) != 2:
        remedy = "record `ip -j -d link show`"
        return Judged(Status.UNKNOWN, f"{actual}: not all of the bond is told", proof, remedy)
    if master.bond.mode not in _LAG_MODES:
        why = f"mode {master.bond.mode} carries no RoCE"
        return Judged(Status.FAIL, f"{actual}: {why}", proof)
    if any(item.parentdev is None for item in ports):
        remedy = "record `ip -j -d link show`: parentdev tells the card"
        return Judged(Status.UNKNOWN, f"{actual}: of which card is not told", proof, remedy)
    if not master.bond.miimon_ms:
        remedy = "set miimon 100: the bond does not notice a dead link"
        return Judged(Status.WARN, f"{actual}: one card, but miimon 0", proof, remedy)
    return Judged(Status.PASS, f"{actual}: the two ports of one card", proof)


def _no_switch(spec: Target) -> str:
    """Why no PCIe switch can be between GPU and NIC, or nothing."""
    if spec.fabric.imex.value:
        return f"a tray of a rack: its GPUs hang on the processor ({spec.fabric.imex.source})"
    return no_fabric(spec)


@check(
    "topo.rails",
    phases=(Phase.ROCE,),
    title="every GPU has a NIC behind the same PCIe switch",
    remedy="compare the slots of the NICs with the vendor's drawing; in a VM pass the topology "
    "through; NODE or PHB: traffic goes through the processor",
    subjects=every_gpu,
    not_applicable=_no_switch,
)
def rails(topo: Topology, ports: RdmaPorts | Missing, spec: Target) -> Iterator[Finding]:
    """GPU to NIC in ``nvidia-smi topo -m``: PIX or PXB for at least one compute NIC.

    Unlike between GPUs, PIX is what you want here: GPUDirect then stays inside the PCIe switch.
    Only SYS means that every NIC is on the other socket: the wrong rail. NICn is the tool's number;
    the legend says which RDMA device it is. Without rails every NIC but bonds counts. Where the
    site has fewer rails than GPUs, those without one are a warning.
    """
    expected = "PIX or PXB to a compute NIC"
    names, lost = _nic_columns(topo, ports, spec)
    for index in range(spec.gpu.number):
        row = topo.row(f"GPU{index}")
        if row is None or not names or lost:
            actual = lost or ("not in the matrix" if row is None else "no NIC columns")
            line = row.line if row else 0
            remedy = "record the whole of `nvidia-smi topo -m`, with the NIC legend below it"
            proof = (at(topo, line),)
            yield Finding(gpu(index), Status.UNKNOWN, expected, actual, proof, remedy)
        else:
            few = 0 < len(spec.site.rails) < spec.gpu.number
            yield _near(topo, row, names, index, expected, few)


def _nic_columns(topo: Topology, ports: RdmaPorts | Missing, spec: Target) -> tuple[list[str], str]:
    """Columns of compute NICs; and why they cannot be told, or nothing."""
    devices = {nic: topo.nic_names.get(nic, "" if nic.startswith("NIC") else nic)
               for nic in topo.nics}  # fmt: skip
    if spec.site.rails:
        wanted = {rail.rdma_device for rail in spec.site.rails}
        if topo.nics and not all(devices.values()):
            return [], "the NIC legend is missing"
        mine = [nic for nic, device in devices.items() if device in wanted]
        missing = sorted(wanted - set(devices.values()))
        if topo.nics and missing:
            return mine, "" if mine else f"no column of {', '.join(missing[:4])}"
        return mine, ""
    known = () if isinstance(ports, Missing) else ports.ports
    bridges = {port.device for port in known if is_bridge(port, spec)}
    return [n for n, d in devices.items() if "bond" not in d and d not in bridges], ""


def _near(
    topo: Topology, row: TopologyRow, names: list[str], index: int, expected: str, few: bool
) -> Finding:
    """``few``: the site has fewer rails than GPUs, so that some GPU has none of its own."""
    cells = {name: row.cells[name] for name in names if name in row.cells}
    near = [name for name, cell in cells.items() if cell in ("PIX", "PXB")]
    proof = (at(topo, row.line),)
    if near:
        shown = ", ".join(f"{n} {topo.nic_names.get(n, '')} {cells[n]}".replace("  ", " ")
                          for n in near[:4])  # fmt: skip
        return Finding(gpu(index), Status.PASS, expected, shown, proof)
    best = sorted(set(cells.values()))
    actual = f"only {', '.join(best)}" if best else "no cell of a compute NIC"
    if len(cells) < len(names):
        return Finding(gpu(index), Status.UNKNOWN, expected, f"{actual}; the row is cut", proof)
    if few:
        return Finding(gpu(index), Status.WARN, expected, f"{actual}: fewer rails than GPUs", proof)
    far = set(best) == {"SYS"}
    return Finding(gpu(index), Status.FAIL if far else Status.WARN, expected, actual, proof)


@check(
    "roce.lldp",
    phases=(Phase.ROCE,),
    title="every rail is cabled to one switch port",
    remedy="no neighbour: LLDP off on the switch port, or the card's firmware keeps the frames "
    "(mlxconfig LLDP_NB_RX_MODE and LLDP_NB_TX_MODE to OFF); two: a cable or bridge too many",
    subjects=every_rail,
    not_applicable=no_roce,
)
def lldp(seen: LldpNeighbours, found: RdmaPorts | Missing, spec: Target) -> Iterator[Finding]:
    """Neighbours of each compute interface: exactly one that is a switch.

    A neighbour that is only a station is another server, whose NIC answers for itself: no leaf.
    The same port name on different leaves is how rails are cabled; the same port of the same switch
    behind two rails is not possible with one cable each.
    """
    used: dict[tuple[str, str], list[str]] = {}
    for item in seen.neighbours:
        if _is_switch(item.capabilities) and item.port_id:
            key = (item.chassis_id or item.system_name or "", item.port_id)
            used.setdefault(key, []).append(item.interface)
    expected = "one switch neighbour"
    yield from each_nic(spec, found, expected, lambda nic: _cabled(nic, seen, used))


def _is_switch(capabilities: tuple[str, ...]) -> bool:
    """A server with bridges (containers) says Bridge too, beside Station."""
    return "Station" not in capabilities and any(
        word in ("Bridge", "Router") for word in capabilities
    )


def _cabled(nic: Nic, seen: LldpNeighbours, used: dict[tuple[str, str], list[str]]) -> Judged:
    if nic.netdev is None:
        remedy = "record `ibdev2netdev`, or declare the node's rails in the inventory"
        why = f"which interface {nic.device} has is not told"
        return Judged(Status.UNKNOWN, why, (at(seen),), remedy)
    base = nic.netdev.partition(".")[0]
    mine = [item for item in seen.neighbours if item.interface in (nic.netdev, base)]
    # The same switch may speak CDP too, with other names for itself and its port.
    plain = [item for item in mine if (item.via or "LLDP").upper() == "LLDP"]
    mine = plain or mine
    switches = {
        (item.chassis_id or item.system_name or "", item.port_id or ""): item
        for item in mine
        if _is_switch(item.capabilities)
    }
    proof = tuple(at(seen, item.line) for item in mine[:3]) or (at(seen),)
    shown = ", ".join(
        f"{i.system_name or i.chassis_id} {i.port_id or ''}".strip() for i in switches.values()
    )
    if len(switches) > 1:
        return Judged(Status.FAIL, f"{len(switches)} switch ports: {shown}", proof)
    if not switches and any("Station" in item.capabilities for item in mine):
        names = ", ".join(item.system_name or item.chassis_id or "unnamed" for item in mine[:4])
        return Judged(Status.FAIL, f"no switch, but a server: {names}", proof)
    if not switches:
        why = "a neighbour that does not say what it is" if mine else "no neighbour"
        return Judged(Status.UNKNOWN, f"{nic.netdev}: {why}", proof)
    twice = [name for name in used.get(next(iter(switches)), ()) if name not in (nic.netdev, base)]
    if twice:
        return Judged(Status.FAIL, f"{shown}, where {', '.join(twice)} is too", proof)
    return Judged(Status.PASS, shown, proof)


CHECKS: tuple[Check, ...] = (bond, rails, lldp)
