"""Connections that start a local program: this machine, and the system's OpenSSH client."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fabric_tools.errors import UsageError
from fabric_tools.transport.connection import PopenConnection
from fabric_tools.transport.ssh_config import split_target

# In a file and not on the command line, because ssh hands its -F to the jump hosts' ssh and its
# -o options not. The first value wins, so nothing that is included below can change one of these.
# No ControlPath: who shares a connection does not check its host key.
_FORCED = b"""\
Host *
 StrictHostKeyChecking yes
 UpdateHostKeys no
 VerifyHostKeyDNS no
 NoHostAuthenticationForLocalhost no
 BatchMode yes
 ConnectTimeout 10
 ControlMaster no
 ControlPath none
 ClearAllForwardings yes
 ForwardAgent no
 ForwardX11 no
 GSSAPIDelegateCredentials no
 Tunnel no
 PermitLocalCommand no
 RemoteCommand none
 RequestTTY no
"""
# What ssh reads without -F; a file that is not there is passed over.
_DEFAULT = b"""\
Include ~/.ssh/config
Host *
Include /etc/ssh/ssh_config
"""


def local_connection() -> PopenConnection:
    """This machine, without SSH."""
    return PopenConnection("localhost", ("sh", "-c"))


def openssh_connection(
    target: str, config_file: Path | None = None, own: Mapping[str, str] | None = None
) -> PopenConnection:
    """``ssh`` with whatever the user's configuration says, but host keys checked at every hop.

    No terminal, no prompts, no forwarding. As with ``ssh -F``, a ``config_file`` takes the place of
    the user's file and of the system's. ``own``: options for the target, before those.
    """
    user, host, port = split_target(target)
    try:
        theirs = config_file.read_bytes() if config_file else _DEFAULT
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(config_file)) from error
    folder = _private_folder()
    config = Path(folder.name) / "config"
    config.write_bytes(_FORCED + _block(host, own or {}) + theirs)
    argv = ["ssh", "-F", str(config)]
    if user:
        argv += ["-l", user]
    if port:
        argv += ["-p", str(port)]
    return PopenConnection(target, (*argv, "--", host), folder)


def _block(host: str, own: Mapping[str, str]) -> bytes:
    if not own:
        return b""
    for name, value in own.items():
        if not re.fullmatch(r"[a-z0-9]+", name) or not value.isprintable() or '"' in value:
            raise UsageError(f"not an ssh option: {name}", where=host)
    lines = [f'Host "{host}"', *(f' {name} "{value}"' for name, value in own.items()), "Host *", ""]
    return "\n".join(lines).encode()


def _private_folder() -> tempfile.TemporaryDirectory[str]:
    # ssh does not quote the name of its configuration for the jump hosts' ssh.
    root = tempfile.gettempdir()
    plain = re.fullmatch(r"[\w./-]+", root, re.ASCII)
    return tempfile.TemporaryDirectory(prefix="fabric-ssh-", dir=root if plain else "/tmp")
