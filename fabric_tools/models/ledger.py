"""One line of a host's append-only ledger."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from fabric_tools.models.base import Model
from fabric_tools.models.verdict import Waiver


class NodeState(Model):
    """What a node ran, as named values that can be compared later.

    ``values``: ``kernel``, ``os``, ``driver`` (loaded module), ``userspace``, ``fabric_manager``,
    and one for each ``gpu N``, ``nic NAME`` and ``package NAME``; ``absent`` is what the node said
    is not there. ``unknown``: of which of these (``driver``, ``gpu``, ``nic`` ...) nothing could be
    read, and why.
    """

    values: dict[str, str] = {}
    unknown: dict[str, str] = {}


class LedgerEntry(Model):
    """What one gate decided, bound to the machine, its boot, the inputs and the tool.

    ``inputs`` names what the operator controls (platform file, stack lock, each field of
    ``fabric_host`` but the waivers) with the SHA-256 of each; ``inputs_sha256`` is of all of them.
    ``snapshot_sha256`` is of the snapshot's text that was judged. ``passive_only``: the phase also
    has to be measured under load and was not. ``waivers``: those without which the gate would have
    been closed, broken glass too. ``previous_sha256`` is the digest of the line before ("" for the
    first). ``key_id`` begins the SHA-256 of the raw public key. ``signature`` is the site key's
    ed25519 signature, base64, over the line with an empty signature; it stays the last field.
    """

    schema_version: Literal[1] = 1
    kind: Literal["fabric-tools/ledger"] = "fabric-tools/ledger"
    host: str
    machine_id: str
    boot_id: str
    phase: str
    side: Literal["exit"] = "exit"
    open: bool
    passive_only: bool = False
    exit_code: int
    reasons: tuple[str, ...] = ()
    tool_version: str
    inputs: dict[str, str] = {}
    inputs_sha256: str
    snapshot_sha256: str = ""
    state: NodeState = NodeState()
    waivers: tuple[Waiver, ...] = ()
    recorded_at: AwareDatetime
    previous_sha256: str = ""
    key_id: str = ""
    signature: str = ""


class PhaseStanding(Model):
    """What the ledger alone says of a phase. ``why``: one line where it is not proved.

    ``judged``: this host has an entry of the phase; ``recorded_at`` and ``tool_version`` are of
    the last one.
    """

    phase: str
    judged: bool
    proved: bool
    why: str = ""
    recorded_at: AwareDatetime | None = None
    tool_version: str = ""


class HostStanding(Model):
    """One host's ledger. ``head`` is the SHA-256 of its last line, ``entries`` their number.

    ``complaints``: what was tampered with; ``doubts``: why something cannot be told.
    """

    host: str
    entries: int
    head: str
    complaints: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    phases: tuple[PhaseStanding, ...] = ()


class LedgerReport(Model):
    """What ``ledger show --format json`` prints."""

    schema_version: Literal[1] = 1
    kind: Literal["fabric-tools/ledger-report"] = "fabric-tools/ledger-report"
    as_of: AwareDatetime
    hosts: tuple[HostStanding, ...]
    exit_code: int


class HostDrift(Model):
    """What moved on one node since the last open gate that its ledger remembers.

    ``changed``: each ``name: then -> now``. ``untold``: what cannot be compared, and why.
    ``left_out``: what was not asked to be compared.
    """

    host: str
    phase: str = ""
    proved_at: AwareDatetime | None = None
    changed: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    exit_code: int


class DriftReport(Model):
    """What ``drift --format json`` prints."""

    schema_version: Literal[1] = 1
    kind: Literal["fabric-tools/drift-report"] = "fabric-tools/drift-report"
    as_of: AwareDatetime
    hosts: tuple[HostDrift, ...]
    exit_code: int
