"""What the lab needs of the host, and what of it is missing. The list is ``needs.txt``."""

from __future__ import annotations

import os
import shutil
import subprocess
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
    if shutil.which(program, path=_PATH):
        return True
    if program == "runc" and shutil.which("crun", path=_PATH):
        return True
    return program in ("podman", "runc") and docker_answers()


def docker_answers() -> bool:
    """A client without a daemon is no engine."""
    try:
        done = subprocess.run(["docker", "version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
