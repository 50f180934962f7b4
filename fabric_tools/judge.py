"""From one snapshot to one host's report: read facts, run the checks, let the gate decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fabric_tools.advice import how_to_read
from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import NODE, SECTIONS, Check, Finding, Kind, unknown
from fabric_tools.detect import choose_platform
from fabric_tools.errors import Exit, InternalError
from fabric_tools.gate import Expectation, Fault, decide, faults
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec, Target
from fabric_tools.models.report import Decision, HostReport, ProbeSummary
from fabric_tools.models.snapshot import ProbeStatus, Snapshot, Source
from fabric_tools.models.stack import StackLock
from fabric_tools.models.verdict import Evidence, Status, Verdict, Waiver
from fabric_tools.nodemap import map_node
from fabric_tools.parsers.reader import Facts, Missing, describe
from fabric_tools.phases import BY_ID as PHASES
from fabric_tools.phases import Phase

_EVIDENCE_CHARS = 200
#: Clocks of a node and its controller may differ by this much before it is a finding.
_CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Question:
    """What to judge a snapshot by. ``as_of`` is the only time there is.

    ``waiver_name`` is the inventory name that the operator gave, never one that the node claims.
    ``site`` is what the inventory declares of this host; its waivers are not used, ``waivers`` are.
    ``stacks`` are the known stack locks: a declared stack that is none of them is UNKNOWN.
    """

    phases: tuple[Phase, ...]
    platforms: dict[str, PlatformSpec]
    host: str
    as_of: datetime
    site: HostVars = field(default_factory=HostVars)
    waiver_name: str = ""
    waivers: tuple[Waiver, ...] = field(default=())
    stacks: Mapping[str, StackLock] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of one node.

    ``others`` differ from ``snapshot`` in probes for which more than one text was saved: all are
    judged, and of each verdict the worst counts. ``before`` is an earlier reading, for counters.
    ``moment`` names the occasion where a folder holds several.
    """

    snapshot: Snapshot
    others: tuple[Snapshot, ...] = ()
    before: Snapshot | None = None
    moment: str = ""


Asked = tuple["Reading | Snapshot", Question]


def judge(
    reading: Reading | Snapshot, question: Question, among: Sequence[Asked] = ()
) -> HostReport:
    """The report on one node, compared with those it stands ``among``.

    The same inputs always give the same report. Raises ``InternalError`` naming the check when a
    check or parser raises anything of its own: a crash must never look like a verdict.
    """
    cases = _cases([(reading, question), *among])
    return _report(cases[0], cases)


def judge_fleet(asked: Sequence[Asked]) -> tuple[HostReport, ...]:
    """One report a node, in order; with several nodes they are also compared with each other."""
    cases = _cases(asked)
    return tuple(_report(case, cases) for case in cases)


def _cases(asked: Sequence[Asked]) -> list[_Case]:
    return [
        _Case(item if isinstance(item, Reading) else Reading(item), question)
        for item, question in asked
    ]


class _Case:
    """One node while it is judged: its facts and what it is judged by."""

    def __init__(self, reading: Reading, question: Question) -> None:
        self.reading, self.question = reading, question
        snapshots = (reading.snapshot, *reading.others)
        self.facts = [Facts(snapshot) for snapshot in snapshots]
        self.second = [other for facts in self.facts for other in facts.by_second_sources()]
        self.before = Facts(reading.before) if reading.before else None
        self.targets = [
            choose_platform(facts, question.platforms, question.site, question.stacks)
            for facts in self.facts
        ]
        # A text that says less must not take the platform away from one that says more.
        self.target, self.choice = next(
            (found for found in self.targets if found[0] is not None), self.targets[0]
        )


def _report(case: _Case, cases: Sequence[_Case]) -> HostReport:
    snapshot, question = case.reading.snapshot, case.question
    spoken = [_spoken(phase, case, cases) for phase in question.phases]
    standing = {fault for each in spoken for fault in each.faults}
    decisions = tuple(
        _in_time(_phase(each, case, standing), snapshot, question.as_of) for each in spoken
    )
    return HostReport(
        host=question.host,
        moment=case.reading.moment,
        waiver_name=question.waiver_name,
        identity=snapshot.host,
        source=_source(snapshot, question.site),
        taken_at=snapshot.started_at,
        redacted=snapshot.redacted,
        platform=case.choice,
        decisions=decisions,
        probes=_probes(case.facts[0]),
        waivers=question.waivers,
        map=map_node(case.facts, case.target),
    )


def _source(snapshot: Snapshot, site: HostVars) -> Source:
    """A node that the inventory calls simulated is never shown as a real one."""
    if site.simulated is None or snapshot.source.kind == "lab":
        return snapshot.source
    return Source(kind="lab", note=site.simulated)


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
            "settles_s": 0,
            "reasons": (*decision.reasons, reason),
        }
    )


