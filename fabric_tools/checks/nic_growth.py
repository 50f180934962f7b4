"""Two readings of one node: which error counters of the compute ports grew between them?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.rails import every_rail, evidence, nic_of, nics_of, no_fabric
from fabric_tools.checks.registry import NODE, Check, Finding, Kind, at, check
from fabric_tools.models.fabric_ports import FabricPort, RdmaPorts
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

#: The link itself: bits were lost on the wire, or the link went down. The value is where a counter
#: of the InfiniBand PMA stops (its width, IBA 16.1.3); newer drivers count on.
_LINK = {
    "symbol_error": 65535,
    "link_downed": 255,
    "link_error_recovery": 255,
    "port_rcv_errors": 65535,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
}
#: Packets lost or asked for again: on a lossless fabric a sign that PFC or ECN does not work.
_LOSS = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "implied_nak_seq_err",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "rnr_nak_retry_err",
    "rx_icrc_encapsulated", "rx_discards", "rx_discards_phy", "tx_discards_phy",
    "port_xmit_discards", "port_rcv_remote_physical_errors", "rx_out_of_buffer", "out_of_buffer",
)  # fmt: skip
_AGAIN = "record the node's sysfs counters before and after the load with fabric-collect.pyz"


@check(
    "nic.error_growth",
    phases=(Phase.ROCE,),
    title="no error counter of a compute port grew",
    remedy="link_downed, symbol_error: clean or replace cable and optics, try another switch port; "
    "sequence errors and retransmissions: look at PFC and ECN on both ends (roce.qos)",
    subjects=every_rail,
    not_applicable=no_fabric,
    kind=Kind.DELTA,
)
def growth(before: RdmaPorts, after: RdmaPorts, spec: Target) -> Iterator[Finding]:
    """Counters of sysfs (``counters`` and ``hw_counters``) in two readings, by port.

    Absolute counts say little: they go back to the start of the driver. Growth of an error of the
    link fails; growth of lost or repeated packets warns. A counter that went down was reset, and
    one at the end of its range (link_downed 255) cannot grow: then the pair proves nothing, nor
    where the node_guid says that another NIC stands there now.
    """
    expected = "no growth"
    if spec.site.rails:
        for rail in spec.site.rails:
            old, new = nic_of(rail, before).port, nic_of(rail, after).port
            status, actual = _pair(old, new)
            proof = evidence(after, *([new] if new else []))
            remedy = _AGAIN if status is Status.UNKNOWN else ""
            yield Finding(rail.name, status, expected, actual, proof, remedy)
        return
    pairs = []
    for nic in nics_of(spec, before):
        mine = [port for port in after.ports if nic.port and port.name == nic.port.name]
        pairs.append((nic.device, *_pair(nic.port, mine[0] if mine else None)))
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)
    pairs.sort(key=lambda item: order.index(item[1]))
    if not pairs:
        actual = "no active port in the earlier reading"
        yield Finding(NODE, Status.UNKNOWN, expected, actual, (at(after),), _AGAIN)
        return
    worst = pairs[0][1]
    actual = "; ".join(f"{name}: {text}" for name, status, text in pairs[:4] if status is worst)
    remedy = _AGAIN if worst is Status.UNKNOWN else ""
    yield Finding(NODE, worst, expected, actual, (at(after),), remedy)


def _pair(old: FabricPort | None, new: FabricPort | None) -> tuple[Status, str]:
    if old is None or new is None:
        return Status.UNKNOWN, "the port is not in both readings"
    if old.node_guid and new.node_guid and old.node_guid != new.node_guid:
        return Status.UNKNOWN, f"another NIC: node_guid {old.node_guid}, now {new.node_guid}"
    watched = [name for name in (*_LINK, *_LOSS) if name in old.counters or name in new.counters]
    told = [name for name in watched if name in old.counters and name in new.counters]
    if not any(name in _LINK for name in told):
        return Status.UNKNOWN, "no counter of the link is in both readings"
    grown = {name: new.counters[name] - old.counters[name] for name in told}
    up = {name: number for name, number in grown.items() if number > 0}
    reset = [name for name, number in grown.items() if number < 0]
    full = [
        n for n in told if n in _LINK and n not in up and old.counters[n] == _LINK[n]
    ]  # fmt: skip
    shown = ", ".join(f"{name} +{number}" for name, number in list(up.items())[:5])
    if any(name in _LINK for name in up):
        return Status.FAIL, shown
    if reset:
        return Status.UNKNOWN, f"{', '.join(reset[:4])} went down: reset between the readings"
    if full:
        return Status.UNKNOWN, f"{', '.join(full)} stands at the end of its range"
    if len(told) < len(watched):
        lost = next(name for name in watched if name not in told)
        return Status.UNKNOWN, f"{lost} is in one reading only"
    if up:
        return Status.WARN, shown
    return Status.PASS, f"{len(told)} counters, none grew"


CHECKS: tuple[Check, ...] = (growth,)
