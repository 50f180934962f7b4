"""What was proved on which node: one append-only, signed file per host.

``keys`` the site's ed25519 key; ``lines`` how an entry becomes a line and how a chain is checked;
``store`` the file (locked, synced, never rewritten); ``record`` from a judged snapshot to an entry;
``proof`` whether a phase is proved now, and whether ``--resume`` may skip it; ``drift`` what moved
since. docs/ledger.md says what a signature is worth.
"""

from fabric_tools.ledger.keys import (
    create_keys,
    key_id,
    load_private_key,
    load_public_key,
    private_path,
    public_path,
)
from fabric_tools.ledger.lines import LedgerError
from fabric_tools.ledger.proof import INVENTORY, NodeNow, Proof, may_skip, proved, unproved_needs
from fabric_tools.ledger.record import Inputs, entry_of, files_sha256, inputs_of, state_of
from fabric_tools.ledger.store import Ledger, default_folder, ledgers, make_folder

__all__ = [
    "INVENTORY",
    "Inputs",
    "Ledger",
    "LedgerError",
    "NodeNow",
    "Proof",
    "create_keys",
    "default_folder",
    "entry_of",
    "files_sha256",
    "inputs_of",
    "key_id",
    "ledgers",
    "load_private_key",
    "load_public_key",
    "make_folder",
    "may_skip",
    "private_path",
    "proved",
    "public_path",
    "state_of",
    "unproved_needs",
]
