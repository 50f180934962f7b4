"""Commands that look things up: checks, phases, platforms, one output, one matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabric_tools.errors import Exit, UsageError

PlatformOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Colour what differs from this platform.")
]


PlatformsDirOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="More platform files.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for name, function in (
        ("explain", explain),
        ("checks", checks),
        ("phases", phases),
        ("playbooks", playbooks),
        ("platforms", platforms),
        ("probes", probes),
        ("parse", parse),
        ("topo", topo),
    ):
        app.command(name)(function)


def explain(check: Annotated[str, typer.Argument(metavar="CHECK")]) -> int:
    """Say what a check looks at, why, what it needs and what to do when it fails."""
    import difflib

    from fabric_tools.checks import BY_ID
    from fabric_tools.report.reference import explain_check

    if check not in BY_ID:
        near = difflib.get_close_matches(check, BY_ID, n=6, cutoff=0.5)
        near = near or [name for name in BY_ID if check.rpartition(".")[2] in name] or list(BY_ID)
        raise UsageError(f"no check {check!r}; did you mean {', '.join(near[:6])}")
    print(explain_check(BY_ID[check]))
    return 0


def checks() -> int:
    """List every check with the phases whose gates it belongs to."""
    from fabric_tools.checks import CHECKS

    width = max(len(item.id) for item in CHECKS)
    for item in CHECKS:
        names = ", ".join(item.phases)
        print(f"{item.id:{width}}  {item.title} [{names}]")
    return 0


def phases() -> int:
    """List the phases in order, with what each needs and how many checks its gate has now."""
    from fabric_tools.checks import for_phase
    from fabric_tools.phases import PHASES

    for info in PHASES:
        number = len(for_phase(info.id))
        gate = f"{number} checks" if number else "no checks yet, always closed"
        gate += " (also under load, where results are saved)" if number and info.active else ""
        needs = f" (after {', '.join(info.needs)})" if info.needs else ""
        print(f"{info.id:14} {gate}{needs}: {info.looks_at}")
    return 0


def playbooks() -> int:
    """Print the folder of the playbooks, for `ansible-playbook $(fabric-tools playbooks)/...`."""
    from fabric_tools.share import shared

    print(shared("playbooks"))
    return 0


def platforms(
    platform: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    platforms_dir: PlatformsDirOption = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the file itself, to start one of your own.")
    ] = False,
) -> int:
    """List the platform files, or show one with every value and its source."""
    from fabric_tools.platforms import load_platforms, platform_file
    from fabric_tools.report.reference import explain_platform
    from fabric_tools.report.text import harmless

    found = load_platforms(platforms_dir)
    if platform is None:
        width = max(len(name) for name in found)
        for spec in found.values():
            print(harmless(f"{spec.id:{width}}  {spec.title}"))
        return 0
    if platform not in found:
        raise UsageError(f"no platform {platform!r}; there are {', '.join(sorted(found))}")
    print(platform_file(platform) if yaml else harmless(explain_platform(found[platform])))
    return 0


def probes() -> int:
    """List what is asked of a node, and the file names that a folder of outputs may use."""
    from fabric_tools.probes import PROBES
    from fabric_tools.report.reference import asked_of

    for probe in PROBES:
        asked = "" if probe.kind != "saved" else " (never asked, only read from folders)"
        print(f"{probe.id:22} {asked_of(probe)}{asked}\n{'':22} saved as {', '.join(probe.files)}")
    return 0


def parse(
    kind: Annotated[str, typer.Argument(metavar="KIND")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Saved output, or - for stdin.")],
) -> int:
    """Print the facts in one tool's output as JSON; exit 3 with the reason if it is not understood.

    KIND is a probe's id (see `fabric-tools probes`) or a tool's name; an unknown one lists all.
    """
    import sys

    from fabric_tools.parsers.base import ParseError
    from fabric_tools.parsers.kinds import KINDS, parser_of
    from fabric_tools.report.jsontext import render
    from fabric_tools.report.text import printable

    if kind not in KINDS:
        raise UsageError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    try:
        print(render(parser_of(kind)(_text(file)), exclude={"probe"}))
    except ParseError as error:
        print(f"fabric-tools: {file}: {printable(str(error))}", file=sys.stderr)
        return Exit.UNKNOWN
    return 0


def topo(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output of nvidia-smi topo -m.")],
    platform: PlatformOption = None,
    platforms_dir: PlatformsDirOption = None,
) -> int:
    """Draw the topology matrix; with --platform exit 1 when a GPU pair differs from it."""
    import sys

    from fabric_tools.cli.output import terminal
    from fabric_tools.parsers.base import ParseError
    from fabric_tools.parsers.topo import parse_topology
    from fabric_tools.platforms import load_platforms
    from fabric_tools.report.text import printable
    from fabric_tools.report.topology import draw

    known = load_platforms(platforms_dir)
    if platform is not None and platform not in known:
        raise UsageError(f"no platform {platform!r}; there are {', '.join(sorted(known))}")
    try:
        matrix = parse_topology(_text(file))
    except ParseError as error:
        print(f"fabric-tools: {file}: {printable(str(error))}", file=sys.stderr)
        return Exit.UNKNOWN
    spec = known[platform] if platform else None
    wrong = draw(matrix, spec, terminal())
    if not matrix.gpu_rows_whole:
        return Exit.UNKNOWN
    return Exit.CLOSED if wrong else Exit.OPEN


def _text(file: Path) -> str:
    import sys

    from fabric_tools.probes import MIB
    from fabric_tools.yaml_file import read_bounded

    limit = 16 * MIB
    if str(file) == "-":
        data = sys.stdin.buffer.read(limit + 1)
        if len(data) > limit:
            raise UsageError("more than 16 MiB", where="standard input")
        return data.decode("utf-8", "replace")
    return read_bounded(file, limit).decode("utf-8", "replace")