@dataclass(frozen=True, slots=True)
class _Spoken:
    """What the checks of one phase said, before the gate decides.

    ``skipped``: those that had nothing to judge, each with the reason. ``faults``: what failed.
    """

    phase: Phase
    checks: tuple[Check, ...]
    expected: tuple[Expectation, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    skipped: tuple[str, ...] = ()
    faults: frozenset[Fault] = frozenset()


def _spoken(phase: Phase, case: _Case, cases: Sequence[_Case]) -> _Spoken:
    checks, target, question = for_phase(phase), case.target, case.question
    if target is None:
        return _Spoken(phase, checks)
    verdicts: list[Verdict] = []
    expected: list[Expectation] = []
    skipped: list[str] = []
    for item in checks:
        why = "" if item.not_applicable(target) else _not_measured(item, case, cases)
        if why:
            skipped.append(f"{item.id}: {why}")
            continue
        expected.append(Expectation(item.id, _subjects(item, target), item.waivable))
        verdicts += _run(item, case, cases)
    found = faults(
        expected, verdicts, question.waivers, host=question.waiver_name, as_of=question.as_of
    )
    return _Spoken(
        phase, checks, tuple(expected), tuple(verdicts), tuple(skipped), frozenset(found)
    )


def _phase(spoken: _Spoken, case: _Case, standing: set[Fault]) -> Decision:
    phase, checks, question = spoken.phase, spoken.checks, case.question
    if case.target is None and checks:
        return _untold(phase, checks, case)
    decision = decide(
        phase, spoken.expected, spoken.verdicts, question.waivers, host=question.waiver_name,
        as_of=question.as_of, standing=standing,
    )  # fmt: skip
    skipped = spoken.skipped
    passive = PHASES[phase].active and any(
        item.kind is Kind.ACTIVE for item in checks if _is_skipped(item, skipped)
    )
    if PHASES[phase].active and not any(item.kind is Kind.ACTIVE for item in checks):
        passive = True  # no check under load exists yet, so nothing under load is proved
    return decision.model_copy(update={"passive_only": passive, "not_measured": skipped})


def _is_skipped(item: Check, skipped: Sequence[str]) -> bool:
    return any(text.startswith(f"{item.id}:") for text in skipped)


def _fleet(case: _Case, cases: Sequence[_Case]) -> list[_Case]:
    """The hosts that this one is compared with: of its platform, and no moments of one node."""
    if case.target is None or case.reading.moment:
        return [case]
    return [
        each
        for each in cases
        if each is case
        or (each.target and each.target.id == case.target.id and not each.reading.moment)
    ]


def _subjects(item: Check, target: Target | None) -> tuple[str, ...]:
    """Whom the check must speak of; one that does not apply may have nobody (pairs of one GPU)."""
    if target is None:
        return (NODE,)
    found = item.subjects(target)
    return found or ((NODE,) if item.not_applicable(target) else ())


def _not_measured(item: Check, case: _Case, cases: Sequence[_Case]) -> str:
    """Why a check that needs more than one reading of one node has nothing to judge, or ""."""
    if item.kind is Kind.DELTA and case.before is None:
        return "needs an earlier reading (--before)"
    if item.kind is Kind.GROUP and len(_fleet(case, cases)) < 2:
        return "needs two hosts or more of this platform"
    if item.kind is Kind.ACTIVE:
        found = [facts.get(kind) for facts in case.facts for kind in item.facts]
        lost = [fact for fact in found if isinstance(fact, Missing) and not fact.recorded]
        if len(lost) == len(found):
            saved = any(fact.probe in case.reading.snapshot.probes for fact in lost)
            other = ": what was saved is another test, judged by another check"
            return f"needs a test under load{other if saved else ', and none was recorded'}"
    return ""


def _untold(phase: Phase, checks: Sequence[Check], case: _Case) -> Decision:
    """Without a platform there is nothing to compare with: closed, whatever the rest says.

    Checks that need no platform run all the same: a driver that does not answer is why no GPU was
    seen, and stands first.
    """
    verdicts = [
        verdict
        for item in checks
        if item.needs_no_platform and not _not_measured(item, case, (case,))
        for verdict in _run(item, case, (case,))
    ]
    failed = [verdict.check for verdict in verdicts if verdict.status is Status.FAIL]
    verdict = Verdict(
        check="host.platform",
        subject="node",
        status=Status.UNKNOWN,
        expected="a known platform",
        actual=case.choice.why,
        remedy="a virtual machine, a part of a board, or cards: --gpus N (inventory: gpu_count); "
        "no GPU seen: record `nvidia-smi -q -x` as nvidia_smi_q.xml or `lspci -D -nn -vv` as "
        "lspci.txt; else --platform ID, or a platform file for this machine",
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


#: What counts where several texts of one probe were judged: the worst.
_WORST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.NOT_APPLICABLE)


def _rank(verdict: Verdict) -> tuple[int, bool, bool]:
    """A failure that nothing may explain and no time may mend is worse than one of the same check
    that may be explained, or waited for.
    """
    return _WORST.index(verdict.status), bool(verdict.because), bool(verdict.settles_s)


def _worse(one: Verdict, other: Verdict) -> Verdict:
    """The one that counts. Two alike are explained, or waited for, only by what holds for both."""
    worst = min(one, other, key=_rank)
    if one.status is not other.status:
        return worst
    because = tuple(cause for cause in one.because if cause in other.because)
    settles_s = min(one.settles_s, other.settles_s)
    return worst.model_copy(update={"because": because, "settles_s": settles_s})


def _run(item: Check, case: _Case, cases: Sequence[_Case]) -> list[Verdict]:
    """Verdicts of one check, over all texts that were saved and all sources of a fact."""
    worst: dict[str, Verdict] = {}
    for facts in case.facts:
        for verdict in _run_on(item, facts, case, cases):
            known = worst.get(verdict.subject)
            worst[verdict.subject] = _worse(known, verdict) if known else verdict
        if item.kind is Kind.GROUP:
            return list(worst.values())
    for facts in case.second:
        if not facts.serves(item.facts):
            continue
        for verdict in _run_on(item, facts, case, cases):
            # A second source may well say less than the first; what it says to be broken counts.
            known = worst.get(verdict.subject)
            if verdict.status is Status.FAIL and known:
                worst[verdict.subject] = _worse(known, verdict)
    return list(worst.values())


def _run_on(item: Check, facts: Facts, case: _Case, cases: Sequence[_Case]) -> list[Verdict]:
    """``case.target`` may be None for a check that needs no platform."""
    target = case.target
    subjects = _subjects(item, target)
    why_not = item.not_applicable(target) if target else ""
    if why_not:
        return [
            Verdict(check=item.id, subject=s, status=Status.NOT_APPLICABLE, actual=why_not)
            for s in subjects
        ]
    try:
        arguments = _arguments(item, facts, case, cases)
        if isinstance(arguments, Missing):
            findings: Iterable[Finding] = [unknown(subject, arguments) for subject in subjects]
        else:
            findings = list(item.run(**arguments))
    except Exception as error:
        raise InternalError(
            f"check {item.id} raised {type(error).__name__}: {error}",
            try_next="this is a bug: report it with the snapshot (collect --redact)",
        ) from error
    if item.kind is Kind.GROUP:
        findings = [
            replace(finding, subject=NODE)
            for finding in findings
            if finding.subject == case.question.host
        ]
    return [_verdict(item, finding, facts) for finding in findings]


def _arguments(
    item: Check, facts: Facts, case: _Case, cases: Sequence[_Case]
) -> dict[str, object] | Missing:
    """What to call the check with, or the first fact that it cannot do without."""
    arguments: dict[str, object] = {}
    for parameter in item.parameters:
        if parameter.kind is Target:
            value: object = case.target
        elif parameter.kind in SECTIONS:
            value = getattr(case.target, SECTIONS[parameter.kind])
        elif item.kind is Kind.GROUP:
            value = {
                each.question.host: each.facts[0].get(parameter.kind)
                for each in _fleet(case, cases)
            }
        else:
            source = case.before if parameter.before else facts
            assert source is not None
            value = source.get(parameter.kind)
        if isinstance(value, Missing) and not parameter.tolerant:
            if parameter.before:
                value = replace(value, reason=f"in the earlier reading: {value.reason}")
            return value
        arguments[parameter.name] = value
    return arguments


def _verdict(item: Check, finding: Finding, facts: Facts) -> Verdict:
    if finding.status in (Status.PASS, Status.NOT_APPLICABLE):
        remedy = ""
    elif finding.status is Status.UNKNOWN and not finding.remedy:
        remedy = how_to_read(finding, facts.snapshot)
    else:
        remedy = finding.remedy or item.remedy
    return Verdict(
        check=item.id,
        subject=finding.subject,
        status=finding.status,
        expected=finding.expected,
        actual=finding.actual,
        evidence=tuple(_quote(evidence, facts) for evidence in finding.evidence),
        remedy=remedy,
        because=_because(item, finding),
        settles_s=finding.settles_s,
    )


def _because(item: Check, finding: Finding) -> tuple[str, ...]:
    if not {cause.partition("@")[0] for cause in finding.because} <= set(item.follows):
        raise InternalError(f"check {item.id} names a cause that it does not declare")
    return finding.because


def _quote(evidence: Evidence, facts: Facts) -> Evidence:
    """Add the line itself, bounded. Control characters are left to the report that shows it."""
    text = facts.line(evidence.probe, evidence.line)[:_EVIDENCE_CHARS]
    return evidence.model_copy(update={"text": text}) if text else evidence


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
