"""What the HTML page says of one host, put together for its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fabric_tools.errors import SEVERITY, Exit, worst
from fabric_tools.models.report import Decision, HostReport
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.report.text import Group, actual, address, evidence_text, groups, origin, subjects

_EVERY = 10_000
_FEW = 4
QUIET = (Status.PASS, Status.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to read. ``as_under`` is the gate that told it before, ``anchor`` where."""

    status: str
    word: str
    checks: tuple[str, ...]
    subjects: str
    anchor: str
    as_under: str = ""
    waived_by: str = ""
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()
    more_evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quiet:
    """One line of what needs no look."""

    check: str
    subjects: str
    expected: str
    actual: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One decision as the page shows it. ``css``: open, closed, unknown or waived."""

    phase: str
    css: str
    word: str
    decision: Decision
    findings: tuple[Finding, ...]
    passed: tuple[Quiet, ...]
    not_applicable: tuple[Quiet, ...]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class HostView:
    """One host."""

    anchor: str
    host: HostReport
    css: str
    word: str
    where: str
    gates: tuple[Gate, ...]
    first: str
    probes: tuple[tuple[str, str], ...] = field(default=())

    def gate(self, phase: str) -> Gate | None:
        """The gate of that phase, where it was asked for."""
        return next((gate for gate in self.gates if gate.phase == phase), None)


def view(host: HostReport, anchor: str) -> HostView:
    """Closed gates first, each with its faults first; a fault that two gates share is told once."""
    told: dict[tuple[Verdict, ...], tuple[str, str]] = {}
    ordered = sorted(host.decisions, key=lambda d: _severity(d.exit_code, d.open))
    gates = tuple(_gate(decision, f"{anchor}-{n}", told) for n, decision in enumerate(ordered))
    code = worst([Exit(decision.exit_code) for decision in host.decisions])
    closed = [gate for gate in gates if not gate.decision.open]
    css = closed[0].css if closed else "open" if gates else "unknown"
    css = "waived" if css == "open" and any(gate.css == "waived" for gate in gates) else css
    return HostView(
        anchor=anchor,
        host=host,
        css=css,
        word=f"{len(closed)} of {len(gates)} gates CLOSED" if closed else _open_word(css, code),
        where=origin(host),
        gates=gates,
        first=_first(closed),
        probes=tuple((p.id, p.note or p.status.value) for p in host.probes if p.note),
    )


def severity(found: HostView) -> int:
    """For sorting: closed by a fault, closed because it could not tell, open."""
    return min((_severity(g.decision.exit_code, g.decision.open) for g in found.gates), default=0)


def _severity(code: int, is_open: bool) -> int:
    # A code that is not in the list sorts first: it is not understood.
    place = SEVERITY.index(Exit(code)) if code in list(SEVERITY) else -1
    return place if not is_open else len(SEVERITY)


def _open_word(css: str, code: Exit) -> str:
    if code is not Exit.OPEN:
        return "NOTHING JUDGED"
    return "OPEN, WITH FAULTS WAIVED" if css == "waived" else "OPEN"


def _first(closed: Sequence[Gate]) -> str:
    """The first thing to know of a host: why its worst gate is closed."""
    if not closed:
        return ""
    return f"{closed[0].phase}: {next(iter(closed[0].decision.reasons), 'no reason given')}"


def _gate(
    decision: Decision, anchor: str, told: dict[tuple[Verdict, ...], tuple[str, str]]
) -> Gate:
    findings, passed, absent = [], [], []
    for number, group in enumerate(groups(decision)):
        if group.waived_by or group.status not in QUIET:
            findings.append(_finding(group, f"{anchor}-{number}", decision.phase, told))
        elif group.status is Status.PASS:
            passed.append(_quiet(group))
        else:
            absent.append(_quiet(group))
    css = _css(decision)
    word = "OPEN" if decision.open else "CLOSED"
    word += ", WAIVED" if css == "waived" else ""
    word += " (passive part)" if decision.open and decision.passive_only else ""
    return Gate(
        phase=decision.phase,
        css=css,
        word=word,
        decision=decision,
        findings=tuple(findings),
        passed=tuple(passed),
        not_applicable=tuple(absent),
        counts=_counts(decision.verdicts),
    )


def _css(decision: Decision) -> str:
    if not decision.open:
        return "unknown" if decision.exit_code == Exit.UNKNOWN else "closed"
    return "waived" if any(verdict.waived_by for verdict in decision.verdicts) else "open"


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    found: dict[str, int] = {}
    for verdict in verdicts:
        name = "waived" if verdict.waived_by else verdict.status.value
        found[name] = found.get(name, 0) + 1
    return found


def _finding(
    group: Group, anchor: str, phase: str, told: dict[tuple[Verdict, ...], tuple[str, str]]
) -> Finding:
    before, where = told.setdefault(group.verdicts, (phase, anchor))
    again = (before, where) != (phase, anchor)
    evidence = tuple(
        dict.fromkeys(evidence_text(item) for v in group.verdicts for item in v.evidence)
    )
    rows = [
        ("subjects", () if _same_subjects(group) else _by_subjects(group)),
        ("expected", _values(group, lambda verdict: verdict.expected)),
        ("actual", _actual(group)),
        ("evidence", evidence[:_FEW]),
        ("remedy", (group.first.remedy,)),
    ]
    return Finding(
        status=group.status.value,
        word=group.status.value.upper().replace("_", " "),
        checks=group.checks,
        subjects=_subjects(_of(group, group.checks[0])) if _same_subjects(group) else "",
        anchor=where if again else anchor,
        as_under=before if again else "",
        waived_by=group.waived_by,
        rows=() if again else tuple((name, lines) for name, lines in rows if any(lines)),
        more_evidence=() if again else evidence[_FEW:],
    )


def _of(group: Group, check: str) -> list[Verdict]:
    return [verdict for verdict in group.verdicts if verdict.check == check]


def _same_subjects(group: Group) -> bool:
    """Whether all checks of the group speak of the same ones, so that they need be told once."""
    return len({_subjects(_of(group, check)) for check in group.checks}) == 1


def _by_subjects(group: Group) -> tuple[str, ...]:
    """Who is spoken of by which checks, where not all speak of the same ones."""
    found: dict[str, list[str]] = {}
    for check in group.checks:
        found.setdefault(_subjects(_of(group, check)), []).append(check)
    return tuple(f"{who}: {', '.join(checks)}" for who, checks in found.items())


def _values(group: Group, of: Callable[[Verdict], str]) -> tuple[str, ...]:
    """The one value of all, or each value with those that have it."""
    found: dict[str, list[Verdict]] = {}
    for verdict in group.verdicts:
        found.setdefault(of(verdict), []).append(verdict)
    if len(found) == 1:
        return tuple(found)
    several = len(group.checks) > 1
    return tuple(f"{_who(have, several)}: {value}" for value, have in found.items() if value)


def _actual(group: Group) -> tuple[str, ...]:
    """What was seen, and below it what only tells the subjects apart: their bus addresses."""
    same = actual(group)
    found = {v.subject: address(v) for v in group.verdicts if v.actual != same}
    apart = ", ".join(f"{subject} at {where}" for subject, where in found.items() if where)
    return (same, apart) if apart else (same,)


def _who(verdicts: Sequence[Verdict], several: bool) -> str:
    """Checks where the group is of several, else subjects."""
    if several:
        return ", ".join(dict.fromkeys(verdict.check for verdict in verdicts))
    return _subjects(verdicts)


def _subjects(verdicts: Sequence[Verdict]) -> str:
    return subjects([verdict.subject for verdict in verdicts], _EVERY)


def _quiet(group: Group) -> Quiet:
    evidence = group.evidence
    return Quiet(
        check=", ".join(group.checks),
        subjects=_subjects(group.verdicts),
        expected="; ".join(_values(group, lambda verdict: verdict.expected)),
        actual=actual(group),
        evidence=evidence_text(evidence[0]) if evidence else "",
    )
