"""The report for people: faults first, each with what was expected, seen, where, and what to do."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fabric_tools.models.report import Decision, HostReport, Report
from fabric_tools.models.verdict import Status
from fabric_tools.report.text import (
    Group,
    actual,
    closing,
    evidence_text,
    groups,
    origin,
    printable,
    quiet_lines,
    verdict_line,
    waiver_line,
)

STYLES = {
    Status.FAIL: "bold red",
    Status.UNKNOWN: "bold magenta",
    Status.WARN: "yellow",
    Status.NOT_APPLICABLE: "dim",
    Status.PASS: "green",
}
_QUIET = (Status.PASS, Status.NOT_APPLICABLE)


def show(report: Report, console: Console, *, verbose: bool = False) -> None:
    """Print the report. ``verbose`` also lists what passed."""
    if report.as_of_given:
        text = f"JUDGED AS OF {report.as_of:%Y-%m-%d %H:%M %Z}, not now"
        console.print(Text(text, "bold yellow"))
    for host in report.hosts:
        _Host(console, verbose).show(host)
    console.print(Text(verdict_line(report), "bold green" if not report.exit_code else "bold red"))


def lines(report: Report, width: int = 120) -> list[str]:
    """The report as plain text, for a log."""
    text = StringIO()
    show(report, Console(file=text, width=width, color_system=None, highlight=False))
    return [line.rstrip() for line in text.getvalue().splitlines()]


class _Host:
    """Prints one host; a fault told under one gate is only named under the next."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self._console, self._verbose = console, verbose
        self._told: dict[object, str] = {}

    def show(self, host: HostReport) -> None:
        head = Text.assemble((printable(host.host), "bold"), "  ", printable(_platform(host)))
        self._console.print(head)
        where = origin(host)
        if where:
            self._console.print(Text(where, "dim"))
        for decision in host.decisions:
            self._console.print()
            self._decision(decision)
        for waiver in host.waivers:
            style = "bold red" if waiver.kind == "break_glass" else "yellow"
            self._console.print(Text(waiver_line(waiver, host.waiver_name), style))

    def _decision(self, decision: Decision) -> None:
        found = groups(decision)
        for group in found:
            if self._verbose or group.waived_by or group.status not in _QUIET:
                self._group(decision.phase, group)
        for line in quiet_lines(decision):
            kind = line.partition(":")[0]
            if not (self._verbose and kind != "not measured"):
                self._indented(Text(printable(line), "green" if kind == "passed" else "dim"), 2)
        self._console.print(Text(closing(decision), "bold green" if decision.open else "bold red"))

    def _group(self, phase: str, group: Group) -> None:
        word = group.status.value.upper().replace("_", " ")
        key = (group.checks[0], group.status, group.first.actual, group.waived_by)
        before = self._told.setdefault(key, phase)
        head = Text.assemble(
            (f"{word:8}", STYLES[group.status]), " ", (", ".join(group.checks), "bold"), "  ",
            printable(group.subjects), (f"  as under {before}" if before != phase else "", "dim"),
            ("  WAIVED" if group.waived_by else "", "bold red"),
        )  # fmt: skip
        self._indented(head, 2)
        if before == phase:
            self._indented(_details(group), 11)

    def _indented(self, what: RenderableType, left: int) -> None:
        self._console.print(Padding(what, (0, 0, 0, left), expand=False))


def _platform(host: HostReport) -> str:
    choice = host.platform
    return f"{choice.id} ({choice.why})" if choice.id else f"platform unknown: {choice.why}"


def _details(group: Group) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    first = group.first
    details = [("expected", first.expected if len(group.checks) == 1 else "")]
    details += [("actual", actual(group))]
    details += [("evidence", evidence_text(item)) for item in group.evidence]
    details += [("remedy", first.remedy), ("WAIVED", group.waived_by)]
    for name, value in details:
        if value:
            rows.add_row(name, Text(printable(value)))
    return rows
