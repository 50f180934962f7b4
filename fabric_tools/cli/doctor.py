"""``fabric-tools doctor``: is this controller itself fit to judge nodes?"""

from __future__ import annotations

import typer

from fabric_tools.errors import Exit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor() -> int:
    """Check this machine: Python, packages, collector, SSH files. Exit 3 when one is missing."""
    from fabric_tools.cli.selfcheck import findings

    found = findings()
    for item in found:
        print(f"{'ok' if item.good else 'BAD':4} {item.name}: {item.text}")
    bad = sum(not item.good for item in found)
    print(f"{bad} of {len(found)} to mend" if bad else f"all {len(found)} good")
    return Exit.UNKNOWN if bad else Exit.OPEN
