"""`sign-file HASH KEY CERTIFICATE MODULE`: what the kernel's headers bring to sign a module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from . import ko


def pkcs7(data: bytes, digest: str, key: Path, certificate: Path) -> bytes:
    """A detached PKCS#7 signature of ``data`` by openssl; ``certificate`` is DER or PEM."""
    form = "PEM" if certificate.read_bytes().startswith(b"-----") else "DER"
    pem = subprocess.run(
        ["openssl", "x509", "-inform", form, "-in", str(certificate)],
        capture_output=True,
        check=True,
    ).stdout
    signer = key.with_name(f".{key.name}.signer")
    signer.write_bytes(pem)
    try:
        return subprocess.run(
            ["openssl", "cms", "-sign", "-binary", "-outform", "DER", "-nocerts", "-noattr",
             "-md", digest, "-signer", str(signer), "-inkey", str(key)],
            input=ko.unsigned(data), capture_output=True, check=True,
        ).stdout  # fmt: skip
    finally:
        signer.unlink()


def sign_file(arguments: list[str]) -> int:
    """Signs the module in its place."""
    digest, key, certificate, module = arguments
    data = Path(module).read_bytes()
    try:
        signature = pkcs7(data, digest, Path(key), Path(certificate))
    except subprocess.CalledProcessError as error:
        print(f"sign-file: {error.stderr.decode('utf-8', 'replace')}", file=sys.stderr)
        return 1
    Path(module).write_bytes(ko.sign(data, signature))
    return 0
