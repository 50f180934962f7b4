"""The report as Markdown, for tickets and runbook notes."""

from __future__ import annotations

import re

from fabric_tools.models.report import Decision, Report
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


def render(report: Report) -> str:
    """Faults in full, what passed by name."""
    lines: list[str] = []
    for host in report.hosts:
        lines += [f"# {_code(host.host)}", ""]
        lines += [f"Platform: {_safe(host.platform.id or 'unknown')}: {_code(host.platform.why)}"]
        lines += [f"Source: {_code(origin(host))}"] if origin(host) else []
        for decision in host.decisions:
            lines += ["", *_decision(decision)]
        for waiver in host.waivers:
            lines.append(f"- {_code(waiver_line(waiver, host.waiver_name))}")
    return "\n".join([*lines, "", f"**{verdict_line(report)}**", ""])


def _decision(decision: Decision) -> list[str]:
    lines = [f"## {_safe(closing(decision))}", ""]
    found = groups(decision)
    loud = [g for g in found if g.waived_by or g.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    if loud:
        lines += ["| verdict | check | subject | expected | actual | evidence | remedy |"]
        lines += ["|---|---|---|---|---|---|---|", *(_row(group) for group in loud)]
    for line in quiet_lines(decision):
        lines += ["", _safe(line[0].upper() + line[1:])]
    return lines


def _row(group: Group) -> str:
    word = group.status.value.upper() + (f" (WAIVED: {group.waived_by})" if group.waived_by else "")
    first = group.first
    evidence = "; ".join(evidence_text(item) for item in group.evidence)
    ours = [_safe(cell) for cell in (word, ", ".join(group.checks), group.subjects, first.expected)]
    theirs = [_code(actual(group)), _code(evidence)]
    return "| " + " | ".join([*ours, *theirs, _safe(first.remedy)]) + " |"


def _code(text: str) -> str:
    """A node's words in a code span, where no address becomes a link and no name a mention."""
    shown = printable(text).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def _safe(text: str) -> str:
    """Text that Markdown shows as it is: a node cannot make a link, a table cell or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", printable(text))
