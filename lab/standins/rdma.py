"""`ibstat` and `ibdev2netdev` of the lab's NICs. Whether a port is up is read from its interface.

Forms: ``ibstat`` of an Ethernet port (MT4127), ``ibdev2netdev`` of four RoCE ports.
"""

from __future__ import annotations

from .state import Node, PciFunction


def _up(node: Node, nic: PciFunction) -> bool:
    try:
        state = (node.root / "sys/class/net" / nic.netdev / "operstate").read_text().strip()
    except OSError:
        return False
    return state in ("up", "unknown")


def ibdev2netdev(node: Node) -> str:
    """One mapping a line."""
    return "".join(
        f"{nic.rdma} port 1 ==> {nic.netdev} ({'Up' if _up(node, nic) else 'Down'})\n"
        for nic in node.nics
    )


def ibstat(node: Node) -> str:
    """A ConnectX-7 with one Ethernet port for each NIC."""
    return "".join(_adapter(number, nic, _up(node, nic)) for number, nic in enumerate(node.nics))


def _adapter(number: int, nic: PciFunction, up: bool) -> str:
    rows = (
        f"CA '{nic.rdma}'",
        "\tCA type: MT4129",
        "\tNumber of ports: 1",
        "\tFirmware version: 28.41.1000",
        "\tHardware version: 0",
        f"\tNode GUID: 0x0200000000000{number + 1:03x}",
        f"\tSystem image GUID: 0x0200000000000{number + 1:03x}",
        "\tPort 1:",
        f"\t\tState: {'Active' if up else 'Down'}",
        f"\t\tPhysical state: {'LinkUp' if up else 'Disabled'}",
        f"\t\tRate: {400 if up else 40}",
        "\t\tBase lid: 0",
        "\t\tLMC: 0",
        "\t\tSM lid: 0",
        "\t\tCapability mask: 0x00010000",
        "\t\tPort GUID: 0x0000000000000000",
        "\t\tLink layer: Ethernet",
    )
    return "\n".join(rows) + "\n"
