"""Host keys the user trusts. An unknown, changed or revoked key is refused; none is ever added.

Read here and not by paramiko, which knows no markers and no wildcards, keeps one key of a type, and
is slow on a file of thousands of lines.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from fabric_tools.errors import UnreachableError, UsageError

_MAX_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class KnownHosts:
    """The keys for one host. ``authorities``: a ``@cert-authority`` line was seen."""

    files: tuple[Path, ...]
    name: str
    keys: set[bytes] = field(default_factory=set)
    revoked: set[bytes] = field(default_factory=set)
    authorities: bool = False

    @property
    def kinds(self) -> set[str]:
        """Types of the keys, as the keys say themselves."""
        return {_kind(key) for key in self.keys - self.revoked}


def known_name(hostname: str, port: int) -> str:
    """The host as known_hosts writes it."""
    return hostname.lower() if port == 22 else f"[{hostname.lower()}]:{port}"


def read_known_hosts(files: tuple[Path, ...], name: str) -> KnownHosts:
    """The keys for ``name`` in each file that exists. Other lines trust nobody and are passed over.

    A ``@revoked`` key is trusted for no host at all, so such a line must be understood;
    ``@cert-authority`` is only remembered, to explain a refusal. Raises ``UsageError`` for a file
    that is there and cannot be read.
    """
    known = KnownHosts(files, name)
    for path in files:
        for number, line in enumerate(_text(path).split("\n"), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "@cert-authority":
                known.authorities = True
            elif words[0] == "@revoked":
                key = _key(words[2:])
                if key is None:
                    raise UsageError("@revoked line without a key", where=f"{path}:{number}")
                known.revoked.add(key)
            elif _matches(words[0], name) and (key := _key(words[1:])):
                known.keys.add(key)
    return known


def _text(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            data = handle.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise UsageError(f"more than {_MAX_BYTES // 2**20} MiB", where=str(path))
    return data.decode("utf-8", "replace")


def _key(words: list[str]) -> bytes | None:
    """``TYPE BASE64`` to the key's bytes, which begin with its type."""
    try:
        key = base64.b64decode(words[1], validate=True)
    except (IndexError, binascii.Error, ValueError):
        return None
    return key if _kind(key) == words[0] else None


def _kind(key: bytes) -> str:
    size = int.from_bytes(key[:4])
    return key[4 : 4 + size].decode("ascii", "replace")


def _matches(patterns: str, name: str) -> bool:
    """One negated pattern that matches takes the host out, whatever else matches (sshd(8))."""
    if patterns.startswith("|1|"):
        return _hash_matches(patterns, name)
    found = False
    for pattern in patterns.lower().split(","):
        if _pattern_matches(pattern.removeprefix("!"), name):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _pattern_matches(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    # Not fnmatch: there the brackets of [host]:port would be a character class. What stands between
    # stars may be taken where it is first found (atomic group), or a line of stars takes for ever.
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if rest:
        first += "".join(f"(?>.*?{part})" for part in rest[:-1]) + ".*" + rest[-1]
    return bool(re.fullmatch(first, name))


def _hash_matches(entry: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in entry.split("|")[2:])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)


def fingerprint(key: bytes) -> str:
    """``ssh-ed25519 SHA256:...`` as ``ssh-keygen -l`` prints it."""
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"{_kind(key)} SHA256:{digest}"


class OnlyTrusted(paramiko.MissingHostKeyPolicy):
    """Judges every host key (paramiko is given none of its own), and refuses with a fingerprint."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Returns for a trusted key, raises ``UnreachableError`` for any other."""
        known, offered = self._known, key.asbytes()
        if offered in known.revoked:
            raise UnreachableError(
                f"host key is marked @revoked: {fingerprint(offered)}", where=hostname,
                try_next="do not connect; find out why it was revoked",
            )  # fmt: skip
        if offered in known.keys:
            return
        if known.keys:
            have = ", ".join(sorted(map(fingerprint, known.keys)))
            raise UnreachableError(
                f"host key CHANGED: got {fingerprint(offered)}, known_hosts has {have}",
                where=hostname,
                try_next="either the node was reinstalled or somebody is in between: compare at "
                f"the console, then `ssh-keygen -R '{known.name}'`",
            )
        read = ", ".join(str(path) for path in known.files)
        hint = "compare the fingerprint at the console, then add the key to known_hosts"
        if known.authorities:
            hint += " (@cert-authority lines need --transport openssh)"
        raise UnreachableError(
            f"host key unknown: {fingerprint(offered)} is not in {read}",
            where=hostname, try_next=hint,
        )  # fmt: skip
