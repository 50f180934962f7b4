"""From entries to lines and back: canonical bytes, signature, and the chain of digests.

A signature is over the bytes of the line with an empty signature, not over a new rendering of its
fields, so that a later version with more fields still verifies what an earlier one wrote.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from fabric_tools.errors import Exit, FabricToolsError
from fabric_tools.ledger.keys import key_id
from fabric_tools.models.ledger import LedgerEntry

#: What is signed begins so: the site's key must not sign anything that reads as something else.
_PURPOSE = b"fabric-tools/ledger/1\n"
#: An ed25519 signature has 64 bytes, which are 88 characters of base64.
_SIGNED = re.compile(rb'(.*,"signature":")([A-Za-z0-9+/]{86}==)("\})', re.DOTALL)


class LedgerError(FabricToolsError):
    """The ledger cannot be used as it is: damaged, locked, or signed with another key."""

    exit_code = Exit.UNKNOWN


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it lies in the file, without its newline. ``entry`` is None where unreadable."""

    number: int
    data: bytes
    entry: LedgerEntry | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """The lines of one file. ``torn``: what stands behind the last newline, never an entry."""

    lines: tuple[Line, ...]
    torn: bytes = b""

    @property
    def head(self) -> str:
        """The digest of the last line; "" for an empty ledger."""
        return digest(self.lines[-1].data) if self.lines else ""

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries that can be read, in order. Whether they may be believed says ``check``."""
        return tuple(line.entry for line in self.lines if line.entry is not None)


def digest(data: bytes) -> str:
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def sign(entry: LedgerEntry, key: Ed25519PrivateKey, previous: str) -> tuple[LedgerEntry, bytes]:
    """The entry as it will stand in the file, and its line with the newline."""
    public = key.public_key()
    bound = {"previous_sha256": previous, "key_id": key_id(public), "signature": ""}
    entry = entry.model_copy(update=bound)
    unsigned = entry.model_dump_json().encode()
    signature = base64.b64encode(key.sign(_PURPOSE + unsigned))
    signed = entry.model_copy(update={"signature": signature.decode()})
    return signed, unsigned[: -len(b'"}')] + signature + b'"}\n'


def split(data: bytes) -> Chain:
    """The lines of a file. Never raises: what is no entry says why."""
    *whole, torn = data.split(b"\n")
    return Chain(tuple(_line(number, text) for number, text in enumerate(whole, start=1)), torn)


def _line(number: int, data: bytes) -> Line:
    try:
        return Line(number, data, LedgerEntry.model_validate_json(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = f"{place}: {first['msg']}" if place else first["msg"]
        return Line(number, data, None, f"is no entry ({why})")


def check(chain: Chain, host: str, key: Ed25519PublicKey) -> tuple[str, ...]:
    """Complaints about a chain, each ``line N: why``; empty where it is whole.

    That lines are missing at the end cannot be seen in it: compare count and head with a copy.
    """
    found: list[str] = []
    previous = ""
    for line in chain.lines:
        found += [f"line {line.number}: {why}" for why in complaints(line, host, key, previous)]
        previous = digest(line.data)
    return tuple(found)


def complaints(line: Line, host: str, key: Ed25519PublicKey, previous: str | None) -> list[str]:
    """What is wrong with one line. ``previous``: digest of the line before; None: not compared."""
    entry = line.entry
    if entry is None:
        return [line.why]
    if entry.key_id != key_id(key):
        return [f"is signed with another key ({entry.key_id or 'none'}, expected {key_id(key)})"]
    if not _is_signed(line.data, key):
        return ["was changed: its signature does not fit"]
    found = []
    if entry.host != host:
        found.append(f"is of another host ({entry.host})")
    if previous is not None and entry.previous_sha256 != previous:
        where = "the line before" if previous else "a line before this first one"
        found.append(f"does not follow {where}: lines were removed, swapped or put in")
    return found


def _is_signed(data: bytes, key: Ed25519PublicKey) -> bool:
    parts = _SIGNED.fullmatch(data)
    if parts is None:
        return False
    try:
        key.verify(base64.b64decode(parts[2]), _PURPOSE + parts[1] + parts[3])
    except InvalidSignature:
        return False
    return True
