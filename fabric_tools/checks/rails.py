"""Which ports of a node are its compute network: what the checks of nic and roce share.

The inventory's rails say it exactly. Without them the platform file may know how many ports of
which speed the vendor builds in; where it does not, nobody can tell a compute port from a storage
port, and a check says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fabric_tools.checks.registry import NODE, Finding, at
from fabric_tools.models.base import Fact
from fabric_tools.models.fabric_ports import FabricPort, RdmaPorts
from fabric_tools.models.inventory import Rail
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing

DECLARE = "declare the node's rails in the inventory (netdev, rdma_device, address)"
#: ConnectX-7: on HGX B200 and B300 it is also the bridge to the NVSwitches.
_BRIDGE_CHIP = "MT4129"
#: Rate of such a bridge port (ibstat of a B300: 100); a compute port of these boards has 400 up.
_BRIDGE_GBITS_S = 200
#: RDMA without a NIC behind it: soft RoCE and soft iWARP.
_SOFT = ("rxe", "siw")


def every_rail(spec: Target) -> tuple[str, ...]:
    """The declared rails by name; the node as a whole where none are declared."""
    return tuple(dict.fromkeys(rail.name for rail in spec.site.rails)) or (NODE,)


def no_fabric(spec: Target) -> str:
    """Why a check of the network does not apply: the site has none.

    The default is roce, so that "none" always comes from the inventory.
    """
    if spec.site.profile.fabric != "none":
        return ""
    return "the site has no RDMA network (inventory: profile.fabric is none)"


def no_roce(spec: Target) -> str:
    """The same for checks of RoCE."""
    if spec.site.profile.fabric == "infiniband":
        return "the network is InfiniBand (inventory: profile.fabric)"
    return no_fabric(spec)


def wanted_layer(spec: Target) -> str:
    """The link layer that the site's fabric has, as the tools print it."""
    return "InfiniBand" if spec.site.profile.fabric == "infiniband" else "Ethernet"


def evidence(fact: Fact | Missing, *places: FabricPort) -> tuple[Evidence, ...]:
    """The lines of these ports; the probe as a whole where there are none."""
    shown = tuple(
        Evidence(probe=place.probe or fact.probe, line=place.line) for place in places[:4]
    )
    return shown or (at(fact),)


def is_bridge(port: FabricPort, spec: Target) -> bool:
    """Whether this port leads to the NVSwitches of the board, not to a network.

    NVLink 5 boards (those with a subnet manager of their own) manage their switches over InfiniBand
    ports of ConnectX-7 chips: active with a LID, at a fraction of the rate of a compute port.
    """
    return (
        spec.fabric.subnet_manager.value
        and port.device_type == _BRIDGE_CHIP
        and port.link_layer == "InfiniBand"
        and port.active is True  # one that is down may be a compute port without its cable
        and port.rate_gbits_s is not None
        and port.rate_gbits_s < _BRIDGE_GBITS_S
    )


def candidates(found: RdmaPorts, spec: Target) -> list[FabricPort]:
    """Ports that may be compute ports: no bridge to NVSwitches, no bond, no software device."""
    return [
        port
        for port in found.ports
        if not is_bridge(port, spec)
        and "bond" not in port.device
        and not port.device.startswith(_SOFT)
    ]


def speed_of(rail: Rail | None, spec: Target) -> int | None:
    """The rate that the plan, else the platform file, says: Gb/s of one port."""
    if rail is not None and rail.port_gbits_s is not None:
        return rail.port_gbits_s
    return spec.nic.port_gbits_s.value


def at_speed(port: FabricPort, speed: int | None) -> bool | None:
    """Whether an active port has at least this rate; None where it is not told."""
    if speed is None or port.rate_gbits_s is None:
        return None
    return port.rate_gbits_s >= speed


def listed(ports: Sequence[FabricPort]) -> str:
    """Their names, not more than fit a line."""
    names = [port.name for port in ports]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def down(port: FabricPort) -> str:
    """``mlx5_3 Down (Disabled)``."""
    physical = f" ({port.physical_state})" if port.physical_state else ""
    return f"{port.name} {port.state or 'state not told'}{physical}"


