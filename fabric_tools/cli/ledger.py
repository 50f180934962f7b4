"""``fabric-tools ledger``: make the site's key, show what is proved, verify the files."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric_tools.errors import Exit, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from fabric_tools.models.ledger import LedgerReport

ledger_app = typer.Typer(
    help="What was proved on which node.", rich_markup_mode=None, no_args_is_help=True
)


class Format(StrEnum):
    """Output formats."""

    CONSOLE = "console"
    JSON = "json"


LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="DIR",
        help="The ledger's folder, instead of $FABRIC_STATE or ~/.local/state/fabric-tools/ledger.",
    ),
]
PublicKeyOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The site's public key, instead of site.pub in the folder."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(ledger_app, name="ledger")


@ledger_app.callback()
def group() -> None:
    """What was proved on which node: one signed file per host on this controller."""


@ledger_app.command("init")
def init(
    ledger: LedgerOption = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to put the key, instead of site.key there."),
    ] = None,
) -> int:
    """Make the ledger's folder and the site's key pair. Nothing is ever overwritten."""
    from fabric_tools.ledger import (
        create_keys,
        key_id,
        ledgers,
        make_folder,
        private_path,
        public_path,
    )

    where = folder(ledger)
    make_folder(where)
    public = public_path(private_path(where))
    path = key or private_path(where)
    made = create_keys(path, public)
    print(f"ledger {where}\nkey    {path} (0600: who has it can forge proofs)")
    print(f"public {public}, id {key_id(made)}: keep a copy on another machine")
    if ledgers(where):
        print("the ledgers here are of another key: keep them elsewhere", file=sys.stderr)
    return Exit.OPEN


@ledger_app.command("show")
def show(
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...")] = None,
    ledger: LedgerOption = None,
    public_key: PublicKeyOption = None,
    output_format: FormatOption = Format.CONSOLE,
) -> int:
    """Which phases are proved on which host, when, and why not.

    It asks no node: a passive phase is judged again by the next gate. The head (COUNT:SHA256) is
    worth noting elsewhere, see `ledger verify --head`. Exit codes as of `ledger verify`.
    """
    from fabric_tools.report import jsontext
    from fabric_tools.report.ledger import standing_lines

    found = _report(hosts, ledger, public_key)
    if output_format is Format.JSON:
        print(jsontext.render(found))
    else:
        for host in found.hosts:
            print("\n".join(standing_lines(host)))
    return found.exit_code


@ledger_app.command("verify")
def verify(
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...")] = None,
    ledger: LedgerOption = None,
    public_key: PublicKeyOption = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT:SHA256",
            help="A head that was noted earlier: entries cut off the end are found only by it.",
        ),
    ] = None,
) -> int:
    """Are the ledgers whole? Exit 0 whole, 1 tampered with, 3 cannot tell, 2 usage.

    Checks signature, host and order of every entry. That entries are missing at the end, or a
    whole file, no chain can show: compare with a head that was noted elsewhere (--head, one HOST).
    """
    from fabric_tools.ledger.summary import exit_of
    from fabric_tools.report.ledger import verified_lines

    if head is not None and len(hosts or []) != 1:
        raise UsageError("is about one HOST", where="--head")
    found = _report(hosts, ledger, public_key, head or "")
    for host in found.hosts:
        print("\n".join(verified_lines(host, whole=exit_of(host) is Exit.OPEN)))
    return found.exit_code


def folder(given: Path | None) -> Path:
    """The ledger's folder."""
    from fabric_tools.ledger import default_folder

    return given or default_folder()


def public_half(given: Path | None, ledger: Path) -> Ed25519PublicKey | None:
    """The public key that was named, else that of the folder; None where there is none."""
    from fabric_tools.ledger import load_public_key, private_path, public_path

    path = given or public_path(private_path(ledger))
    return load_public_key(path) if given or path.exists() else None


def _report(
    names: list[str] | None, ledger: Path | None, public_key: Path | None, head: str = ""
) -> LedgerReport:
    from fabric_tools.ledger import Ledger, ledgers
    from fabric_tools.ledger.summary import exit_of_all, summary_or_why
    from fabric_tools.models.ledger import LedgerReport

    where = folder(ledger)
    key = public_half(public_key, where)
    ours = [Ledger(where, name) for name in dict.fromkeys(names)] if names else ledgers(where)
    if not ours:
        print(f"fabric-tools: {where}: no ledger here", file=sys.stderr)
    now = datetime.now(UTC)
    hosts = tuple(summary_or_why(each, key, now, head) for each in ours)
    return LedgerReport(as_of=now, hosts=hosts, exit_code=exit_of_all(hosts))
