"""Connections that start a local program: this machine, and the system's OpenSSH client."""

from __future__ import annotations

from pathlib import Path

from fabric_tools.transport.connection import PopenConnection
from fabric_tools.transport.ssh_config import split_target


def local_connection() -> PopenConnection:
    """This machine, without SSH."""
    return PopenConnection("localhost", ("sh", "-c"))


def openssh_connection(target: str, config_file: Path | None = None) -> PopenConnection:
    """``ssh`` with whatever the user's configuration says, but host keys always checked.

    No terminal, no prompts (``BatchMode``), no forwarding.
    """
    user, host, port = split_target(target)
    argv = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    argv += ["-o", "ConnectTimeout=10", "-o", "ClearAllForwardings=yes"]
    if config_file:
        argv += ["-F", str(config_file)]
    if user:
        argv += ["-l", user]
    if port:
        argv += ["-p", str(port)]
    return PopenConnection(target, (*argv, "--", host))
