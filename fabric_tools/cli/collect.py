"""``fabric-tools collect``: bring a snapshot back, or hand out the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabric_tools.cli.reach import HostOption, LocalOption, Reach, SudoOptions
from fabric_tools.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("collect")(collect)


def collect(
    host: HostOption = None,
    local: LocalOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here (mode 0600).")
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Remove serials, UUIDs, addresses, names and tokens."),
    ] = False,
    save_collector: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Only write the collector, to be run by hand: python3 FILE > snapshot.json",
        ),
    ] = None,
    ssh_config: SudoOptions.ssh_config = None,
    transport: SudoOptions.transport = SudoOptions.BUILTIN,
    sudo: SudoOptions.sudo = True,
    ask_sudo_password: SudoOptions.ask = False,
) -> int:
    """Read a node in one round trip and print the snapshot as JSON. Changes nothing on it."""
    from fabric_tools.cli.output import write_private

    if save_collector is not None:
        from fabric_tools.node.bundle import zipapp_bytes

        write_private(save_collector, zipapp_bytes())
        command = f"sudo python3 {save_collector.name} --redact > snapshot.json"
        print(f"wrote {save_collector}: on the node, `{command}`")
        return 0
    if (host is None) == (not local):
        raise UsageError("give one of --host or --local", where="collect")
    reach = Reach(host, local, ssh_config, transport, sudo, ask_sudo_password)
    text = reach.snapshot_text(redact=redact)
    if output is None:
        print(text, end="")
    else:
        write_private(output, text.encode())
    return 0
