"""What ``validate`` does after its arguments are parsed: gather the inputs, judge, print."""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fabric_tools import __version__
from fabric_tools.checks import BY_ID
from fabric_tools.cli.reach import Reach
from fabric_tools.errors import Exit, UsageError, worst
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Report
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Waiver
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.report.text import printable
from fabric_tools.transport.files import parse_snapshot, read_snapshot, unrecognised
from fabric_tools.yaml_file import load_model


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of ``validate`` that are not about reaching the node."""

    phases: tuple[Phase, ...]
    platform: str | None
    platforms_dir: Path | None
    host_vars: Path | None
    name: str | None
    as_of: str | None
    break_glass: tuple[tuple[str, ...], str, int] | None


def judge_and_print(
    request: Request, snapshot: Path | None, reach: Reach, output_format: str, *, verbose: bool
) -> int:
    """Judge one node and print the report. Returns the exit code."""
    if request.as_of is not None and snapshot is None:
        raise UsageError("a live node is judged as of now", where="--as-of")
    as_of = _time(request.as_of)
    platforms = load_platforms(request.platforms_dir)
    site = HostVars()
    if request.host_vars:
        site = load_model(request.host_vars, HostVars, key="fabric_host")
    declared = _declared(request.platform or site.platform, platforms)
    waivers = (*site.waivers, *_broken_glass(request.break_glass, as_of))
    for waiver in waivers:
        _check_exists(waiver.check)
    read = _snapshot(snapshot, reach)
    question = Question(
        phases=request.phases,
        platforms=platforms,
        host=request.name or read.host.hostname or _label(snapshot, reach),
        waiver_name=request.name or _alias(reach.host),
        as_of=as_of,
        declared=declared,
        waivers=waivers,
    )
    host = judge(read, question)
    code = worst([Exit(decision.exit_code) for decision in host.decisions])
    report = Report(
        tool_version=__version__,
        as_of=as_of,
        as_of_given=request.as_of is not None,
        hosts=(host,),
        exit_code=code,
    )
    _print(report, output_format, verbose=verbose)
    return code


def _snapshot(path: Path | None, reach: Reach) -> Snapshot:
    if path is None:
        return parse_snapshot(reach.snapshot_text(), reach.host or "localhost")
    read = read_snapshot(path)
    if path.is_dir() and read.source.kind != "node":
        strange = unrecognised(path)
        if strange:
            names = printable(", ".join(strange))
            hint = "(known names: fabric-tools probes)"
            print(
                f"fabric-tools: {path}: not read, name not known: {names} {hint}", file=sys.stderr
            )
    return read


def _alias(target: str | None) -> str:
    """The host as the operator typed it, without user and port: never what the node says it is."""
    from fabric_tools.transport.ssh_config import split_target

    return split_target(target)[1] if target else ""


def _label(snapshot: Path | None, reach: Reach) -> str:
    if snapshot is None:
        return reach.host or "localhost"
    if str(snapshot) == "-":
        return "stdin"
    return snapshot.resolve().name.encode("utf-8", "replace").decode()


def _time(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no time", where="--as-of", try_next="write 2026-11-30T14:00:00Z"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _declared(platform: str | None, platforms: dict[str, PlatformSpec]) -> str | None:
    if platform is not None and platform not in platforms:
        raise UsageError(f"no platform {platform!r}; there are {', '.join(sorted(platforms))}")
    return platform


def _broken_glass(
    wanted: tuple[tuple[str, ...], str, int] | None, as_of: datetime
) -> tuple[Waiver, ...]:
    if wanted is None:
        return ()
    checks, reason, hours = wanted
    if not reason.strip():
        raise UsageError("--break-glass needs a --reason", where=", ".join(checks))
    return tuple(
        Waiver(
            check=check,
            reason=reason,
            owner=getpass.getuser(),
            expires=_later(as_of, hours),
            kind="break_glass",
        )
        for check in checks
    )


def _later(as_of: datetime, hours: int) -> datetime:
    try:
        return as_of + timedelta(hours=hours)
    except OverflowError as error:
        raise UsageError("too far in the future", where="--as-of") from error


def _check_exists(check: str) -> None:
    if check not in BY_ID:
        raise UsageError(
            f"no check {check!r}", where="waiver", try_next="see `fabric-tools checks`"
        )
    if not BY_ID[check].waivable:
        raise UsageError(f"{check} can never be waived", where="waiver")


def _print(report: Report, output_format: str, *, verbose: bool) -> None:
    if output_format == "json":
        from fabric_tools.report import jsontext

        print(jsontext.render(report))
    elif output_format == "junit":
        from fabric_tools.report import junit

        print(junit.render(report), end="")
    elif output_format == "markdown":
        from fabric_tools.report import markdown

        print(markdown.render(report), end="")
    else:
        from fabric_tools.cli.output import terminal
        from fabric_tools.report import console

        console.show(report, terminal(), verbose=verbose)
