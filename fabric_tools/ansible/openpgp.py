"""The fingerprint of an OpenPGP public key, so that no node trusts a key by its address alone.

Read here and not by gpg, which neither every node nor every controller has. RFC 9580: packets
(section 4), ASCII armour (6), key ids and fingerprints (5.5.4); RFC 4880 for version 4.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from fabric_tools.errors import UsageError

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_END = "-----END PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY = 6
#: A key with many signatures has some 10 KB.
_MAX_CHARS = 256 * 1024


def checked_key(text: str, fingerprint: str, where: str) -> str:
    """``text`` as it is, where it holds one public key and that has this ``fingerprint``.

    ``fingerprint``: 40 (version 4) or 64 hex digits (version 6), upper case. A file with a second
    key is refused: apt and rpm would trust both. Raises ``UsageError``.
    """
    found = fingerprints(text, where)
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} keys where one is wanted, all of them would be trusted",
            where=where,
            try_next="export the one key that signs the repository",
        )
    if found[0] != fingerprint.upper():
        raise UsageError(
            f"the key's fingerprint is {found[0]}, the inventory declares {fingerprint}",
            where=where,
            try_next="ask the mirror's keeper which is right; nothing was installed",
        )
    return text


def fingerprints(text: str, where: str) -> tuple[str, ...]:
    """The fingerprints of all primary keys in an armoured text. Raises ``UsageError``."""
    if len(text) > _MAX_CHARS:
        raise UsageError("too large for a key", where=where, try_next="is this the right URL?")
    blocks = re.findall(re.escape(_BEGIN) + r"(.*?)" + re.escape(_END), text, re.DOTALL)
    if not blocks:
        raise UsageError(
            "no armoured OpenPGP public key", where=where, try_next="is this the right URL?"
        )
    found: list[str] = []
    for block in blocks:
        found += _primary_keys(_dearmoured(block, where), where)
    return tuple(found)


def _dearmoured(block: str, where: str) -> bytes:
    """Headers end at the first empty line, the checksum line begins with ``=``."""
    lines = [line.strip() for line in block.strip("\r\n").splitlines()]
    if "" in lines:
        lines = lines[lines.index("") + 1 :]
    body = "".join(line for line in lines if line and not line.startswith("=") and ":" not in line)
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise UsageError("the key's armour is broken", where=where) from error


def _primary_keys(data: bytes, where: str) -> list[str]:
    found, at = [], 0
    try:
        while at < len(data):
            tag, start, length = _header(data, at)
            at = start + length
            if at > len(data):
                raise IndexError
            if tag == _PUBLIC_KEY:
                found.append(_fingerprint(data[start:at], where))
    except IndexError:
        raise UsageError("the key is cut off", where=where) from None
    return found


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and length of the packet at this place; both the old and the new format."""
    first = data[at]
    if not first & 0x80:
        raise IndexError
    if first & 0x40:
        tag, size = first & 0x3F, data[at + 1]
        if size < 192:
            return tag, at + 2, size
        if size < 224:
            return tag, at + 3, ((size - 192) << 8) + data[at + 2] + 192
        if size == 255:
            return tag, at + 6, int.from_bytes(data[at + 2 : at + 6], "big")
        raise IndexError  # partial lengths are for data, never for keys
    width = (1, 2, 4)[first & 3]
    length = int.from_bytes(data[at + 1 : at + 1 + width], "big")
    return (first >> 2) & 0x0F, at + 1 + width, length


def _fingerprint(body: bytes, where: str) -> str:
    version = body[0]
    if version == 4:  # SHA-1 is what version 4 is defined by
        head = b"\x99" + len(body).to_bytes(2, "big")
        return hashlib.sha1(head + body, usedforsecurity=False).hexdigest().upper()
    if version == 6:
        head = b"\x9b" + len(body).to_bytes(4, "big")
        return hashlib.sha256(head + body).hexdigest().upper()
    raise UsageError(f"an OpenPGP key of version {version} is not known", where=where)
