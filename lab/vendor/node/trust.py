"""Which module the kernel lets in: signature, enrolled keys, Secure Boot; and what taints it."""

from __future__ import annotations

import hashlib

from . import ko, paths
from .paths import at, say

#: Signs the modules of the kernel's own package; its key is built into the kernel.
KERNEL_SIGNER = "Debian Secure Boot CA"


class Refused(Exception):
    """The kernel does not do it; ``strerror`` is what modprobe prints."""


def _trusted(signature: ko.Signature | None) -> bool:
    """Whether the key is the kernel's own or enrolled: by its common name, or by the SHA1 of its
    certificate where the certificate that signed is dkms' own.
    """
    if signature is None:
        return False
    enrolled = [str(key) for key in paths.node().get("mok_enrolled", [])]
    if signature.signer == KERNEL_SIGNER or signature.signer in enrolled:
        return True
    certificate = at("/var/lib/dkms/mok.pub")
    if not certificate.exists():
        return False
    der = certificate.read_bytes()
    fingerprint = hashlib.sha1(der, usedforsecurity=False).hexdigest()
    known = [key.replace(":", "").lower() for key in enrolled]
    return signature.serial in der and fingerprint in known


def judge(name: str, signature: ko.Signature | None, info: dict[str, list[str]]) -> str:
    """The taint letters; Refused where Secure Boot is on and the key is not enrolled."""
    trusted = _trusted(signature)
    if paths.node().get("secure_boot") and not trusted:
        what = "unsigned module" if signature is None else "module with unavailable key"
        say(f"Loading of {what} is rejected", 5)
        raise Refused("Key was rejected by service")
    if "intree" in info:
        return ""
    _say_once("O", f"{name}: loading out-of-tree module taints kernel.", 4)
    taint = "O"
    if info["license"][0] == "NVIDIA":
        said = f"{name}: module license 'NVIDIA' taints kernel."
        _say_once("P", said + "\nDisabling lock debugging due to kernel taint", 4)
        taint = "PO"
    if not trusted:
        text = "module verification failed: signature and/or required key missing"
        _say_once("E", f"{name}: {text} - tainting kernel", 5)
        taint += "E"
    return taint


def _say_once(taint: str, text: str, priority: int) -> None:
    """A taint stays until the next boot, and the kernel speaks of it once."""
    seen = at(f"/run/lab/taint-{taint}")
    if not seen.exists():
        seen.touch()
        say(text, priority)
