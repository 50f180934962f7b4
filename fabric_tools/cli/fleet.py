"""``validate -i``: read the nodes of an inventory at once and judge them together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import SecretStr

from fabric_tools import __version__
from fabric_tools.cli.judging import Request, broken_glass, declared, print_report
from fabric_tools.cli.reach import Reach, Sources, Transport
from fabric_tools.declared import refuse_unknown_waivers
from fabric_tools.errors import Exit, FabricToolsError, InternalError, UsageError, worst
from fabric_tools.judge import Asked, Question, Reading, judge_fleet
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Decision, HostReport, PlatformChoice, Report
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.stack import StackLock
from fabric_tools.node.bundle import zipapp_bytes
from fabric_tools.platforms import load_platforms
from fabric_tools.report.text import printable
from fabric_tools.stacks import load_stacks, one_stack
from fabric_tools.transport.collect import Sudo
from fabric_tools.transport.connection import Connection
from fabric_tools.transport.files import parse_snapshot
from fabric_tools.transport.fleet import Answer, Target, collect_all

if TYPE_CHECKING:
    from fabric_tools.ansible.inventory import Node


def judge_inventory(
    request: Request, sources: Sources, reach: Reach, output_format: str, *, verbose: bool
) -> int:
    """Judge every host and print the report. Returns the worst exit code."""
    report = report_on_inventory(request, sources, reach)
    print_report(report, output_format, verbose=verbose)
    return report.exit_code


def report_on_inventory(request: Request, sources: Sources, reach: Reach) -> Report:
    """Read and judge every host.

    A host that is not reached is in the report with the reason, and hides no other.
    """
    from fabric_tools.ansible.inventory import read_inventory

    platforms = load_platforms(request.platforms_dir)
    nodes = read_inventory(sources.inventories, sources.limit, sources.vault_files)
    stacks = load_stacks(request.stacks_dir)
    if request.break_glass and len(nodes) != 1:
        names = f"{len(nodes)} hosts are named"
        raise UsageError(f"--break-glass is about one host, {names}", try_next="--limit HOST")
    questions = {node.name: _question(node, request, platforms, stacks) for node in nodes}
    password = reach.password()
    targets = [_target(node, reach, password) for node in nodes]
    answers = collect_all(targets, zipapp_bytes(), _progress)
    as_of = datetime.now(UTC)
    hosts = _reports(answers, questions, as_of)
    code = worst([Exit(decision.exit_code) for host in hosts for decision in host.decisions])
    return Report(tool_version=__version__, as_of=as_of, hosts=hosts, exit_code=code)


def read_fleet(
    sources: Sources, reach: Reach
) -> list[tuple[str, HostVars, Snapshot | FabricToolsError]]:
    """Every host of an inventory with what it declares, and its snapshot or why there is none."""
    from fabric_tools.ansible.inventory import read_inventory

    nodes = read_inventory(sources.inventories, sources.limit, sources.vault_files)
    password = reach.password()
    targets = [_target(node, reach, password) for node in nodes]
    answers = {answer.name: answer for answer in collect_all(targets, zipapp_bytes(), _progress)}
    return [(node.name, node.site, _snapshot(answers[node.name])) for node in nodes]


def _snapshot(answer: Answer) -> Snapshot | FabricToolsError:
    try:
        return answer.error or parse_snapshot(answer.text, answer.name)
    except FabricToolsError as wrong:
        return wrong


def _question(
    node: Node,
    request: Request,
    platforms: dict[str, PlatformSpec],
    stacks: dict[str, StackLock],
) -> Question:
    site = declared(node.site, request, platforms)
    if site.stack is not None:
        one_stack(site.stack, stacks)
    now = datetime.now(UTC)
    waivers = (*site.waivers, *broken_glass(request.break_glass, now))
    refuse_unknown_waivers(waivers)
    return Question(
        phases=request.phases,
        platforms=platforms,
        host=node.name,
        waiver_name=node.name,
        as_of=now,
        site=site,
        waivers=waivers,
        stacks=stacks,
    )


def _target(node: Node, reach: Reach, password: SecretStr | None) -> Target:
    """The command line goes before the inventory, as with Ansible."""

    def connect() -> Connection:
        from fabric_tools.transport.local import local_connection, openssh_connection
        from fabric_tools.transport.ssh import SshConnection

        if node.local:
            return local_connection()
        if reach.transport is Transport.OPENSSH:
            return openssh_connection(node.address, reach.ssh_config, node.options)
        return SshConnection(node.address, reach.ssh_config, node.options)

    become = reach.sudo and node.become
    return Target(
        node.name, connect, Sudo.AUTO if become else Sudo.NEVER, password or node.password
    )


def _progress(answer: Answer, done: int, total: int) -> None:
    said = printable(str(answer.error)) if answer.error else "read"
    print(
        f"fabric-tools: {done} of {total}: {answer.name}: {said} ({answer.seconds:.0f} s)",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def _reports(
    answers: Sequence[Answer], questions: dict[str, Question], as_of: datetime
) -> tuple[HostReport, ...]:
    """In the order of the inventory. ``as_of`` is after the last snapshot was taken."""
    asked: list[Asked] = []
    lost: dict[str, HostReport] = {}
    for answer in answers:
        question = replace(questions[answer.name], as_of=as_of)
        found = _snapshot(answer)
        if isinstance(found, FabricToolsError):
            lost[answer.name] = _not_reached(question, found)
        else:
            asked.append((Reading(found), question))
    reports = {report.host: report for report in judge_fleet(asked)} | lost
    return tuple(reports[answer.name] for answer in answers)


def _not_reached(question: Question, error: FabricToolsError) -> HostReport:
    """Every gate closed, with the reason. What the inventory says wrongly keeps a node away too."""
    code = Exit.INTERNAL if isinstance(error, InternalError) else Exit.UNREACHABLE
    why = printable(str(error))
    return HostReport(
        host=question.host,
        waiver_name=question.waiver_name,
        platform=PlatformChoice(why="the node was not read"),
        decisions=tuple(
            Decision(phase=phase, open=False, exit_code=code, reasons=(f"not read: {why}",))
            for phase in question.phases
        ),
        waivers=question.waivers,
    )
