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
#: What a public key consists of (RFC 9580, 10.1): its own packet, subkeys, names, signatures; and
#: what has no meaning (marker, trust of gpg's own, padding). A secret key has no place in it.
_PARTS = {_PUBLIC_KEY, 14, 13, 17, 2, 10, 12, 21}
_ARMOUR_COLUMNS = 64
#: A key with many signatures has some 10 KB.
_MAX_CHARS = 256 * 1024


def checked_key(text: str, fingerprint: str, where: str) -> str:
    """The one public key in ``text``, armoured anew, where it has this ``fingerprint``.

    ``fingerprint``: 40 (version 4) or 64 hex digits (version 6), upper case. A file with a second
    key is refused: apt and rpm would trust both. What is returned is what was read here and nothing
    else of the text: apt's own reader takes the first armoured block of a file, whatever it is
    called, and so would trust a key that nobody compared. Raises ``UsageError``.
    """
    data = _packets(text, where)
    found = _primary_keys(data, where)
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
    return _armoured(data)


def _packets(text: str, where: str) -> bytes:
    """The packets of all public key blocks of a text, one after the other."""
    if len(text) > _MAX_CHARS:
        raise UsageError("too large for a key", where=where, try_next="is this the right URL?")
    blocks = re.findall(re.escape(_BEGIN) + r"(.*?)" + re.escape(_END), text, re.DOTALL)
    if not blocks:
        raise UsageError(
            "no armoured OpenPGP public key", where=where, try_next="is this the right URL?"
        )
    return b"".join(_dearmoured(block, where) for block in blocks)


def _armoured(data: bytes) -> str:
    """ASCII armour (RFC 9580, 6.2), with the checksum that older readers ask for."""
    body = base64.b64encode(data).decode()
    lines = [
        body[start : start + _ARMOUR_COLUMNS] for start in range(0, len(body), _ARMOUR_COLUMNS)
    ]
    check = base64.b64encode(_crc24(data).to_bytes(3, "big")).decode()
    return "\n".join([_BEGIN, "", *lines, f"={check}", _END, ""])


def _crc24(data: bytes) -> int:
    """RFC 9580, 6.1.1."""
    found = 0xB704CE
    for byte in data:
        found ^= byte << 16
        for _ in range(8):
            found <<= 1
            if found & 0x1000000:
                found ^= 0x1864CFB
    return found


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
            if tag not in _PARTS:
                raise UsageError(f"holds a packet of type {tag}, no public key does", where=where)
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
