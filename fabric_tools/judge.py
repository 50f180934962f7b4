"""From one snapshot to one host's report: read facts, run the checks, let the gate decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import NODE, SECTIONS, Check, Finding, unknown
from fabric_tools.detect import choose_platform
from fabric_tools.errors import Exit, InternalError
from fabric_tools.gate import Expectation, decide
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Decision, HostReport, ProbeSummary
from fabric_tools.models.snapshot import ProbeStatus, Snapshot
from fabric_tools.models.verdict import Evidence, Status, Verdict, Waiver
from fabric_tools.parsers.base import clean_lines
from fabric_tools.parsers.reader import Facts, Missing, describe
from fabric_tools.phases import BY_ID as PHASES
from fabric_tools.phases import Phase
from fabric_tools.probes import BY_ID as PROBES

_EVIDENCE_CHARS = 200
#: Clocks of a node and its controller may differ by this much before it is a finding.
_CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Question:
    """What to judge a snapshot by. ``as_of`` is the only time there is.

    ``waiver_name`` is the inventory name that the operator gave, never one that the node claims.
    """

    phases: tuple[Phase, ...]
    platforms: dict[str, PlatformSpec]
    host: str
    as_of: datetime
    declared: str | None = None
    waiver_name: str = ""
    waivers: tuple[Waiver, ...] = field(default=())


def judge(snapshot: Snapshot, question: Question) -> HostReport:
    """The report on one node. The same inputs always give the same report.

    Raises ``InternalError`` naming the check when a check or parser raises anything of its own: a
    crash must never look like a verdict.
    """
    facts = Facts(snapshot)
    spec, choice = choose_platform(facts, question.platforms, question.declared)
    decisions = tuple(
        _in_time(_phase(phase, facts, spec, choice.why, question), snapshot, question.as_of)
        for phase in question.phases
    )
    return HostReport(
        host=question.host,
        waiver_name=question.waiver_name,
        identity=snapshot.host,
        source=snapshot.source,
        taken_at=snapshot.started_at,
        redacted=snapshot.redacted,
        platform=choice,
        decisions=decisions,
        probes=_probes(facts),
        waivers=question.waivers,
    )


def _in_time(decision: Decision, snapshot: Snapshot, as_of: datetime) -> Decision:
    """A snapshot from after the moment of judgement has a wrong clock or was made up."""
    taken = snapshot.started_at
    if taken is None or taken <= as_of + _CLOCK_SKEW:
        return decision
    reason = f"the snapshot was taken at {taken:%Y-%m-%d %H:%M}, after this judgement"
    return decision.model_copy(
        update={
            "open": False,
            "exit_code": decision.exit_code or Exit.UNKNOWN,
            "reasons": (*decision.reasons, reason),
        }
    )


def _phase(
    phase: Phase, facts: Facts, spec: PlatformSpec | None, why: str, question: Question
) -> Decision:
    checks = for_phase(phase)
    if spec is None and checks:
        return _untold(phase, checks, facts, why)
    verdicts: list[Verdict] = []
    expected: list[Expectation] = []
    for item in checks:
        assert spec is not None
        expected.append(Expectation(item.id, item.subjects(spec), item.waivable))
        verdicts += _run(item, facts, spec)
    decision = decide(
        phase, expected, verdicts, question.waivers, host=question.waiver_name, as_of=question.as_of
    )
    # Every check so far only reads; an active phase is not proved by that.
    return decision.model_copy(update={"passive_only": PHASES[phase].active})


def _untold(phase: Phase, checks: Sequence[Check], facts: Facts, why: str) -> Decision:
    """Without a platform there is nothing to compare with: closed, whatever the rest says.

    Checks that need no platform run all the same: a driver that does not answer is why no GPU was
    seen, and stands first.
    """
    verdicts = [
        verdict for item in checks if item.needs_no_platform for verdict in _run(item, facts, None)
    ]
    failed = [verdict.check for verdict in verdicts if verdict.status is Status.FAIL]
    verdict = Verdict(
        check="host.platform",
        subject="node",
        status=Status.UNKNOWN,
        expected="a known platform",
        actual=why,
        remedy="record `nvidia-smi -q -x` as nvidia_smi_q.xml or `lspci -D -nn -vv` as lspci.txt; "
        "name the platform with --platform, or add a platform file for this machine",
    )
    reasons = [f"failed: {', '.join(dict.fromkeys(failed))}"] if failed else []
    return Decision(
        phase=phase,
        open=False,
        passive_only=PHASES[phase].active,
        exit_code=Exit.CLOSED if failed else Exit.UNKNOWN,
        reasons=(*reasons, "the platform is not known"),
        verdicts=(*verdicts, verdict),
    )


def _run(item: Check, facts: Facts, spec: PlatformSpec | None) -> list[Verdict]:
    """Verdicts of one check; ``spec`` may be None for one that needs no platform."""
    subjects = item.subjects(spec) if spec else (NODE,)
    why_not = item.not_applicable(spec) if spec else ""
    if why_not:
        return [
            Verdict(check=item.id, subject=s, status=Status.NOT_APPLICABLE, actual=why_not)
            for s in subjects
        ]
    try:
        arguments = _arguments(item, facts, spec)
        if isinstance(arguments, Missing):
            findings: Iterable[Finding] = [unknown(subject, arguments) for subject in subjects]
        else:
            findings = list(item.run(**arguments))
    except Exception as error:
        raise InternalError(
            f"check {item.id} raised {type(error).__name__}: {error}",
            try_next="this is a bug: report it with the snapshot (collect --redact)",
        ) from error
    return [_verdict(item, finding, facts.snapshot) for finding in findings]


def _arguments(item: Check, facts: Facts, spec: PlatformSpec | None) -> dict[str, object] | Missing:
    """What to call the check with, or the first fact that it cannot do without."""
    arguments: dict[str, object] = {}
    for parameter in item.parameters:
        if parameter.kind is PlatformSpec:
            value: object = spec
        elif parameter.kind in SECTIONS:
            value = getattr(spec, SECTIONS[parameter.kind])
        else:
            value = facts.get(parameter.kind)
        if isinstance(value, Missing) and not parameter.tolerant:
            return value
        arguments[parameter.name] = value
    return arguments


def _verdict(item: Check, finding: Finding, snapshot: Snapshot) -> Verdict:
    if finding.status in (Status.PASS, Status.NOT_APPLICABLE):
        remedy = ""
    elif finding.status is Status.UNKNOWN and not finding.remedy:
        remedy = _how_to_read(finding, snapshot)
    else:
        remedy = finding.remedy or item.remedy
    return Verdict(
        check=item.id,
        subject=finding.subject,
        status=finding.status,
        expected=finding.expected,
        actual=finding.actual,
        evidence=tuple(_quote(evidence, snapshot) for evidence in finding.evidence),
        remedy=remedy,
    )


_REMEDIES = {
    ProbeStatus.ABSENT: "install the tool on the node, or find out why the file is not there",
    ProbeStatus.DENIED: "read the node as root (sudo)",
    ProbeStatus.TIMEOUT: "the tool hangs, which is a finding: read dmesg for Xid 119 or 79, reboot",
    ProbeStatus.CUT: "read it again; if it stays, run the command by hand and look at its size",
    ProbeStatus.FAILED: "run the command by hand and read its error",
    ProbeStatus.ERROR: "run the command by hand and read its error",
}


def _how_to_read(finding: Finding, snapshot: Snapshot) -> str:
    """UNKNOWN asks for a better reading of the node, not for a repair of it."""
    name = finding.evidence[0].probe if finding.evidence else ""
    probe, result = PROBES.get(name), snapshot.probes.get(name)
    if probe is None:
        return ""
    if "nvidia-smi said" in finding.actual:
        return "nvidia-smi answered with an error: mend that first, see driver.answers"
    if result is not None and result.status is not ProbeStatus.OK:
        return _REMEDIES[result.status]
    command = f"`{' '.join(probe.argv)}`" if probe.argv else "fabric-collect.pyz"
    if probe.kind == "file":
        command = f"the file {probe.argv[0]}"
    return f"record the whole of {command}" + (f" as {probe.files[0]}" if probe.files else "")


def _quote(evidence: Evidence, snapshot: Snapshot) -> Evidence:
    """Add the line itself, bounded. Control characters are left to the report that shows it."""
    result = snapshot.probes.get(evidence.probe)
    if result is None or evidence.line < 1:
        return evidence
    lines = clean_lines(result.stdout)
    if evidence.line > len(lines):
        return evidence
    text = lines[evidence.line - 1].strip()[:_EVIDENCE_CHARS]
    return evidence.model_copy(update={"text": text})


def _probes(facts: Facts) -> tuple[ProbeSummary, ...]:
    return tuple(
        ProbeSummary(
            id=name,
            status=result.status,
            note=facts.notes.get(name, "")
            or ("" if result.status is ProbeStatus.OK else describe(name, result)),
            duration_s=result.duration_s,
        )
        for name, result in facts.snapshot.probes.items()
    )
