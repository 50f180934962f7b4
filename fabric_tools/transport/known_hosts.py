"""Host keys the user trusts. An unknown, changed or revoked key is refused; none is ever added."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from fabric_tools.errors import UnreachableError

SYSTEM_FILE = Path("/etc/ssh/ssh_known_hosts")
_MAX_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class KnownHosts:
    """Keys of the files read. ``authorities``: a ``@cert-authority`` line was seen."""

    files: tuple[Path, ...]
    keys: paramiko.HostKeys = field(default_factory=paramiko.HostKeys)
    revoked: set[str] = field(default_factory=set)
    authorities: bool = False


def read_known_hosts(files: tuple[Path, ...]) -> KnownHosts:
    """Read each file that exists. Lines that are not understood trust nobody and are passed over.

    Markers are handled here because paramiko does not know them: a ``@revoked`` key is trusted for
    no host at all, ``@cert-authority`` is only remembered, to explain a refusal.
    """
    known = KnownHosts(files)
    entries: list[paramiko.hostkeys.HostKeyEntry] = []
    for path in files:
        try:
            with path.open(encoding="utf-8", errors="replace") as handle:
                text = handle.read(_MAX_BYTES)
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "@cert-authority":
                known.authorities = True
            elif words[0] == "@revoked" and len(words) >= 4:
                known.revoked.add(words[3])
            else:
                entry = _entry(line, number)
                if entry is not None:
                    entries.append(entry)
    for entry in entries:
        if entry.key.get_base64() not in known.revoked:
            for name in entry.hostnames or ():
                known.keys.add(name, entry.key.get_name(), entry.key)
    return known


def _entry(line: str, number: int) -> paramiko.hostkeys.HostKeyEntry | None:
    try:
        return paramiko.hostkeys.HostKeyEntry.from_line(line, number)
    except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, ValueError):
        return None


def fingerprint(key: paramiko.PKey) -> str:
    """``ssh-ed25519 SHA256:...`` as ``ssh-keygen -l`` prints it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return f"{key.get_name()} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


class RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """Refuse with the fingerprint, so that it can be compared at the console or the BMC."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Always raises ``UnreachableError``."""
        if key.get_base64() in self._known.revoked:
            raise UnreachableError(
                f"host key is marked @revoked: {fingerprint(key)}", where=hostname,
                try_next="do not connect; find out why it was revoked",
            )  # fmt: skip
        read = ", ".join(str(path) for path in self._known.files)
        hint = "compare the fingerprint at the console, then add the key to known_hosts"
        if self._known.authorities:
            hint += " (@cert-authority lines need --transport openssh)"
        raise UnreachableError(
            f"host key unknown: {fingerprint(key)} is not in {read}", where=hostname, try_next=hint
        )
