"""The only place that decides whether a gate is open. It fails closed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from fabric_tools.errors import Exit
from fabric_tools.models.report import Decision
from fabric_tools.models.verdict import Status, Verdict, Waiver

_MAX_NAMED = 5
_PASSING = (Status.PASS, Status.WARN, Status.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A check that must have spoken, and the subjects it must have spoken of."""

    check: str
    subjects: tuple[str, ...]
    waivable: bool = True


#: A check and the subject that it failed for.
Fault = tuple[str, str]


def faults(
    expected: Sequence[Expectation],
    verdicts: Sequence[Verdict],
    waivers: Sequence[Waiver],
    *,
    host: str,
    as_of: datetime,
) -> set[Fault]:
    """What failed and is not waived: it may explain other failures.

    A fault that is waived explains nothing, or its waiver would reach further than it says.
    """
    waivable = {item.check for item in expected if item.waivable}
    judged = (_waive(v, waivers, waivable, host, as_of) for v in verdicts)
    return {(v.check, v.subject) for v in judged if v.status is Status.FAIL and not v.waived_by}


def decide(
    phase: str,
    expected: Sequence[Expectation],
    verdicts: Sequence[Verdict],
    waivers: Sequence[Waiver],
    *,
    host: str,
    as_of: datetime,
    standing: Collection[Fault] = (),
) -> Decision:
    """Open only if every expected check spoke of every subject and nothing speaks against.

    A waiver lets a FAIL or UNKNOWN of its check, host and subject pass until it expires; a check
    that can never be waived ignores it. No checks at all: closed. ``standing`` faults, of this
    phase and of those judged with it, turn the failures that they explain into UNKNOWN.
    """
    if not expected:
        reason = f"no check is defined for {phase} yet, so nothing is proved"
        return Decision(phase=phase, open=False, exit_code=Exit.UNKNOWN, reasons=(reason,))
    waivable = {item.check for item in expected if item.waivable}
    judged = tuple(_waive(_explain(v, standing), waivers, waivable, host, as_of) for v in verdicts)
    against = [v for v in judged if v.status not in _PASSING and not v.waived_by]
    failed = [v for v in against if v.status is Status.FAIL]
    unsure = [v for v in against if v.status is Status.UNKNOWN]
    explained = [v for v in unsure if v.follows]
    silent = _silent(expected, judged)
    reasons = [
        *_by_check("failed", failed),
        *_by_check("could not tell", [v for v in unsure if not v.follows]),
        *(
            reason
            for cause in dict.fromkeys(v.follows for v in explained)
            for reason in _by_check(
                f"explained by {cause}", [v for v in explained if v.follows == cause]
            )
        ),
        *silent,
        *_spent(waivers, against, waivable, host, as_of),
    ]
    code = Exit.UNKNOWN if unsure or silent else Exit.OPEN
    code = Exit.CLOSED if failed else code
    return Decision(
        phase=phase,
        open=code is Exit.OPEN,
        exit_code=code,
        settles_s=0 if silent else _settle(against),
        reasons=tuple(reasons),
        verdicts=judged,
    )


def _settle(against: Sequence[Verdict]) -> int:
    """Seconds after which all that speaks against a gate may have settled; 0: some will not."""
    waits = [verdict.settles_s for verdict in against]
    return max(waits) if all(waits) and waits else 0


def settles_s(decisions: Sequence[Decision]) -> int:
    """For how many seconds after a boot a healthy node may close these gates as they are closed.

    0 where all are open, or where one of them is closed by what no time will mend.
    """
    waits = [decision.settles_s for decision in decisions if not decision.open]
    return max(waits) if all(waits) and waits else 0


def used_waivers(decision: Decision, waivers: Sequence[Waiver]) -> tuple[Waiver, ...]:
    """Those without which a verdict of this gate would speak against it."""
    used = {(v.check, v.waived_by) for v in decision.verdicts if v.waived_by}
    return tuple(waiver for waiver in waivers if (waiver.check, _words(waiver)) in used)


def _words(waiver: Waiver) -> str:
    kind = "break-glass" if waiver.kind == "break_glass" else "waiver"
    return f"{kind} until {waiver.expires:%Y-%m-%d %H:%M}, {waiver.owner}: {waiver.reason}"


def _applies(waiver: Waiver, verdict: Verdict, host: str) -> bool:
    return (
        waiver.check == verdict.check
        and waiver.host in ("*", host)
        and waiver.subject in ("*", verdict.subject)
    )


def _explain(verdict: Verdict, standing: Collection[Fault]) -> Verdict:
    """UNKNOWN instead of FAIL where a fault of the same subject, or of the whole, explains it."""
    if verdict.status is not Status.FAIL:
        return verdict
    for named in verdict.because:
        cause, _, only = named.partition("@")
        found = {of for check, of in standing if check == cause and only in ("", of)}
        if any(_reaches(of, verdict.subject) for of in found):
            remedy = f"mend {cause} first; then this is judged anew"
            update = {"status": Status.UNKNOWN, "follows": cause, "remedy": remedy}
            return verdict.model_copy(update=update)
    return verdict


def _reaches(cause: str, subject: str) -> bool:
    """A fault of one GPU or pair explains nothing about another."""
    return cause == subject or not cause.startswith("GPU")


def _waive(
    verdict: Verdict, waivers: Sequence[Waiver], waivable: set[str], host: str, as_of: datetime
) -> Verdict:
    if verdict.status in _PASSING or verdict.check not in waivable:
        return verdict
    for waiver in waivers:
        if _applies(waiver, verdict, host) and waiver.expires > as_of:
            return verdict.model_copy(update={"waived_by": _words(waiver)})
    return verdict


def _spent(
    waivers: Sequence[Waiver],
    against: Sequence[Verdict],
    waivable: set[str],
    host: str,
    as_of: datetime,
) -> list[str]:
    """Waivers that somebody may believe in and that do not hold."""
    reasons = []
    for waiver in waivers:
        if not any(_applies(waiver, verdict, host) for verdict in against):
            continue
        if waiver.check not in waivable:
            reasons.append(f"{waiver.check} can never be waived")
        elif waiver.expires <= as_of:
            reasons.append(f"waiver of {waiver.check} expired on {waiver.expires:%Y-%m-%d %H:%M}")
    return reasons


def _by_check(word: str, verdicts: Sequence[Verdict]) -> list[str]:
    """``failed: a, b``; many checks are counted, their names stand in the report."""
    names = list(dict.fromkeys(verdict.check for verdict in verdicts))
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return [f"{word}: {', '.join(names[:_MAX_NAMED])}{more}"]


def _silent(expected: Sequence[Expectation], verdicts: Sequence[Verdict]) -> list[str]:
    """Checks that did not speak of a subject that the platform lists."""
    spoken = {(verdict.check, verdict.subject) for verdict in verdicts}
    reasons = []
    for item in expected:
        missing = [s for s in item.subjects if (item.check, s) not in spoken]
        if missing or not item.subjects:
            shown = ", ".join(missing[:4]) or "any subject"
            more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
            reasons.append(f"{item.check} gave no verdict for {shown}{more}")
    return reasons
