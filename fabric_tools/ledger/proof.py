"""Is a phase proved for this machine now? The last word of the ledger on it, and why not."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fabric_tools import __version__
from fabric_tools.ledger.drift import CLOCK_SKEW, LOAD_BEARING, changed_inputs, compare_states
from fabric_tools.ledger.lines import Chain, check
from fabric_tools.ledger.record import Inputs
from fabric_tools.ledger.store import Ledger
from fabric_tools.models.ledger import LedgerEntry, NodeState
from fabric_tools.phases import BY_ID, Phase
from fabric_tools.share import shared


@dataclass(frozen=True, slots=True)
class Proof:
    """The entry that proves a phase. ``head`` is the ledger's digest when it was read."""

    phase: Phase
    entry: LedgerEntry
    head: str


#: Stands in a command where only the caller knows the inventory.
INVENTORY = "-i INVENTORY"


@dataclass(frozen=True, slots=True)
class NodeNow:
    """What the node is now, and what goes in. A proof is compared with it.

    ``state`` is ``state_of`` of a snapshot taken now.
    """

    machine_id: str
    boot_id: str
    inputs: Inputs
    state: NodeState


def proved(
    ledger: Ledger,
    phase: Phase,
    node: NodeNow,
    *,
    public_key: Ed25519PublicKey,
    as_of: datetime,
) -> Proof | str:
    """The proof of a phase, or one line that says why there is none and what to run.

    The ledger is whole; the last entry of the phase is open, of this machine, not from the future,
    and leaned on no waiver that has expired since; what the phase needs is proved too. Of a phase
    measured under load also: measured indeed, not too old, with the same inputs, and nothing
    changed since that bears on it.
    """
    chain = ledger.chain()
    why = broken(ledger, chain, public_key)
    return why or standing(chain, phase, node, host=ledger.host, as_of=as_of)


def unproved_needs(
    ledger: Ledger,
    phase: Phase,
    node: NodeNow,
    *,
    public_key: Ed25519PublicKey,
    as_of: datetime,
) -> tuple[str, ...]:
    """Why the entry gate of a phase is closed by the ledger: a line for each need, or none."""
    chain = ledger.chain()
    needs = BY_ID[phase].needs
    why = broken(ledger, chain, public_key) if needs else ""
    if why:
        return (why,)
    found = [standing(chain, need, node, host=ledger.host, as_of=as_of) for need in needs]
    return tuple(dict.fromkeys(item for item in found if isinstance(item, str)))


def may_skip(
    ledger: Ledger,
    phase: Phase,
    node: NodeNow,
    *,
    public_key: Ed25519PublicKey,
    as_of: datetime,
) -> Proof | str:
    """For ``--resume``: ``proved``, and nothing that goes in has changed, this tool included.

    The caller must also find the phase's passive gate open now.
    """
    found = proved(ledger, phase, node, public_key=public_key, as_of=as_of)
    if isinstance(found, str):
        return found
    if found.entry.inputs_sha256 != node.inputs.sha256:
        names = ", ".join(changed_inputs(found.entry.inputs, node.inputs.parts))
        return f"{phase} is not skipped: changed since its proof: {names}"
    if found.entry.tool_version != __version__:
        return (
            f"{phase} is not skipped: proved by version {found.entry.tool_version}, "
            f"this is {__version__}"
        )
    return found


def broken(ledger: Ledger, chain: Chain, public_key: Ed25519PublicKey) -> str:
    """Why nothing in this ledger may be believed, or ""."""
    wrong = check(chain, ledger.host, public_key)
    if not wrong:
        return ""
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    command = f"fabric-tools ledger verify {shlex.quote(ledger.host)}"
    return f"{ledger.path}: {wrong[0]}{more}; run `{command}`"


def standing(
    chain: Chain, phase: Phase, node: NodeNow | None, *, host: str, as_of: datetime
) -> Proof | str:
    """As ``proved``, of a chain that was checked. Without ``node`` only the ledger is asked."""
    info = BY_ID[phase]
    entry = next((e for e in reversed(chain.entries) if e.phase == phase), None)
    why = "was never judged on this host"
    if entry is not None:
        if node is None:
            node = NodeNow(entry.machine_id, entry.boot_id, Inputs(entry.inputs), entry.state)
        why = _against(entry, node, as_of)
        why = why or (_against_load(entry, node, as_of) if info.active else "")
    if entry is None or why:
        playbook = shlex.quote(str(_from_here(shared("playbooks") / info.playbook)))
        command = f"ansible-playbook {INVENTORY} {playbook} --limit {shlex.quote(host)}"
        return f"{phase} {why}; run `{command}`"
    for need in info.needs:
        found = standing(chain, need, node, host=host, as_of=as_of)
        if isinstance(found, str):
            return found
    return Proof(phase, entry, chain.head)


def _from_here(path: Path) -> Path:
    """As it is typed in the current directory: playbooks may be run from anywhere."""
    here = Path.cwd()
    below = path.is_relative_to(here) and here != here.parent  # below "/" is everything
    return path.relative_to(here) if below else path


def _against(entry: LedgerEntry, node: NodeNow, as_of: datetime) -> str:
    """What speaks against any proof."""
    when = f"{entry.recorded_at:%Y-%m-%d %H:%M}"
    if not node.machine_id or not entry.machine_id:
        return "cannot be told for this machine: no machine id is known"
    if entry.machine_id != node.machine_id:
        return f"was judged on another machine of that name at {when} (machine id differs)"
    if not entry.open:
        return f"was closed at {when}: {'; '.join(entry.reasons) or 'no reason recorded'}"
    if entry.recorded_at > as_of + CLOCK_SKEW:
        return f"was recorded at {when}, which is not yet: look at the controller's clock"
    for waiver in entry.waivers:
        if waiver.expires <= as_of:
            kind = waiver.kind.replace("_", "-")
            return (
                f"leaned on a {kind} of {waiver.check} that expired {waiver.expires:%Y-%m-%d %H:%M}"
            )
    return ""


def _against_load(entry: LedgerEntry, node: NodeNow, as_of: datetime) -> str:
    """What speaks against a proof that was measured under load."""
    info = BY_ID[Phase(entry.phase)]
    age_h = (as_of - entry.recorded_at) / timedelta(hours=1)
    if entry.passive_only:
        return "was judged without its test under load"
    if info.proof_max_age_h is not None and age_h > info.proof_max_age_h:
        return f"was proved {age_h:.0f} h ago, {info.proof_max_age_h} h at most"
    if info.boot_bound and (not node.boot_id or entry.boot_id != node.boot_id):
        return "was proved before the node rebooted"
    if entry.inputs_sha256 != node.inputs.sha256:
        names = ", ".join(changed_inputs(entry.inputs, node.inputs.parts))
        return f"is void: changed since its proof: {names}"
    moved = compare_states(entry.state, node.state, LOAD_BEARING)
    if moved.changed:
        return f"is void, changed since its proof: {'; '.join(moved.changed[:3])}"
    if moved.untold:
        return f"cannot be told from its proof: {moved.untold[0]}"
    return ""
