"""The key that signs the lab's repositories: made once, kept outside what is served."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Gpg = Callable[..., bytes]


class SigningError(Exception):
    """gpg is missing or refused; the text says what it said."""


@contextmanager
def _home() -> Iterator[Gpg]:
    """A short-lived key ring (its socket's path must be short), its agent ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="lab-gpg-") as home:

        def gpg(*arguments: str, stdin: bytes = b"") -> bytes:
            command = ["gpg", "--homedir", home, "--batch", "--quiet", "--yes", *arguments]
            try:
                done = subprocess.run(command, input=stdin, capture_output=True, check=False)
            except OSError as error:
                raise SigningError(f"cannot run gpg: {error.strerror}; install gnupg") from error
            if done.returncode:
                raise SigningError(f"gpg {arguments[0]}: {done.stderr.decode()[-400:]}")
            return done.stdout

        try:
            yield gpg
        finally:
            kill = ["gpgconf", "--homedir", home, "--kill", "all"]
            subprocess.run(kill, capture_output=True, check=False)


def _fingerprint(gpg: Gpg) -> str:
    listing = gpg("--with-colons", "--list-keys").decode()
    return next(row.split(":")[9] for row in listing.splitlines() if row.startswith("fpr:"))


def ensure_key(secret: Path, name: str) -> tuple[str, bytes]:
    """Fingerprint and public key (armoured) of the key in ``secret``, which is made if absent."""
    with _home() as gpg:
        if secret.exists():
            gpg("--import", str(secret))
        else:
            gpg("--passphrase", "", "--quick-gen-key", f"{name} <lab@example.invalid>",
                "ed25519", "sign", "never")  # fmt: skip
            armoured = gpg("--armor", "--export-secret-keys")
            secret.parent.mkdir(parents=True, exist_ok=True)
            with open(secret, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(armoured)
        return _fingerprint(gpg), gpg("--armor", "--export")


def sign(folders: list[Path], secret: Path) -> None:
    """InRelease and Release.gpg of each repository."""
    with _home() as gpg:
        gpg("--import", str(secret))
        for folder in folders:
            release = (folder / "Release").read_bytes()
            signed = gpg("--digest-algo", "SHA512", "--clearsign", stdin=release)
            detached = gpg("--digest-algo", "SHA512", "--armor", "--detach-sign", stdin=release)
            for name, data in (("InRelease", signed), ("Release.gpg", detached)):
                part = folder / f".{name}.part"
                part.write_bytes(data)
                part.replace(folder / name)