@dataclass(frozen=True, slots=True)
class Nic:
    """One compute NIC as a check looks at it: by its rail, or by its port where none is declared.

    ``missing``: why the port of a rail was not found; ``gone`` where the list of ports was whole,
    so that it is really not there.
    """

    name: str
    device: str
    netdev: str | None
    port: FabricPort | None = None
    rail: Rail | None = None
    missing: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What a check says of one NIC."""

    status: Status
    actual: str
    evidence: tuple[Evidence, ...]
    remedy: str = ""


def nic_of(rail: Rail, found: RdmaPorts | Missing) -> Nic:
    """The NIC of a declared rail."""
    lost = Nic(rail.name, rail.rdma_device, rail.netdev, rail=rail)
    if isinstance(found, Missing):
        return Nic(rail.name, rail.rdma_device, rail.netdev, rail=rail, missing=found.reason)
    mine = [port for port in found.ports if port.device == rail.rdma_device]
    if len(mine) > 1:
        mine = [port for port in mine if port.netdev == rail.netdev]
        why = f"which port of {rail.rdma_device} has {rail.netdev} is not told"
    else:
        why = f"no RDMA device {rail.rdma_device}" + (
            f": there are {listed(found.ports)}" if found.complete and found.ports else ""
        )
    if not mine:
        gone = found.complete and not any(p.device == rail.rdma_device for p in found.ports)
        return Nic(lost.name, lost.device, lost.netdev, rail=rail, missing=why, gone=gone)
    return Nic(rail.name, rail.rdma_device, rail.netdev, mine[0], rail)


def nics_of(spec: Target, found: RdmaPorts | Missing) -> list[Nic]:
    """Rails; without any, the ports that are up and, as far as it is told, the compute network."""
    if spec.site.rails:
        return [nic_of(rail, found) for rail in spec.site.rails]
    if isinstance(found, Missing):
        return []
    layer = wanted_layer(spec)
    ports = [
        port
        for port in candidates(found, spec)
        if port.active is not False and port.link_layer in (layer, None)
    ]
    if spec.nic.count.value is not None:
        ports = [port for port in ports if at_speed(port, spec.nic.port_gbits_s.value) is not False]
    return [Nic(port.device, port.device, port.netdev, port) for port in ports]


def each_nic(
    spec: Target,
    found: RdmaPorts | Missing,
    expected: str,
    judge: Callable[[Nic], Judged],
) -> Iterator[Finding]:
    """Judges every rail; without rails one verdict on the node from all its compute NICs."""
    nics = nics_of(spec, found)
    judged = [(nic, judge(nic)) for nic in nics]
    if spec.site.rails:
        for nic, item in judged:
            yield Finding(nic.name, item.status, expected, item.actual, item.evidence, item.remedy)
        return
    yield _whole_node(spec, found, expected, judged)


def _whole_node(
    spec: Target, found: RdmaPorts | Missing, expected: str, judged: list[tuple[Nic, Judged]]
) -> Finding:
    count = spec.nic.count.value
    if isinstance(found, Missing):
        return Finding(NODE, Status.UNKNOWN, expected, found.reason, (at(found, found.line),))
    if not judged:
        actual, remedy = "no active port to look at", "bring the ports up: see nic.ports"
        return Finding(NODE, Status.UNKNOWN, expected, actual, (at(found),), remedy)
    by_status = {
        status: [(nic, item) for nic, item in judged if item.status is status] for status in Status
    }
    bad, unsure = by_status[Status.FAIL], by_status[Status.UNKNOWN]
    odd, good = by_status[Status.WARN], by_status[Status.PASS]
    fine = len(good) + len(odd)
    # A bad one may be a compute NIC, and a good one a spare: without rails nobody can tell.
    enough = (count is None or fine >= count) and not bad and not unsure
    remedy = ""
    if enough:
        status, shown = (Status.WARN, odd) if odd else (Status.PASS, good)
    elif bad and ((count is not None and fine < count) or not (fine or unsure)):
        status, shown = Status.FAIL, bad
    else:
        status, shown = Status.UNKNOWN, bad or unsure or good
        remedy = DECLARE if bad else ""
    actual = "; ".join(f"{nic.name}: {item.actual}" for nic, item in shown[:4])
    actual += f"; and {len(shown) - 4} more" if len(shown) > 4 else ""
    if status is Status.UNKNOWN and bad:
        actual += "; whether these are compute NICs is not declared"
    elif status is Status.UNKNOWN and not unsure:
        actual = f"only {fine} of {count} compute ports can be looked at, see nic.ports"
        remedy = DECLARE
    proofs = tuple(proof for _, item in shown[:4] for proof in item.evidence[:1])
    remedy = remedy or next((item.remedy for _, item in shown if item.remedy), "")
    return Finding(NODE, status, expected, actual, proofs, remedy)
