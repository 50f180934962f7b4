"""``fabric-tools stack``: which stacks there are, what is in them, may this one be used here?"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric_tools.errors import Exit, UsageError

if TYPE_CHECKING:
    from fabric_tools.models.platform import PlatformSpec

stack_app = typer.Typer(
    help="Stack locks: which versions make up a node, and which may go together.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

IdArgument = Annotated[str, typer.Argument(metavar="ID")]
StacksDirOption = Annotated[Path | None, typer.Option(metavar="DIR", help="More stack locks.")]
PlatformsDirOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="More platform files.")
]
PlatformOption = Annotated[str | None, typer.Option(metavar="ID", help="For this platform.")]
OsOption = Annotated[
    str | None,
    typer.Option("--os", metavar="'ID VERSION'", help="As in os-release: 'debian 12', 'dgx-os 7'."),
]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="Judge as of this day (ISO 8601).")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(stack_app, name="stack")


@stack_app.callback()
def group() -> None:
    """Stack locks: which versions make up a node, and which may go together."""


@stack_app.command("list")
def list_command(stacks_dir: StacksDirOption = None, as_of: AsOfOption = None) -> int:
    """List the stacks with the ends of life of their parts and how they stand today."""
    from fabric_tools.report.stacks import list_stacks
    from fabric_tools.report.text import harmless
    from fabric_tools.stacks import DEFAULT_STACK, load_matrix, load_stacks

    day = _day(as_of)
    for line in list_stacks(load_stacks(stacks_dir), load_matrix(), day):
        print(harmless(line))
    print(f"As of {day}. The default is {DEFAULT_STACK}.")
    return Exit.OPEN


@stack_app.command("show")
def show(
    stack: IdArgument,
    platform: PlatformOption = None,
    os: OsOption = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the file itself, to start one of your own.")
    ] = False,
    stacks_dir: StacksDirOption = None,
    platforms_dir: PlatformsDirOption = None,
) -> int:
    """Show every value of a stack with its source; with --platform and --os also its packages."""
    from fabric_tools.report.stacks import explain_packages, explain_stack
    from fabric_tools.report.text import harmless
    from fabric_tools.stacks import load_matrix, load_stacks, one_stack, stack_file
    from fabric_tools.stacks.packages import package_set

    lock, matrix = one_stack(stack, load_stacks(stacks_dir)), load_matrix()
    if (platform is None) != (os is None):
        raise UsageError("--platform and --os belong together", where="stack show")
    if yaml:
        if platform is not None:
            raise UsageError("--yaml prints the file alone, without --platform", where="stack show")
        print(stack_file(stack), end="")
        return Exit.OPEN
    text = explain_stack(lock, matrix)
    if platform is not None:
        spec = _platform(platform, platforms_dir)
        text += "\n" + explain_packages(package_set(lock, matrix, spec, *_system(os)))
    print(harmless(text))
    return Exit.OPEN


@stack_app.command("check")
def check(
    stack: IdArgument,
    platform: PlatformOption = None,
    os: OsOption = None,
    kernel: Annotated[
        str, typer.Option(metavar="RELEASE", help="With this kernel, as `uname -r` prints it.")
    ] = "",
    as_of: AsOfOption = None,
    allow_eol: Annotated[
        str, typer.Option(metavar="REASON", help="Accept what is past its end of life.")
    ] = "",
    stacks_dir: StacksDirOption = None,
    platforms_dir: PlatformsDirOption = None,
) -> int:
    """May this stack be used, on this platform, system and kernel? Exit 1 when it is refused.

    What is not given is not judged, and said so.
    """
    from fabric_tools.report.text import printable
    from fabric_tools.stacks import load_matrix, load_stacks, one_stack
    from fabric_tools.stacks.problems import problems, refused

    lock, day = one_stack(stack, load_stacks(stacks_dir)), _day(as_of)
    if kernel and os is None:
        raise UsageError("--kernel needs --os: its life depends on it", where="stack check")
    os_id, os_version = _system(os)
    found = problems(
        lock,
        load_matrix(),
        platform=_platform(platform, platforms_dir) if platform else None,
        os_id=os_id,
        os_version=os_version,
        kernel=kernel,
        as_of=day,
        allow_eol=_consent(allow_eol),
    )
    for item in found:
        source = printable(f"[{item.source}]") if item.source else ""
        remedy = f"; try {item.try_next}" if item.try_next else ""
        print(f"{item.severity:7} {printable(item.what + remedy)}{source and f'  {source}'}")
    given = {"platform": platform, "os": os, "kernel": kernel}
    missing = [f"--{name}" for name, value in given.items() if not value]
    if missing:
        print(f"not judged, for it was not given: {', '.join(missing)}")
    verdict = "refused" if refused(found) else "accepted so far" if missing else "accepted"
    print(f"{lock.id} is {verdict}, as of {day}")
    return Exit.CLOSED if refused(found) else Exit.OPEN


@stack_app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(metavar="A")],
    second: Annotated[str, typer.Argument(metavar="B")],
    stacks_dir: StacksDirOption = None,
) -> int:
    """Show which versions two stacks fix differently."""
    from fabric_tools.report.stacks import differences
    from fabric_tools.report.text import harmless
    from fabric_tools.stacks import load_stacks, one_stack

    known = load_stacks(stacks_dir)
    for line in differences(one_stack(first, known), one_stack(second, known)):
        print(harmless(line))
    return Exit.OPEN


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return datetime.fromisoformat(text).date()
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no day", where="--as-of", try_next="write 2026-11-30"
        ) from error


def _system(text: str | None) -> tuple[str, str]:
    """``ID VERSION_ID`` as two; two empty ones for None."""
    if text is None:
        return "", ""
    parts = text.split()
    if len(parts) != 2:
        raise UsageError(f"{text!r} is no ID and VERSION", where="--os", try_next="'debian 12'")
    return parts[0], parts[1]


def _platform(platform: str, folder: Path | None) -> PlatformSpec:
    from fabric_tools.platforms import load_platforms

    known = load_platforms(folder)
    if platform not in known:
        raise UsageError(f"no platform {platform!r}; there are {', '.join(sorted(known))}")
    return known[platform]


def _consent(reason: str) -> str:
    """The reason by the same rule as in the inventory."""
    from pydantic import ValidationError

    from fabric_tools.models.inventory import AllowEol
    from fabric_tools.yaml_file import first_problem

    if not reason:
        return ""
    try:
        return AllowEol(reason=reason).reason
    except ValidationError as error:
        raise UsageError(first_problem(error), where="--allow-eol") from error
