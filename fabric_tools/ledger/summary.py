"""One host's ledger at a glance: whole or not, and which phases it proves."""

from __future__ import annotations

import re
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fabric_tools.errors import Exit, FabricToolsError, UsageError, worst
from fabric_tools.ledger.lines import Chain, check, digest
from fabric_tools.ledger.proof import Proof, broken, standing
from fabric_tools.ledger.store import Ledger
from fabric_tools.models.ledger import HostStanding, LedgerEntry, PhaseStanding
from fabric_tools.phases import Phase

NO_KEY = "no public key to check it with"


def summary(
    ledger: Ledger, public_key: Ed25519PublicKey | None, as_of: datetime, noted: str = ""
) -> HostStanding:
    """What a host's ledger says. Nothing is proved where it is damaged or no public key is at hand.

    ``noted``: a head (``COUNT:SHA256``) that was noted earlier. Raises ``UsageError`` for another
    form of it.
    """
    chain = ledger.chain()
    complaints = check(chain, ledger.host, public_key) if public_key else ()
    complaints += _against_noted(chain, noted) if noted else ()
    doubts = [NO_KEY] if public_key is None else []
    if not chain.lines:
        doubts.append("no entry")
    if chain.torn:
        doubts.append(
            f"{len(chain.torn)} bytes behind line {len(chain.lines)} are no entry: a writer was "
            "cut off; the next gate moves them aside"
        )
    believed = not complaints and public_key is not None
    return HostStanding(
        host=ledger.host,
        entries=len(chain.lines),
        head=chain.head,
        complaints=complaints,
        doubts=tuple(doubts),
        phases=tuple(_phase(phase, chain, ledger.host, as_of, believed) for phase in Phase),
    )


def summary_or_why(
    ledger: Ledger, public_key: Ed25519PublicKey | None, as_of: datetime, noted: str = ""
) -> HostStanding:
    """As ``summary``; a file that cannot be used keeps nobody from seeing the other hosts.

    Raises ``UsageError`` for another form of ``noted``.
    """
    if noted:
        _noted(noted)
    try:
        return summary(ledger, public_key, as_of, noted)
    except FabricToolsError as error:
        return HostStanding(host=ledger.host, entries=0, head="", doubts=(str(error),))


def _noted(noted: str) -> tuple[int, str]:
    found = re.fullmatch(r"([1-9]\d{0,8}):([0-9a-f]{64})", noted)
    if found is None:
        raise UsageError(f"{noted!r} is no COUNT:SHA256", where="head")
    return int(found[1]), found[2]


def _against_noted(chain: Chain, noted: str) -> tuple[str, ...]:
    """Why the chain does not go on from a head that was noted earlier; empty where it does."""
    count, head = _noted(noted)
    if len(chain.lines) < count:
        return (f"{count} entries were known, {len(chain.lines)} are left: the end was cut off",)
    if digest(chain.lines[count - 1].data) != head:
        return (f"line {count}: is not the entry that was noted as the head",)
    return ()


def last_proof(ledger: Ledger, public_key: Ed25519PublicKey | None) -> LedgerEntry | str:
    """The last open entry of any phase, or why there is none that may be believed."""
    if public_key is None:
        return f"{ledger.path.parent}: {NO_KEY}"
    chain = ledger.chain()
    why = broken(ledger, chain, public_key)
    entry = next((e for e in reversed(chain.entries) if e.open), None)
    return why or entry or f"{ledger.host}: no phase was ever proved, so nothing to compare with"


def exit_of(host: HostStanding) -> Exit:
    """1 tampered with, 3 cannot tell, 0 whole."""
    if host.complaints:
        return Exit.CLOSED
    return Exit.UNKNOWN if host.doubts else Exit.OPEN


def exit_of_all(hosts: tuple[HostStanding, ...]) -> Exit:
    """The worst of all; 3 where there is no ledger at all."""
    return worst([exit_of(host) for host in hosts])


def _phase(phase: Phase, chain: Chain, host: str, as_of: datetime, believed: bool) -> PhaseStanding:
    last = next((e for e in reversed(chain.entries) if e.phase == phase), None)
    found = standing(chain, phase, None, host=host, as_of=as_of)
    why = found if isinstance(found, str) else ""
    if last is not None and not believed:
        why = "the ledger is damaged or was not checked, so nothing is proved"
    return PhaseStanding(
        phase=phase,
        judged=last is not None,
        proved=believed and isinstance(found, Proof),
        why=why,
        recorded_at=last.recorded_at if last else None,
        tool_version=last.tool_version if last else "",
    )
