"""The node's clock: signatures, certificates and every log that is compared rest on it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.os_state import ClockTracking, TimeState
from fabric_tools.models.platform import SiteSpec
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Seconds. Choices of ours: from a tenth on, logs of two nodes can no longer be laid side by side
#: (a healthy chrony in one site stays below a hundredth); a whole second is beyond what a running
#: daemon leaves, so the clock is not being held.
WARN_S, FAIL_S = 0.1, 1.0
#: Seconds from the start of chronyd until it follows a server: four answers 2 s apart with iburst,
#: which the base phase sets, once more for a server that is slow, and the start of the network.
FOLLOWS_S = 90


@check(
    "host.time",
    phases=(Phase.BASE,),
    title="the clock is synchronised",
    remedy="look at `chronyc sources` and at the time servers of the inventory (profile."
    "time_servers); the base phase sets them",
)
def time(
    chrony: ClockTracking | Missing, state: TimeState | Missing, site: SiteSpec
) -> Iterator[Finding]:
    """chrony follows a server, and its own bound on the clock's error is small.

    The bound is chrony's: offset, root dispersion and half the root delay. It grows while no server
    answers. From 0.1 s on it is a warning, from 1 s a fault. Where there is no chrony the kernel is
    asked (timedatectl): synchronised or not, by how much and with whom is not told, so that
    declared time servers cannot be compared. A clock that follows nobody but itself is not
    synchronised. Where all declared time servers are addresses, the one that is followed must be
    among them.
    """
    expected = f"synchronised, off by less than {WARN_S} s"
    if not isinstance(chrony, Missing):
        yield _chrony(chrony, site, expected)
    elif chrony.recorded and not chrony.absent:
        yield unknown(NODE, chrony, expected)
    elif isinstance(state, Missing):
        yield unknown(NODE, state if state.recorded else chrony, expected)
    elif state.synchronized and site.profile.time_servers:
        wanted = "follows one of " + " ".join(site.profile.time_servers)
        why = "synchronised, but without chrony nobody tells with which server"
        remedy = "install chrony (the base phase does), or declare no time servers"
        yield Finding(NODE, Status.UNKNOWN, wanted, why, (at(state, state.line),), remedy)
    else:
        status = Status.PASS if state.synchronized else Status.FAIL
        word = "the kernel's clock is " + ("" if state.synchronized else "not ") + "synchronised"
        off = ", and no time service is on" if state.ntp is False else ""
        waits = FOLLOWS_S if status is Status.FAIL and not off else 0
        here = (at(state, state.line),)
        yield Finding(NODE, status, "synchronised", word + off, here, settles_s=waits)


def _chrony(chrony: ClockTracking, site: SiteSpec, expected: str) -> Finding:
    evidence = (at(chrony, chrony.line),)
    said = f"follows {chrony.reference or 'nobody'}, off by {chrony.bound_s:.3g} s at most"
    if chrony.leap == "Not synchronised":
        why = "chrony is not synchronised"
        return Finding(NODE, Status.FAIL, expected, why, evidence, settles_s=FOLLOWS_S)
    if chrony.own:
        return Finding(NODE, Status.FAIL, expected, "chrony follows its own clock", evidence)
    if not _declared(chrony.reference, site.profile.time_servers):
        wanted = "follows one of " + " ".join(site.profile.time_servers)
        return Finding(NODE, Status.FAIL, wanted, said, evidence)
    if chrony.bound_s >= FAIL_S:
        return Finding(NODE, Status.FAIL, expected, said, evidence)
    status = Status.WARN if chrony.bound_s >= WARN_S else Status.PASS
    return Finding(NODE, status, expected, said, evidence)


def _declared(reference: str, servers: tuple[str, ...]) -> bool:
    """A declared name cannot be compared with the address that chrony follows.

    What chrony follows under a name is a clock of the node's own (GPS, PTP), and no server.
    """
    try:
        wanted = {ipaddress.ip_address(server) for server in servers}
    except ValueError:
        return True
    try:
        return not wanted or ipaddress.ip_address(reference) in wanted
    except ValueError:
        return False


CHECKS: tuple[Check, ...] = (time,)
