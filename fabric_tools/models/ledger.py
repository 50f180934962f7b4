"""One line of a host's append-only ledger."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fabric_tools.models.base import Model


class LedgerEntry(Model):
    """What one gate decided, bound to the machine, its boot, the inputs and the tool.

    ``inputs_sha256`` covers snapshot, platform and host variables. ``previous_sha256`` is the
    digest of the line before ("" for the first). ``signature`` is the site key's ed25519 signature
    over the entry without it, base64; "" until signed.
    """

    schema_version: Literal[1] = 1
    kind: Literal["fabric-tools/ledger"] = "fabric-tools/ledger"
    host: str
    machine_id: str
    boot_id: str
    phase: str
    open: bool
    exit_code: int
    reasons: tuple[str, ...] = ()
    tool_version: str
    inputs_sha256: str
    recorded_at: datetime
    previous_sha256: str = ""
    signature: str = ""
