"""The site's ed25519 key: made once, 0600, never overwritten."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fabric_tools.errors import UsageError
from fabric_tools.yaml_file import read_bounded

_PRIVATE_NAME = "site.key"
_MAX_BYTES = 16 * 1024
_ID_DIGITS = 16


def key_id(key: Ed25519PublicKey) -> str:
    """The first 16 hex digits of the SHA-256 of the raw public key: tells two keys apart."""
    raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:_ID_DIGITS]


def private_path(folder: Path) -> Path:
    """Where the site's key lies by default: in the ledger's folder."""
    return folder / _PRIVATE_NAME


def public_path(private: Path) -> Path:
    """Where the public half lies: beside the key, ending in ``.pub``."""
    return private.with_suffix(".pub")


def create_keys(private: Path, public: Path | None = None) -> Ed25519PublicKey:
    """Make the key pair: PKCS #8 PEM with mode 0600, and its public half, by default beside it.

    Raises ``UsageError`` where either file exists (a lost key cannot be made again) or cannot be
    written.
    """
    public = public or public_path(private)
    if public == private:
        raise UsageError("this is where the public half goes", where=str(private))
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_new(private, pem, 0o600)
    try:
        _write_new(public, _public_pem(key.public_key()), 0o644)
    except UsageError:
        private.unlink()
        raise
    return key.public_key()


def _public_pem(key: Ed25519PublicKey) -> bytes:
    """SubjectPublicKeyInfo as PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, mode)
    except FileExistsError as error:
        raise UsageError(
            "exists and is never overwritten", where=str(path),
            try_next="move it away; what it signed is then checked with its old public half",
        ) from error  # fmt: skip
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror}", where=str(path)) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise UsageError(f"cannot write: {error.strerror}", where=str(path)) from error


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """The site's key. Raises ``UsageError`` where it is absent, open to others, or no such key."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(
            f"cannot read the site's key: {error.strerror}", where=str(path),
            try_next="make one with `fabric-tools ledger init`",
        ) from error  # fmt: skip
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(
            "the site's key is open to other users", where=str(path), try_next=f"chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(read_bounded(path, _MAX_BYTES), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError("no private key in PEM without a password", where=str(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError("no ed25519 key", where=str(path))
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The public half. Raises ``UsageError`` where it cannot be read or is of another kind."""
    data = read_bounded(path, _MAX_BYTES)
    try:
        key = load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError("no public key in PEM", where=str(path)) from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError("no ed25519 public key", where=str(path))
    return key
