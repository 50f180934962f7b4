"""What ``validate`` does after its arguments are parsed: gather the inputs, judge, print."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fabric_tools import __version__
from fabric_tools.checks import CHECKS
from fabric_tools.cli.reach import Reach
from fabric_tools.declared import refuse_unknown_platform, refuse_unknown_waivers
from fabric_tools.errors import Exit, UsageError, worst
from fabric_tools.judge import Question, Reading, judge_fleet
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Report
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Waiver
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.report.text import printable
from fabric_tools.stacks import load_stacks, one_stack
from fabric_tools.transport.files import parse_snapshot, read_folder, read_snapshot
from fabric_tools.yaml_file import load_model


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of ``validate`` that are not about reaching the node."""

    phases: tuple[Phase, ...]
    platform: str | None
    gpus: int | None
    before: Path | None
    platforms_dir: Path | None
    stacks_dir: Path | None
    host_vars: Path | None
    name: str | None
    as_of: str | None
    break_glass: tuple[tuple[str, ...], str, int] | None


def judge_and_print(
    request: Request,
    snapshots: Sequence[Path],
    reach: Reach,
    output_format: str,
    *,
    verbose: bool,
) -> int:
    """Judge the nodes and print the report. Returns the exit code."""
    if request.as_of is not None and not snapshots:
        raise UsageError("a live node is judged as of now", where="--as-of")
    as_of = _time(request.as_of)
    platforms = load_platforms(request.platforms_dir)
    stacks = load_stacks(request.stacks_dir)
    site = HostVars()
    if request.host_vars:
        site = load_model(request.host_vars, HostVars, key="fabric_host")
    site = declared(site, request, platforms)
    if site.stack is not None:
        one_stack(site.stack, stacks)
    waivers = (*site.waivers, *broken_glass(request.break_glass, as_of))
    refuse_unknown_waivers(waivers)
    before = _before(request.before)
    asked = []
    for label, reading in _readings(snapshots, reach):
        name = request.name or reading.snapshot.host.hostname or label
        question = Question(
            phases=request.phases,
            platforms=platforms,
            host=f"{name} @ {reading.moment}" if reading.moment else name,
            waiver_name=request.name or _alias(reach.host),
            as_of=as_of,
            site=site,
            waivers=waivers,
            stacks=stacks,
        )
        _earlier(before, reading.snapshot)
        asked.append((replace(reading, before=before), question))
    hosts = judge_fleet(_named_apart(asked))
    code = worst([Exit(decision.exit_code) for host in hosts for decision in host.decisions])
    report = Report(
        tool_version=__version__,
        as_of=as_of,
        as_of_given=request.as_of is not None,
        hosts=hosts,
        exit_code=code,
    )
    print_report(report, output_format, verbose=verbose)
    return code


def _readings(paths: Sequence[Path], reach: Reach) -> list[tuple[str, Reading]]:
    """Each reading with the name to call it by where the node does not say its own."""
    if not paths:
        where = reach.host or "localhost"
        return [(where, Reading(parse_snapshot(reach.snapshot_text(), where)))]
    found = []
    for path in paths:
        folder = read_folder(path)
        for note in (*folder.notes, *_unjudged(folder.readings)):
            print(f"fabric-tools: {path}: {printable(note)}", file=sys.stderr)
        found += [(_label(path), reading) for reading in folder.readings]
    return found


def _unjudged(readings: Sequence[Reading]) -> list[str]:
    """So that nobody takes a fault in such an output for judged."""
    judged = {probe for item in CHECKS for probe in item.probes}
    found = {probe for reading in readings for probe in reading.snapshot.probes}
    return [f"{probe}: known, but no check judges it yet" for probe in sorted(found - judged)]


def _named_apart(asked: list[tuple[Reading, Question]]) -> list[tuple[Reading, Question]]:
    """Two hosts of one name would be compared as one."""
    names = Counter(question.host for _, question in asked)
    seen: Counter[str] = Counter()
    found = []
    for reading, question in asked:
        seen[question.host] += 1
        if names[question.host] > 1:
            question = replace(question, host=f"{question.host} ({seen[question.host]})")
        found.append((reading, question))
    return found


def _earlier(before: Snapshot | None, now: Snapshot) -> None:
    """Raises ``UsageError`` where the reading before is not an earlier one of the same node."""
    if before is None:
        return
    mine, other = now.host.machine_id, before.host.machine_id
    if mine and other and mine != other and now.redacted == before.redacted:
        raise UsageError("is of another machine (machine_id differs)", where="--before")
    if _texts(before) == _texts(now):
        raise UsageError(
            "is the same reading: every text is identical", where="--before",
            try_next="give one that was taken earlier",
        )  # fmt: skip
    if before.started_at is None or now.started_at is None:
        return
    if before.started_at >= now.started_at:
        taken = f"{before.started_at:%Y-%m-%d %H:%M:%S}"
        raise UsageError(f"taken at {taken}, which is not before the other", where="--before")


def _texts(snapshot: Snapshot) -> dict[str, str]:
    return {name: result.stdout for name, result in snapshot.probes.items()}


def _before(path: Path | None) -> Snapshot | None:
    return read_snapshot(path) if path else None


def _alias(target: str | None) -> str:
    """The host as the operator typed it, without user and port: never what the node says it is."""
    from fabric_tools.transport.ssh_config import split_target

    return split_target(target)[1] if target else ""


def _label(snapshot: Path) -> str:
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


def declared(site: HostVars, request: Request, platforms: dict[str, PlatformSpec]) -> HostVars:
    """What the command line says goes before the inventory."""
    said = {"platform": request.platform, "gpu_count": request.gpus}
    site = site.model_copy(update={name: v for name, v in said.items() if v is not None})
    refuse_unknown_platform(site, platforms)
    return site


def broken_glass(
    wanted: tuple[tuple[str, ...], str, int] | None, as_of: datetime
) -> tuple[Waiver, ...]:
    """``--break-glass``, ``--reason`` and ``--hours`` as waivers. Raises ``UsageError``."""
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


def print_report(report: Report, output_format: str, *, verbose: bool) -> None:
    """In the format that was asked for, on standard output."""
    if output_format == "json":
        from fabric_tools.report import jsontext

        print(jsontext.render(report))
    elif output_format == "junit":
        from fabric_tools.report import junit

        print(junit.render(report), end="")
    elif output_format == "markdown":
        from fabric_tools.report import markdown

        print(markdown.render(report), end="")
    elif output_format == "html":
        from fabric_tools.report import html

        print(html.render(report), end="")
    else:
        from fabric_tools.cli.output import terminal
        from fabric_tools.report import console

        console.show(report, terminal(), verbose=verbose)
