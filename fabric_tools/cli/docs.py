"""``fabric-tools docs render``: the generated part of ``docs/``, for maintainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabric_tools.errors import Exit, UsageError

docs_app = typer.Typer(help="Generated documentation.", rich_markup_mode=None, no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(docs_app, name="docs")


@docs_app.callback()
def group() -> None:
    """Generated documentation."""


@docs_app.command("render")
def render(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when a page is out of date.")
    ] = False,
    root: Annotated[Path, typer.Option(metavar="DIR", help="The source checkout.")] = Path(),
) -> int:
    """Write docs/checks.md, docs/tables.md and docs/schemas/ from the code."""
    from fabric_tools.report.reference import pages

    if not (root / "docs").is_dir():
        raise UsageError("no docs/ here", where=str(root), try_next="run it in a source checkout")
    stale = []
    for name, text in pages().items():
        path = root / "docs" / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'out of date' if check else 'wrote'}: {name}")
    return Exit.CLOSED if check and stale else Exit.OPEN
