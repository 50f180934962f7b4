"""From a snapshot to facts: each fact from its best readable source, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import KernelLog, KernelLogs, SmiAnswer
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.sources import COMBINED, SOURCES, Source
from fabric_tools.probes import BY_ID as PROBES

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be had. ``recorded``: at least one of its probes was asked.

    ``answered`` is False where the probe itself did not end well (hung, refused, cut, failed).
    """

    probe: str
    reason: str
    recorded: bool
    line: int = 0
    answered: bool = True


@dataclass(slots=True)
class Facts:
    """Facts of one snapshot, read once each. ``notes``: per probe, why it gave no fact."""

    snapshot: Snapshot
    notes: dict[str, str] = field(default_factory=dict)
    _cache: dict[type[Fact], Fact | Missing] = field(default_factory=dict)

    def get(self, kind: type[F]) -> F | Missing:
        """The fact, or why there is none."""
        if kind not in self._cache:
            self._cache[kind] = self._read(kind)
        found = self._cache[kind]
        assert isinstance(found, kind | Missing)
        return found

    def _read(self, kind: type[Fact]) -> Fact | Missing:
        if kind in COMBINED:
            found = [self._from(source) for source in SOURCES[kind]]
            return _smi(found) if kind is SmiAnswer else self._logs(found)
        missing: Missing | None = None
        for source in SOURCES[kind]:
            fact = self._from(source)
            if not isinstance(fact, Missing):
                return fact
            missing = _better(missing, fact)
        return missing or Missing("", "no probe gives this fact", recorded=False)

    def _logs(self, found: Sequence[Fact | Missing]) -> Fact | Missing:
        """All logs that can be read: each loses messages that the other may have kept.

        A log that says something which is not understood may say anything.
        """
        logs = tuple(fact for fact in found if isinstance(fact, KernelLog))
        missing = [fact for fact in found if isinstance(fact, Missing)]
        for fact in missing:
            if fact.answered and fact.recorded and self.snapshot.probes[fact.probe].stdout.strip():
                return fact
        return KernelLogs(probe=logs[0].probe, logs=logs) if logs else _first(missing)

    def _from(self, source: Source) -> Fact | Missing:
        result = self.snapshot.probes.get(source.probe)
        if result is None:
            return Missing(source.probe, f"{source.probe} was not recorded", recorded=False)
        if source.reads_failures:
            error = _error(source, result)
            if error is not None:
                return error
        if not _whole(source.probe, result):
            why = describe(source.probe, result)
            return Missing(source.probe, why, recorded=True, answered=False)
        try:
            return source.parse(result.stdout).model_copy(update={"probe": source.probe})
        except ParseError as error:
            why = f"line {error.line}: {error.why}" if error.line else error.why
            if not result.stdout.strip() and result.stderr.strip():
                why = f"{why} ({result.stderr.strip().splitlines()[0][:120]})"
            self.notes.setdefault(source.probe, why)
            reason = f"{source.probe} not understood: {why}"
            return Missing(source.probe, reason, recorded=True, line=error.line)


def _whole(probe: str, result: ProbeResult) -> bool:
    """The status says so and the exit status does not contradict it."""
    accept = PROBES[probe].accept_rc if probe in PROBES else (0,)
    return result.status is ProbeStatus.OK and (result.rc is None or result.rc in accept)


def _error(source: Source, result: ProbeResult) -> Fact | None:
    """A known error text is an answer on either stream, also of a command that failed."""
    if result.status not in (ProbeStatus.OK, ProbeStatus.FAILED, ProbeStatus.DENIED):
        return None
    for text in (result.stdout, result.stderr):
        try:
            fact = source.parse(text)
        except ParseError:
            continue
        if source.reads_failures and source.reads_failures(fact):
            return fact.model_copy(update={"probe": source.probe})
    return None


def _better(first: Missing | None, second: Missing) -> Missing:
    """The first source that was asked at all explains best why there is no fact."""
    return second if first is None or (second.recorded and not first.recorded) else first


def _smi(found: Sequence[Fact | Missing]) -> Fact | Missing:
    """Any error of any nvidia-smi call counts; so does a call that hung or was refused.

    A call that answers beside one that hangs is no healthy driver.
    """
    answers = [fact for fact in found if isinstance(fact, SmiAnswer)]
    silent = [fact for fact in found if isinstance(fact, Missing) and not fact.answered]
    missing = [fact for fact in found if isinstance(fact, Missing)]
    wrong = [fact for fact in answers if fact.error is not None]
    if wrong:
        return wrong[0]
    if silent:
        return silent[0]
    return answers[0] if answers else _first(missing)


def _first(missing: Sequence[Missing]) -> Missing:
    best: Missing | None = None
    for fact in missing:
        best = _better(best, fact)
    return best or Missing("", "no probe gives this fact", recorded=False)


_WORDS = {
    ProbeStatus.ABSENT: "is absent",
    ProbeStatus.DENIED: "was denied",
    ProbeStatus.TIMEOUT: "timed out",
    ProbeStatus.CUT: "was cut off",
    ProbeStatus.FAILED: "failed",
    ProbeStatus.ERROR: "could not be run",
}


def describe(probe: str, result: ProbeResult) -> str:
    """One line on why a probe's answer cannot be used."""
    first = next((line for line in result.stderr.splitlines() if line.strip()), "")
    details = "; ".join(part.strip() for part in (result.note, first) if part.strip())
    word = _WORDS.get(result.status, f"ended with status {result.rc}")
    text = f"{probe} {word}"
    return f"{text}: {details[:200]}" if details else text
