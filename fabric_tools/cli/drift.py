"""``fabric-tools drift``: what moved on a node since its last proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric_tools.cli.ledger import (
    Format,
    FormatOption,
    LedgerOption,
    PublicKeyOption,
    folder,
    public_half,
)
from fabric_tools.cli.reach import (
    HostOption,
    InventoryOptions,
    LocalOption,
    Reach,
    Sources,
    SudoOptions,
)
from fabric_tools.errors import Exit, FabricToolsError, UnreachableError, UsageError, worst

if TYPE_CHECKING:
    from fabric_tools.ledger import Inputs
    from fabric_tools.models.inventory import HostVars
    from fabric_tools.models.ledger import HostDrift
    from fabric_tools.models.snapshot import Snapshot


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("drift")(drift)


def drift(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Read these nodes over SSH."),
    ] = None,
    snapshot: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE|DIR", help="A saved reading; several are several hosts."),
    ] = None,
    host: HostOption = None,
    local: LocalOption = False,
    inventory: InventoryOptions.inventory = None,
    limit: InventoryOptions.limit = None,
    vault_password_file: InventoryOptions.vault = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The host's name in the ledger (one host only)."),
    ] = None,
    ledger: LedgerOption = None,
    public_key: PublicKeyOption = None,
    host_vars: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also compare what goes in: YAML of this host."),
    ] = None,
    platforms_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="More platform files.")
    ] = None,
    stacks_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="More stack locks.")
    ] = None,
    output_format: FormatOption = Format.CONSOLE,
    ssh_config: SudoOptions.ssh_config = None,
    transport: SudoOptions.transport = SudoOptions.BUILTIN,
    sudo: SudoOptions.sudo = True,
    ask_sudo_password: SudoOptions.ask = False,
) -> int:
    """What moved on a node since the last open gate in its ledger? Changes nothing.

    Compares kernel, driver, fabric manager, GPUs, NICs, driver packages and the boot with what the
    entry remembers; with --inventory or --host-vars also what goes in. Exit 0 nothing, 1 drift,
    3 cannot tell, 4 node not reached.
    """
    targets = [*(hosts or []), *([host] if host else [])]
    if sum((bool(snapshot), bool(targets), local, bool(inventory))) != 1:
        raise UsageError("give one of HOST, --snapshot, --local or --inventory", where="drift")
    if (name or host_vars) and (inventory or len(targets) + len(snapshot or []) > 1):
        raise UsageError("--name and --host-vars are about one host", where="drift")
    reach = Reach(None, local, ssh_config, transport, sudo, ask_sudo_password)
    ask = _Ask(folder(ledger), public_key, name, host_vars, platforms_dir, stacks_dir)
    if inventory:
        sources = Sources(tuple(inventory), limit, tuple(vault_password_file or ()))
        return _print(ask.fleet(sources, reach), output_format)
    return _print(ask.all(targets, snapshot or [], reach), output_format)


@dataclass(frozen=True, slots=True)
class _Ask:
    """What to compare with."""

    ledger: Path
    public_key: Path | None
    name: str | None
    host_vars: Path | None
    platforms_dir: Path | None
    stacks_dir: Path | None

    def all(self, targets: list[str], paths: list[Path], reach: Reach) -> list[HostDrift]:
        """Each node; one that cannot be reached does not keep the others from being read."""
        from fabric_tools.transport.files import read_snapshot

        found = [self.one(self._called(s, ""), s) for s in map(read_snapshot, paths)]
        for label, each in _reached(targets, reach):
            try:
                snapshot = _read(each)
            except UnreachableError as error:
                found.append(_not_reached(label, error))
                continue
            found.append(self.one(self._called(snapshot, label), snapshot))
        return found

    def fleet(self, sources: Sources, reach: Reach) -> list[HostDrift]:
        """Every host of an inventory, and what it declares of each."""
        from fabric_tools.cli.fleet import read_fleet

        return [
            _not_reached(name, found)
            if isinstance(found, FabricToolsError)
            else self.one(name, found, site)
            for name, site, found in read_fleet(sources, reach)
        ]

    def _called(self, snapshot: Snapshot, label: str) -> str:
        """As the operator called it; what the node calls itself is only for lack of that."""
        return self.name or label or snapshot.host.hostname

    def one(self, host: str, snapshot: Snapshot, site: HostVars | None = None) -> HostDrift:
        from fabric_tools.ledger import Ledger
        from fabric_tools.ledger.drift import drift_of
        from fabric_tools.ledger.summary import last_proof
        from fabric_tools.models.ledger import HostDrift

        if not host:
            raise UsageError("the reading names no host; give --name", where="drift")
        key = public_half(self.public_key, self.ledger)
        entry = last_proof(Ledger(self.ledger, host), key)
        if isinstance(entry, str):
            return HostDrift(host=host, untold=(entry,), exit_code=Exit.UNKNOWN)
        inputs = self._inputs(snapshot, site)
        return drift_of(entry, snapshot, inputs, host=host, as_of=datetime.now(UTC))

    def _inputs(self, snapshot: Snapshot, site: HostVars | None) -> Inputs | None:
        from fabric_tools.declared import refuse_unknown_platform
        from fabric_tools.detect import choose_platform
        from fabric_tools.ledger import inputs_of
        from fabric_tools.models.inventory import HostVars
        from fabric_tools.parsers.reader import Facts
        from fabric_tools.platforms import load_platforms
        from fabric_tools.stacks import DEFAULT_STACK, load_stacks, one_stack
        from fabric_tools.yaml_file import load_model

        if self.host_vars is not None:
            site = load_model(self.host_vars, HostVars, key="fabric_host")
        if site is None:
            return None
        platforms = load_platforms(self.platforms_dir)
        refuse_unknown_platform(site, platforms)
        # As the gate of a playbook: where none is declared it is the default stack.
        site = site.model_copy(update={"stack": site.stack or DEFAULT_STACK})
        lock = one_stack(site.stack or DEFAULT_STACK, load_stacks(self.stacks_dir))
        _, choice = choose_platform(Facts(snapshot), platforms, site)
        return inputs_of(site, platforms.get(choice.id), lock)


def _not_reached(host: str, error: FabricToolsError) -> HostDrift:
    from fabric_tools.models.ledger import HostDrift

    why = (f"not reached: {error}",)
    return HostDrift(host=host, untold=why, exit_code=error.exit_code)


def _reached(targets: list[str], reach: Reach) -> Iterator[tuple[str, Reach]]:
    from fabric_tools.transport.ssh_config import split_target

    if reach.local:
        yield "", reach
    for target in dict.fromkeys(targets):
        yield split_target(target)[1], replace(reach, host=target)


def _read(reach: Reach) -> Snapshot:
    from fabric_tools.transport.files import parse_snapshot

    return parse_snapshot(reach.snapshot_text(), reach.host or "localhost")


def _print(hosts: list[HostDrift], output_format: Format) -> int:
    from fabric_tools.models.ledger import DriftReport
    from fabric_tools.report import jsontext
    from fabric_tools.report.ledger import drift_lines

    code = worst([Exit(host.exit_code) for host in hosts])
    if output_format is Format.JSON:
        now = datetime.now(UTC)
        print(jsontext.render(DriftReport(as_of=now, hosts=tuple(hosts), exit_code=code)))
    else:
        print("\n".join(line for host in hosts for line in drift_lines(host)))
    return code
