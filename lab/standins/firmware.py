"""`mokutil`: Secure Boot and the keys of the machine owner.

Forms: ``--sb-state`` of hosts with Secure Boot on, off and without EFI. ``--list-enrolled`` prints
the headings of mokutil's key list with what the lab knows of a key (format unverified).
"""

from __future__ import annotations

import re

from .state import Node

_SHA1 = re.compile(r"[0-9a-f]{2}(?::?[0-9a-f]{2}){19}")


def mokutil(args: list[str], node: Node) -> tuple[str, int]:
    """The text and the exit status."""
    if not node.efi:
        return "EFI variables are not supported on this system\n", 1
    if args in (["--sb-state"], ["--sb"]):
        return f"SecureBoot {'enabled' if node.secure_boot else 'disabled'}\n", 0
    if args in (["--list-enrolled"], ["-l"]):
        if not node.mok_enrolled:
            return "MokListRT is empty\n", 0
        return "\n".join(_key(n, key) for n, key in enumerate(node.mok_enrolled, start=1)), 0
    if args in (["--list-new"], ["-N"]):
        return "MokNew is empty\n", 0
    return f"mokutil: {' '.join(args)} is not simulated by this stand-in\n", 1


def _key(number: int, key: str) -> str:
    """A key given by fingerprint has that; one given by name gets one that follows from it."""
    import hashlib  # takes longer to load than all the rest, and few calls need it

    bare = key.lower().replace(":", "")
    known = _SHA1.fullmatch(key.lower()) is not None
    digest = bare if known else hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()
    pairs = ":".join(digest[at : at + 2] for at in range(0, 40, 2))
    name = "lab machine owner key" if known else key
    return (
        f"[key {number}]\n"
        f"SHA1 Fingerprint: {pairs}\n"
        "Certificate:\n"
        "    Data:\n"
        "        Version: 3 (0x2)\n"
        "        Signature Algorithm: sha256WithRSAEncryption\n"
        f"        Issuer: CN={name}\n"
        f"        Subject: CN={name}\n"
    )
