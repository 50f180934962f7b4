"""The compute NICs themselves: are they up, of the right link layer, as fast as planned?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.rails import (
    DECLARE,
    Judged,
    Nic,
    at_speed,
    candidates,
    down,
    every_rail,
    evidence,
    is_bridge,
    listed,
    nic_of,
    no_fabric,
    speed_of,
    wanted_layer,
)
from fabric_tools.checks.registry import NODE, Check, Finding, at, check
from fabric_tools.models.fabric_ports import FabricPort, RdmaPorts
from fabric_tools.models.inventory import Rail
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_TYPED = "record `ibstat`: it tells the chip of each port"


def _rails(spec: Target, found: RdmaPorts) -> Iterator[tuple[Rail, Nic]]:
    for rail in spec.site.rails:
        yield rail, nic_of(rail, found)


def _lost(nic: Nic, found: RdmaPorts) -> Judged:
    status = Status.FAIL if nic.gone else Status.UNKNOWN
    return Judged(status, nic.missing, (at(found),))


@check(
    "nic.ports",
    phases=(Phase.ROCE,),
    title="every compute port is up",
    remedy="Polling: no light from the other side, look at cable, optics and switch port; "
    "Disabled: `ip link set IFACE up`, or `mlxlink -d DEV -p 1` for the reason",
    subjects=every_rail,
    not_applicable=no_fabric,
)
def ports(found: RdmaPorts, spec: Target) -> Iterator[Finding]:
    """Port state of every rail of the inventory, by its RDMA device; that the device has the netdev
    which the inventory gives it. Fewer rails than the platform file has compute ports: a warning.

    Without rails, but with a platform file that knows its compute ports: at least that many active
    ports of at least their speed, of the site's link layer. A DGX has storage ports beside them, so
    any other active port proves nothing. With neither: no active port at all is a failure, anything
    else cannot be told. The ports of a B200 or B300 board that lead to its NVSwitches (ConnectX-7,
    InfiniBand, always active) are no network, nor is a bond of the front end.
    """
    if not spec.site.rails:
        yield _count(found, spec)
        return
    count = spec.nic.count.value
    if count is not None and len(spec.site.rails) < count:
        yield _unnamed(found, spec, count)
    for rail, nic in _rails(spec, found):
        judged = _up(rail, nic, found)
        yield Finding(
            rail.name, judged.status, f"{rail.rdma_device} active", judged.actual, judged.evidence,
            judged.remedy,
        )  # fmt: skip


def _unnamed(found: RdmaPorts, spec: Target, count: int) -> Finding:
    """Fewer rails than the vendor builds in: a port that none of them names may be a dead NIC."""
    named = {rail.rdma_device for rail in spec.site.rails}
    dead = [p for p in candidates(found, spec) if p.device not in named and p.active is False]
    actual = f"{len(spec.site.rails)} rails of {count} compute ports are declared"
    actual += f"; named by no rail: {', '.join(map(down, dead[:8]))}" if dead else ""
    return Finding(
        NODE, Status.WARN, f"{count} rails", actual, evidence(found, *dead), DECLARE
    )  # fmt: skip


def _up(rail: Rail, nic: Nic, found: RdmaPorts) -> Judged:
    port = nic.port
    if port is None:
        return _lost(nic, found)
    proof = evidence(found, port)
    actual = down(port)
    if port.active is None:
        return Judged(Status.UNKNOWN, actual, proof)
    if not port.active:
        return Judged(Status.FAIL, actual, proof)
    base = rail.netdev.partition(".")[0]
    if port.netdev is not None and port.netdev not in (rail.netdev, base):
        actual += f", but its interface is {port.netdev}, not {rail.netdev}"
        remedy = "correct the rail in the inventory, or the names of the interfaces (udev, netplan)"
        return Judged(Status.FAIL, actual, proof, remedy)
    return Judged(Status.PASS, f"{actual}, {port.netdev or 'interface not told'}", proof)


def _count(found: RdmaPorts, spec: Target) -> Finding:
    count, speed = spec.nic.count.value, spec.nic.port_gbits_s.value
    layer = wanted_layer(spec)
    able = candidates(found, spec)
    active = [port for port in able if port.active]
    dead = [port for port in able if port.active is False]
    silent = [port for port in able if port.active is None]
    bridges = [port for port in found.ports if is_bridge(port, spec)]
    actual = f"{len(active)} active" + (f": {listed(active)}" if active else "")
    actual += f"; {', '.join(map(down, dead[:8]))}" if dead else ""
    if len(dead) > 8:
        actual += f" and {len(dead) - 8} more"
    actual += f"; state of {listed(silent)} not told" if silent else ""
    actual += f"; {listed(bridges)} lead to NVSwitches, not to a network" if bridges else ""
    proof = evidence(found, *(dead or active))
    if count is None:
        expected = "the ports of the declared rails active"
        told = any(port.active is not None for port in able) or found.complete
        none = told and not active and not silent
        status = Status.FAIL if none else Status.UNKNOWN
        return Finding(NODE, status, expected, actual, proof, DECLARE if active else "")
    expected = f"{count} ports active at {speed} Gb/s, {layer}"
    fit = [p for p in active if p.link_layer in (layer, None) and at_speed(p, speed) is not False]
    sure = [port for port in fit if port.link_layer == layer and at_speed(port, speed)]
    if len(sure) >= count and not dead and not silent:
        return Finding(NODE, Status.PASS, expected, actual, evidence(found, *sure))
    if len(sure) >= count:
        # One that is down may be a compute port, and one that is up a spare or a storage port.
        actual += "; which of them are compute ports is not declared"
        return Finding(NODE, Status.UNKNOWN, expected, actual, proof, DECLARE)
    wrong = [port for port in active if port not in fit]
    if wrong:
        shown = ", ".join(
            f"{p.name} {p.link_layer or ''} {p.rate_gbits_s or 0:g} Gb/s" for p in wrong[:8]
        )
        actual += f"; not counted: {shown}"
    unsure = len(fit) >= count or not found.complete or any(p.active is None for p in able)
    return Finding(NODE, Status.UNKNOWN if unsure else Status.FAIL, expected, actual, proof)


@check(
    "nic.link_layer",
    phases=(Phase.ROCE,),
    title="the ports have the link layer of the site's fabric",
    remedy="first make sure which fabric this site has, and declare it (inventory: profile.fabric; "
    "RoCE is assumed); then `mlxconfig -d DEV set LINK_TYPE_P1=2` for Ethernet (1: InfiniBand) and "
    "a power cycle",
    subjects=every_rail,
    not_applicable=no_fabric,
)
def link_layer(found: RdmaPorts, spec: Target) -> Iterator[Finding]:
    """Ethernet where the site says RoCE, InfiniBand where it says InfiniBand.

    ConnectX cards are sold with InfiniBand as the default; until they are switched over, no port
    comes up on an Ethernet switch, and RoCE has no GID. Without rails a storage port of the other
    kind is no fault as long as the platform's number of compute ports is right.
    """
    layer = wanted_layer(spec)
    if spec.site.rails:
        for rail, nic in _rails(spec, found):
            judged = _layer(nic, found, layer)
            yield Finding(rail.name, judged.status, layer, judged.actual, judged.evidence)
        return
    able = candidates(found, spec)
    wrong = [port for port in able if port.link_layer not in (layer, None)]
    right = [port for port in able if port.link_layer == layer]
    untold = [port for port in able if port.link_layer is None]
    count, speed = spec.nic.count.value, spec.nic.port_gbits_s.value
    ready = [port for port in right if port.active and at_speed(port, speed)]
    actual = f"{len(right)} {layer}" + (f": {listed(right)}" if right else "")
    if wrong:
        actual += f"; {', '.join(f'{p.name} {p.link_layer}' for p in wrong[:8])}"
    proof, remedy = evidence(found, *(wrong or right)), ""
    chips = spec.fabric.subnet_manager.value and any(p.device_type is None for p in wrong)
    if count is not None and len(ready) >= count:
        status = Status.PASS
    elif wrong and chips:
        status, remedy = Status.UNKNOWN, _TYPED
        actual += "; some may be ports of the NVSwitches"
    elif wrong and (count is not None or not right):
        status = Status.FAIL
    elif wrong or untold or not right:
        status, remedy = Status.UNKNOWN, DECLARE if wrong else ""
    else:
        status = Status.PASS if found.complete else Status.UNKNOWN
    yield Finding(NODE, status, layer, actual, proof, remedy)


def _layer(nic: Nic, found: RdmaPorts, layer: str) -> Judged:
    if nic.port is None:
        return Judged(Status.UNKNOWN, nic.missing, (at(found),), "see nic.ports")
    proof = evidence(found, nic.port)
    actual = f"{nic.port.name} {nic.port.link_layer or 'link layer not told'}"
    if nic.port.link_layer is None:
        return Judged(Status.UNKNOWN, actual, proof)
    return Judged(Status.PASS if nic.port.link_layer == layer else Status.FAIL, actual, proof)


@check(
    "nic.speed",
    phases=(Phase.ROCE,),
    title="every compute port runs at its full rate",
    remedy="a lower rate is agreed with the switch: compare cable or optics (a 400G port with a "
    "200G cable), the switch port's speed and breakout, `mlxlink -d DEV -p 1`",
    subjects=every_rail,
    not_applicable=no_fabric,
)
def speed(found: RdmaPorts, spec: Target) -> Iterator[Finding]:
    """Rate of each active port against ``port_gbits_s`` of its rail, else of the platform file.

    A 400G port on a 100G leaf comes up without complaint, and a collective is as fast as its
    slowest rail. The rate of a port that is down says nothing (tools print 10 or 40).
    """
    if spec.site.rails:
        for rail, nic in _rails(spec, found):
            want = speed_of(rail, spec)
            judged = _rate(nic, found, want)
            expected = f"{want} Gb/s" if want is not None else "the planned rate"
            yield Finding(
                rail.name, judged.status, expected, judged.actual, judged.evidence, judged.remedy
            )
        return
    yield _rates(found, spec)


def _gbits(port: FabricPort) -> str:
    rate = port.rate_gbits_s
    return f"{port.name} {rate:g} Gb/s" if rate is not None else f"{port.name} rate not told"


def _rate(nic: Nic, found: RdmaPorts, want: int | None) -> Judged:
    if nic.port is None:
        return Judged(Status.UNKNOWN, nic.missing, (at(found),), "see nic.ports")
    proof = evidence(found, nic.port)
    if not nic.port.active:
        return Judged(Status.UNKNOWN, down(nic.port), proof, "bring the port up: see nic.ports")
    if want is None:
        actual = (
            f"{_gbits(nic.port)}, and neither rail nor platform file says how much it should be"
        )
        return Judged(Status.UNKNOWN, actual, proof, "set port_gbits_s of the rail")
    good = at_speed(nic.port, want)
    if good is None:
        return Judged(Status.UNKNOWN, _gbits(nic.port), proof, "record `ibstat`: it tells the rate")
    return Judged(Status.PASS if good else Status.FAIL, _gbits(nic.port), proof)


def _rates(found: RdmaPorts, spec: Target) -> Finding:
    count, want = spec.nic.count.value, spec.nic.port_gbits_s.value
    active = [p for p in candidates(found, spec) if p.active]
    shown = ", ".join(map(_gbits, active[:16])) or "no active port"
    if count is None or want is None:
        proof = evidence(found, *active)
        return Finding(NODE, Status.UNKNOWN, "the planned rate", shown, proof, DECLARE)
    fast = [port for port in active if at_speed(port, want)]
    slow = [port for port in active if at_speed(port, want) is False]
    expected = f"{count} ports at {want} Gb/s"
    proof = evidence(found, *(slow or active))
    others = [port for port in candidates(found, spec) if port not in fast]
    if len(fast) >= count:
        status = Status.UNKNOWN if others else Status.PASS
        remedy = DECLARE if others else ""
        shown += f"; not at it: {listed(others)}" if others else ""
        return Finding(NODE, status, expected, shown, evidence(found, *(others or fast)), remedy)
    if len(fast) + len(slow) < len(active):
        remedy = "record `ibstat`: it tells the rate"
        return Finding(NODE, Status.UNKNOWN, expected, shown, proof, remedy)
    dead = sum(1 for port in candidates(found, spec) if port.active is False)
    if slow and len(active) >= count and len(fast) + dead < count:
        # Where enough ports are down, the slow ones may be meant for something else.
        return Finding(NODE, Status.FAIL, expected, shown, proof)
    remedy = "bring the ports up: see nic.ports"
    return Finding(NODE, Status.UNKNOWN, expected, shown, proof, remedy)


CHECKS: tuple[Check, ...] = (ports, link_layer, speed)
