"""``python -m lab up|down|clean|status|break|heal|list-faults|render-faults|needs``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from lab.errors import LabError
from lab.needs import missing, needs
from lab.places import STATE


def main(argv: list[str]) -> int:
    """Run one command; exit 0 done, 1 refused or failed, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make the nodes")
    up.add_argument("--nodes", type=int, choices=(1, 2), default=1)
    up.add_argument("--kind", choices=("stock", "dgx-os"), default="stock")
    down = commands.add_parser("down", help="remove everything; the host is as before")
    down.add_argument("--names", help="labs of this checkout by their names: '*', 'test-*'")
    commands.add_parser("clean", help="remove images and packages too, which all labs share")
    commands.add_parser("status", help="what runs, and how to reach it")
    commands.add_parser("needs", help="what it needs of this host, and what is missing")
    one = commands.add_parser("break", help="put the cause of a fault in place")
    one.add_argument("fault")
    one.add_argument("--node", type=int, choices=(1, 2), default=1)
    one = commands.add_parser("heal", help="take every cause away again")
    one.add_argument("--node", type=int, choices=(1, 2), help="only there")
    commands.add_parser("list-faults", help="names, causes and the checks that must notice")
    one = commands.add_parser("render-faults", help="write docs/faults.md from the table")
    one.add_argument("--check", action="store_true", help="only compare")
    given = parser.parse_args(argv)
    try:
        return _run(given)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    if given.command == "needs":
        return _needs()
    if given.command == "render-faults":
        from lab import faultdocs

        print(faultdocs.render(check=given.check))
        return 0
    from lab import lifecycle

    started = time.monotonic()

    def progress(text: str) -> None:
        print(f"lab: {time.monotonic() - started:5.1f} s  {text}", file=sys.stderr, flush=True)

    if given.command == "up":
        lifecycle.up(given.nodes, given.kind, progress)
    elif given.command == "down":
        if given.names is not None:
            lifecycle.down_named(given.names, progress)
        else:
            lifecycle.down(progress)
    elif given.command == "clean":
        lifecycle.clean(progress)
    elif given.command == "status":
        return lifecycle.status()
    else:
        return _faults(given, progress)
    return 0


def _faults(given: argparse.Namespace, progress: Callable[[str], None]) -> int:
    from lab import breaking

    if given.command == "break":
        breaking.put(given.fault, given.node, progress)
    elif given.command == "heal":
        if breaking.heal(given.node, progress) == 0:
            progress("nothing is broken")
    else:
        print("\n".join(breaking.listing()))
    return 0


def _needs() -> int:
    lacks = missing()
    for program, package in needs():
        word = "missing" if (program, package) in lacks else "here"
        print(f"{program:20} {word:8} (Debian package {package})")
    print(f"state is kept in {STATE}; nothing else on this host is changed")
    return 1 if lacks else 0
