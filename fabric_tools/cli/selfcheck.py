"""Is this controller fit: the things that make ``fabric-tools`` itself fail later."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fabric_tools import __version__
from fabric_tools.errors import FabricToolsError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    name: str
    good: bool
    text: str


def findings() -> list[Finding]:
    """Everything looked at, in a fixed order."""
    return [_python(), *_packages(), _collector(), *_platforms(), *_ssh()]


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", good, f"{platform.python_version()} (3.11 to 3.13 are tested)")


def _packages() -> Iterator[Finding]:
    """Every requirement that the package declares for running."""
    try:
        requirements = importlib.metadata.requires("fabric-tools") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("fabric-tools", False, f"{__version__} runs from a folder, not installed")
        return
    seen = set()
    for requirement in requirements:
        name = re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0]
        if "extra ==" in requirement or name in seen:
            continue
        seen.add(name)
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, "not installed; pip install fabric-tools again")


def _collector() -> Finding:
    from fabric_tools.node.bundle import zipapp_bytes

    try:
        size = len(zipapp_bytes())
    except (ModuleNotFoundError, OSError) as error:
        return Finding("collector", False, str(error))
    return Finding("collector", True, f"{size // 1024} KiB, with nvidia-ml-py inside")


def _platforms() -> Iterator[Finding]:
    from fabric_tools.platforms import load_platforms

    try:
        found = load_platforms()
    except FabricToolsError as error:
        yield Finding("platforms", False, str(error))
        return
    yield Finding("platforms", bool(found), f"{len(found)} files")


def _ssh() -> Iterator[Finding]:
    from fabric_tools.transport.ssh_config import SshConfig

    config = Path("~/.ssh/config").expanduser()
    try:
        SshConfig(None)
        text = str(config) if config.is_file() else f"{config} (none, that is fine)"
        yield Finding("ssh config", True, text)
    except FabricToolsError as error:
        yield Finding("ssh config", False, str(error))
    known = Path("~/.ssh/known_hosts").expanduser()
    have = known.is_file() or Path("/etc/ssh/ssh_known_hosts").is_file()
    text = "found" if have else f"none: every node is refused until its key is in {known}"
    yield Finding("known_hosts", True, text)
    client = shutil.which("ssh")
    yield Finding("openssh client", True, client or "none: --transport openssh cannot be used")
