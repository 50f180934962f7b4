"""``fabric-tools validate``: judge a node, a saved snapshot, or the nodes of an inventory."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fabric_tools.cli.reach import (
    HostOption,
    InventoryOptions,
    LocalOption,
    Reach,
    Sources,
    SudoOptions,
)
from fabric_tools.errors import UsageError
from fabric_tools.phases import Phase


class Format(StrEnum):
    """Output formats of a report."""

    CONSOLE = "console"
    HTML = "html"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate")(validate)


def validate(
    phases: Annotated[
        list[str],
        typer.Argument(
            metavar="PHASE...",
            help="Phases (see `fabric-tools phases`), or `all`: every phase with checks.",
        ),
    ],
    snapshot: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE|DIR",
            help="A collector's snapshot, a folder of outputs such as topo.txt, or - for stdin; "
            "several are several hosts, and are also compared with each other.",
        ),
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="An earlier reading of the same node: did counters grow?"
        ),
    ] = None,
    host: HostOption = None,
    local: LocalOption = False,
    inventory: InventoryOptions.inventory = None,
    limit: InventoryOptions.limit = None,
    vault_password_file: InventoryOptions.vault = None,
    platform: Annotated[
        str | None, typer.Option(metavar="ID", help="Judge as this platform, do not detect it.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            metavar="N",
            help="GPUs this host was given (PCIe cards, virtual machines).",
        ),
    ] = None,
    platforms_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="More platform files.")
    ] = None,
    stacks_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="More stack locks.")
    ] = None,
    host_vars: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML with platform, profile and waivers of this host."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Inventory name of the host, for waivers.")
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="How to print the report.")
    ] = Format.CONSOLE,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also list what passed.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="Judge as of this time (ISO 8601).")
    ] = None,
    break_glass: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Let this check pass tonight; may be repeated."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why the glass is broken.")] = "",
    hours: Annotated[int, typer.Option(min=1, max=24, help="For how long.")] = 8,
    ssh_config: SudoOptions.ssh_config = None,
    transport: SudoOptions.transport = SudoOptions.BUILTIN,
    sudo: SudoOptions.sudo = True,
    ask_sudo_password: SudoOptions.ask = False,
) -> int:
    """Judge a node: is the gate of each PHASE open?

    Faults come first, with what was expected, what was seen, where, and what to do. The exit code
    is the worst of all gates.
    """
    from fabric_tools.cli.judging import Request, judge_and_print

    about_one = {"--before": before, "--name": name, "--break-glass": break_glass}
    if inventory:
        about_one |= {"--host-vars": host_vars, "--as-of": as_of}
        del about_one["--break-glass"]  # refused where the inventory names several
    if len(snapshot or []) > 1 or inventory:
        for option, given in about_one.items():
            if given:
                raise UsageError(f"{option} is about one host", where="validate")
    if sum((bool(snapshot), host is not None, local, bool(inventory))) != 1:
        raise UsageError("give one of --snapshot, --host, --local or --inventory", where="validate")
    request = Request(
        phases=_phases(phases),
        platform=platform,
        gpus=gpus,
        before=before,
        platforms_dir=platforms_dir,
        stacks_dir=stacks_dir,
        host_vars=host_vars,
        name=name,
        as_of=as_of,
        break_glass=(tuple(break_glass), reason, hours) if break_glass else None,
    )
    reach = Reach(host, local, ssh_config, transport, sudo, ask_sudo_password)
    if inventory:
        from fabric_tools.cli.fleet import judge_inventory

        sources = Sources(tuple(inventory), limit, tuple(vault_password_file or ()))
        return judge_inventory(request, sources, reach, output_format.value, verbose=verbose)
    return judge_and_print(request, snapshot or [], reach, output_format.value, verbose=verbose)


def _phases(names: list[str]) -> tuple[Phase, ...]:
    if names == ["all"]:
        from fabric_tools.checks import for_phase

        return tuple(phase for phase in Phase if for_phase(phase))
    known = [phase.value for phase in Phase]
    for name in names:
        if name not in known:
            raise UsageError(f"no phase {name!r}; there are {', '.join(known)}, or all")
    return tuple(dict.fromkeys(Phase(name) for name in names))
