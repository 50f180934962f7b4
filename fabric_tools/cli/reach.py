"""Options that say how to reach a node, shared by ``validate`` and ``collect``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric_tools.errors import UsageError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from fabric_tools.transport.connection import Connection


class Transport(StrEnum):
    """Which SSH client to use."""

    BUILTIN = "builtin"
    OPENSSH = "openssh"


HostOption = Annotated[
    str | None, typer.Option(metavar="[USER@]HOST[:PORT]", help="Read this node over SSH.")
]
LocalOption = Annotated[bool, typer.Option("--local", help="Read this machine.")]


class SudoOptions:
    """Types of the shared options."""

    BUILTIN = Transport.BUILTIN
    ssh_config = Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of ~/.ssh/config.")
    ]
    transport = Annotated[
        Transport, typer.Option(help="builtin, or openssh for the system's ssh client.")
    ]
    sudo = Annotated[
        bool, typer.Option("--sudo/--no-sudo", help="Become root on the node (default), or do not.")
    ]
    ask = Annotated[
        bool,
        typer.Option(
            "--ask-sudo-password",
            help="Ask for sudo's password (or set FABRIC_TOOLS_SUDO_PASSWORD).",
        ),
    ]


class InventoryOptions:
    """Types of the options that name many nodes."""

    inventory = Annotated[
        list[str] | None,
        typer.Option(
            "--inventory",
            "-i",
            metavar="INVENTORY",
            help="Read all hosts of an Ansible inventory; may be repeated.",
        ),
    ]
    limit = Annotated[
        str | None, typer.Option("--limit", "-l", metavar="PATTERN", help="Only these hosts of it.")
    ]
    vault = Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Opens the inventory's vault; may be repeated."),
    ]


@dataclass(frozen=True, slots=True)
class Sources:
    """Which hosts of which inventories."""

    inventories: tuple[str, ...]
    limit: str | None
    vault_files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach one node."""

    host: str | None
    local: bool
    ssh_config: Path | None
    transport: Transport
    sudo: bool
    ask_password: bool

    def snapshot_text(self, *, redact: bool = False) -> str:
        """Collect from the node, with a sign of life on a terminal. Raises ``UnreachableError``."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from fabric_tools.node.bundle import zipapp_bytes
        from fabric_tools.node.collector import worst_case_s
        from fabric_tools.report.text import printable
        from fabric_tools.transport.collect import Sudo, collect

        password = self.password()
        sudo = Sudo.AUTO if self.sudo else Sudo.NEVER
        err = Console(stderr=True)
        shown = printable(self.host or "this machine")
        # markup=False: square brackets of an address are not markup.
        columns = (
            SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        )  # fmt: skip
        with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shows:
            shows.add_task(f"reading {shown}, at most {worst_case_s():.0f} s", total=None)
            connection = self._connect()
            try:
                return collect(
                    connection, zipapp_bytes(), sudo=sudo, password=password, redact=redact
                )
            finally:
                connection.close()

    def _connect(self) -> Connection:
        from fabric_tools.transport.local import local_connection, openssh_connection

        if self.host is None:
            return local_connection()
        if self.transport is Transport.OPENSSH:
            return openssh_connection(self.host, self.ssh_config)
        from fabric_tools.transport.ssh import SshConnection

        return SshConnection(self.host, self.ssh_config)

    def password(self) -> SecretStr | None:
        """From the prompt or the environment; never from an argument, which every user can read."""
        import getpass
        import os

        from pydantic import SecretStr

        # Taken out, so that no program that is started from here (ssh, ProxyCommand) inherits it.
        value = os.environ.pop("FABRIC_TOOLS_SUDO_PASSWORD", "")
        if self.ask_password:
            try:
                value = getpass.getpass("sudo password: ")
            except EOFError as error:
                raise UsageError("no password was given", where="--ask-sudo-password") from error
        return SecretStr(value) if value else None
