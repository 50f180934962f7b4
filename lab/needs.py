"""What the lab needs of the host, and what of it is missing. The list is ``needs.txt``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_LIST = Path(__file__).with_name("needs.txt")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def needs() -> list[tuple[str, str]]:
    """Program (or file) and Debian package of everything."""
    lines = _LIST.read_text().splitlines()
    return [(a, b) for a, b in (line.split() for line in lines if line[:1] not in ("", "#"))]


def missing() -> list[tuple[str, str]]:
    """Those of it that this host lacks and needs."""
    return [(program, package) for program, package in needs() if not _here(program)]


def _here(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    instead = {"podman": ("docker",), "runc": ("docker", "crun")}.get(program, ())
    return any(shutil.which(name, path=_PATH) for name in (program, *instead))
