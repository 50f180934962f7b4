"""The lossless class: trust, PFC and the priority of RoCE on every compute NIC."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.rails import DECLARE, Judged, Nic, each_nic, every_rail, nics_of, no_roce
from fabric_tools.checks.registry import NODE, Check, Finding, at, check
from fabric_tools.models.fabric_ports import PortQos, QosByPort, RdmaPorts
from fabric_tools.models.inventory import Qos
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


@check(
    "roce.qos",
    phases=(Phase.ROCE,),
    title="trust and PFC are as the site's lossless class needs",
    remedy="`mlnx_qos -i IFACE --trust=dscp --pfc=0,0,0,1,0,0,0,0` (inbox: `dcb app`, `dcb pfc`), "
    "and at every boot; if the site's class is another one, declare profile.qos in the inventory",
    subjects=every_rail,
    not_applicable=no_roce,
)
def qos(found: QosByPort, ports: RdmaPorts | Missing, spec: Target) -> Iterator[Finding]:
    """Trust, PFC and the priority of the RoCE DSCP on every compute NIC, against profile.qos.

    Hosts and switches must agree: PFC on one priority only (3 by default), DSCP 26 in it, and the
    port trusting DSCP. On any other priority RoCE packets are dropped under load. Settings of
    mlnx_qos and of dcb are read together, and must be the same. A port under DCBX of the firmware
    may be changed by its switch: a warning. Where the inventory does not declare its class and a
    port has another one that is sound in itself, that cannot be told from a mistake.
    """
    want = spec.site.profile.qos
    declared = "qos" in spec.site.profile.model_fields_set
    expected = f"trust {want.trust}, PFC on priority {want.pfc_priority} only"
    if want.trust == "dscp":
        expected += f", DSCP {want.dscp} in it"
    if not spec.site.rails and (isinstance(ports, Missing) or not nics_of(spec, ports)):
        yield _unassigned(found, want, declared, expected)
        return
    yield from each_nic(spec, ports, expected, lambda nic: _qos(nic, found, want, declared))


def _unassigned(found: QosByPort, want: Qos, declared: bool, expected: str) -> Finding:
    """Nobody tells which interfaces are compute NICs: wrong on all that were saved is wrong."""
    names = dict.fromkeys(item.netdev for item in found.settings)
    judged = [
        _settled([item for item in found.settings if item.netdev == name], want, declared)
        for name in names
    ]
    bad = [item for item in judged if item.status is Status.FAIL]
    shown = bad or judged
    actual = "; ".join(
        f"{name or 'unnamed interface'}: {item.actual}"
        for name, item in zip(names, judged, strict=True)
        if item in shown
    )
    proof = tuple(place for item in shown[:3] for place in item.evidence[:1])
    if len(bad) == len(judged):
        return Finding(NODE, Status.FAIL, expected, actual[:500], proof, bad[0].remedy)
    actual = f"{actual[:400]}; which interfaces are compute NICs is not told"
    return Finding(NODE, Status.UNKNOWN, expected, actual, proof, DECLARE)


def _qos(nic: Nic, found: QosByPort, want: Qos, declared: bool) -> Judged:
    # A VLAN has no class of its own: that of the interface below it counts.
    names = (nic.netdev, nic.netdev.partition(".")[0]) if nic.netdev else ()
    mine = [item for item in found.settings if item.netdev in names]
    if not mine:
        unnamed = [item for item in found.settings if item.netdev is None]
        named = ", ".join(sorted({item.netdev for item in found.settings if item.netdev})[:8])
        why = f"nothing of {nic.netdev or nic.device}" + (f", only of {named}" if named else "")
        if unnamed:
            why += "; a text without an interface name"
        proof = tuple(Evidence(probe=i.probe, line=i.line) for i in unnamed[:1]) or (at(found),)
        remedy = "save it with the name: `mlnx_qos -i IFACE` under a line `==> IFACE <==`"
        return Judged(Status.UNKNOWN, why, proof, remedy)
    return _settled(mine, want, declared)


def _settled(mine: list[PortQos], want: Qos, declared: bool) -> Judged:
    """One interface, by all that the tools said of it."""
    proof = tuple(Evidence(probe=item.probe, line=item.line) for item in mine[:3])
    wrong, other = _wrong(mine, want)
    trust, pfc = _first(mine, "trust"), _first(mine, "pfc")
    actual = f"trust {trust or 'not told'}, PFC {_priorities(pfc)}"
    if wrong:
        actual = f"{actual}: {'; '.join(wrong)}"
        if other and not declared:
            remedy = "declare the site's class: profile.qos in the inventory; else set the port"
            return Judged(Status.UNKNOWN, actual, proof, remedy)
        return Judged(Status.FAIL, actual, proof)
    refused = next((item.refused for item in mine if item.refused), "")
    if refused:
        return Judged(Status.UNKNOWN, f"not understood: {refused}", proof)
    if trust is None or pfc is None:
        remedy = "record `mlnx_qos -i IFACE`; with iproute2 both `dcb pfc` and `dcb app`"
        return Judged(Status.UNKNOWN, actual, proof, remedy)
    if want.trust == "dscp" and not any(item.dscp_prio and want.dscp in item.dscp_prio
                                        for item in mine):  # fmt: skip
        actual += f", but no table shows in which class DSCP {want.dscp} is"
        remedy = "record the whole of `mlnx_qos -i IFACE`; with iproute2 `dcb app show dev IFACE`"
        return Judged(Status.UNKNOWN, actual, proof, remedy)
    if not all(item.whole for item in mine):
        return Judged(Status.UNKNOWN, f"{actual}, but the text is cut", proof)
    if any(item.willing for item in mine):
        remedy = "`mlnx_qos -i IFACE -d os`, or set LLDP_NB_* off in the firmware (mlxconfig)"
        return Judged(Status.WARN, f"{actual}, but DCBX is firmware controlled", proof, remedy)
    return Judged(Status.PASS, actual, proof)


def _first(mine: list[PortQos], name: str) -> object:
    return next((v for item in mine if (v := getattr(item, name)) is not None), None)


def _priorities(pfc: object) -> str:
    if not isinstance(pfc, tuple):
        return "not told"
    return f"on {', '.join(map(str, pfc))}" if pfc else "off"


def _wrong(mine: list[PortQos], want: Qos) -> tuple[list[str], bool]:
    """What is not as wanted; and whether it would be sound for another class than that."""
    wrong: list[str] = []
    told = {name: {getattr(i, name) for i in mine if getattr(i, name) is not None}
            for name in ("trust", "pfc")}  # fmt: skip
    for name, values in told.items():
        if len(values) > 1:
            wrong.append(f"the tools differ on {name}")
    alike = not wrong
    if any(value != want.trust for value in told["trust"]):
        wrong.append(f"trust is not {want.trust}")
    lists = told["pfc"]
    if any(value != (want.pfc_priority,) for value in lists):
        wrong.append(f"PFC is not on {want.pfc_priority} only")
    trusted = told["trust"] == {"dscp"}
    misplaced = _misplaced(mine, want)
    lossless = {value[0] for value in lists if len(value) == 1}
    sound = len(lists) == len(lossless) == 1 and all(
        lossless & set(item.dscp_prio.values()) for item in mine if item.dscp_prio
    )
    # The class is the wanted one, and only its DSCP is not in it: that is no other class.
    sound = sound and (bool(wrong) or not misplaced)
    return list(dict.fromkeys([*wrong, *misplaced])), alike and trusted and sound


def _misplaced(mine: list[PortQos], want: Qos) -> list[str]:
    """Tables that have the DSCP in another priority, or, where they are whole, in none.

    What ``dcb app`` does not list goes to the default priority, which is not the lossless one.
    """
    said: list[str] = []
    for item in mine if want.trust == "dscp" else ():
        if item.dscp_prio is None:
            continue
        priority = item.dscp_prio.get(want.dscp)
        if priority is None and item.whole:
            said.append(f"DSCP {want.dscp} is in no class")
        elif priority is not None and priority != want.pfc_priority:
            said.append(f"DSCP {want.dscp} is in priority {priority}")
    return said


CHECKS: tuple[Check, ...] = (qos,)
