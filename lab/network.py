"""Networks of the lab, of plain bridges and veth pairs.

Each node's network namespace belongs to a container of its own that only waits, so that it
outlives a reboot of the node. The host gets one bridge with one address for management; the switch
of the rails lives in the namespace of the mirror. No sysctl, no firewall rule and no network of the
engine is made.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from dataclasses import dataclass

from lab.errors import LabError
from lab.places import on_host
from lab.run import run

#: A name of an interface has fifteen characters at most.
_SHORT = hashlib.sha256(on_host().encode()).hexdigest()[:4]
BRIDGE = f"fab{_SHORT}"
RAILS = 8
RAIL_MTU = 9000


@dataclass(frozen=True)
class Plan:
    """The management network: host .1, mirror .2, nodes from .11 on."""

    subnet: ipaddress.IPv4Network

    def address(self, number: int) -> str:
        """The address of a machine on the management network."""
        return str(self.subnet[number])

    def with_prefix(self, number: int) -> str:
        """The same with the prefix length."""
        return f"{self.subnet[number]}/{self.subnet.prefixlen}"


def rail_address(rail: int, node: int) -> str:
    """``10.90.RAIL.NODE``: a subnet a rail."""
    return f"10.90.{rail}.{node}"


def free_plan() -> Plan:
    """The first subnet of 10.89.80.0/24 and following that no route of the host knows."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]).stdout or "[]")
    known = []
    for route in routes:
        if route["dst"] != "default" and route.get("type", "unicast") == "unicast":
            known.append(ipaddress.ip_network(route["dst"], strict=False))
    for third in range(80, 120):
        subnet = ipaddress.IPv4Network(f"10.89.{third}.0/24")
        if not any(subnet.overlaps(net) for net in known):
            return Plan(subnet)
    raise LabError("no free subnet in 10.89.80.0 to 10.89.119.0")


def ip(*argv: str, pid: int | None = None) -> None:
    """``ip ARGV``, in the network namespace of a process where one is given."""
    inside = ["nsenter", "-t", str(pid), "-n"] if pid else []
    run([*inside, "ip", *argv], timeout_s=20)


def make_bridge(plan: Plan) -> None:
    """The bridge on the host, with the host's address."""
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("addr", "add", plan.with_prefix(1), "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


def remove_bridge() -> None:
    """Take the bridge away and the pairs of its ports.

    They would go with their containers, but later: a lab made right away finds their names in use.
    """
    links = json.loads(run(["ip", "-j", "link", "show"]).stdout or "[]")
    for name in (link["ifname"] for link in links):
        if name == BRIDGE or name.startswith(f"{BRIDGE}-"):
            run(["ip", "link", "del", name], check=False)


def plug_management(plan: Plan, pid: int, number: int) -> None:
    """``eth0`` in the namespace of ``pid``, on the host's bridge."""
    port = f"{BRIDGE}-{number}"
    ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", port, "master", BRIDGE, "up")
    ip("link", "set", "lo", "up", pid=pid)
    ip("addr", "add", plan.with_prefix(number), "dev", "eth0", pid=pid)
    ip("link", "set", "eth0", "up", pid=pid)
    ip("route", "add", "default", "via", plan.address(1), pid=pid)


def plug_rails(switch: int, pid: int, number: int) -> None:
    """``rail0`` to ``rail7`` of a node, each on a bridge of its own in the switch's namespace."""
    inside, outside = [], []
    for rail in range(RAILS):
        port = f"n{number}r{rail}"
        outside += [
            f"link add {port} mtu {RAIL_MTU} type veth peer name rail{rail} netns {pid}",
            f"link set {port} master br-rail{rail} up",
        ]
        inside += [
            f"link set rail{rail} mtu {RAIL_MTU} up",
            f"addr add {rail_address(rail, number)}/24 dev rail{rail}",
        ]
    _batch(switch, outside)
    _batch(pid, inside)


def make_switch(pid: int) -> None:
    """Bridges for the rails, in the namespace of ``pid``."""
    lines = []
    for rail in range(RAILS):
        lines += [
            f"link add br-rail{rail} type bridge",
            f"link set br-rail{rail} mtu {RAIL_MTU} up",
        ]
    _batch(pid, lines)


def _batch(pid: int, lines: list[str]) -> None:
    run(["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
