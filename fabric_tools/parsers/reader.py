"""From a snapshot to facts: each fact from its best readable source, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import GpuRoster, GpuRosters, KernelLog, KernelLogs, SmiAnswer
from fabric_tools.models.nccl_texts import NcclText, NcclTexts
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.parsers.base import NothingHere, ParseError, clean_lines
from fabric_tools.parsers.sources import COMBINED, MERGED, SOURCES, Parser, Source
from fabric_tools.probes import BY_ID as PROBES

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be had. ``recorded``: at least one of its probes was asked.

    ``answered`` is False where the probe itself did not end well (hung, refused, cut, failed), and
    ``absent`` is True where that was because the node has no such tool or file.
    """

    probe: str
    reason: str
    recorded: bool
    line: int = 0
    answered: bool = True
    absent: bool = False


#: Facts of which only the best source is used, though several may have been recorded.
_ALTERNATIVES = tuple(
    kind
    for kind, sources in SOURCES.items()
    if len(sources) > 1 and kind not in COMBINED and kind not in MERGED
)


@dataclass(slots=True)
class Facts:
    """Facts of one snapshot, read once each. ``notes``: per probe, why it gave no fact.

    ``without``: probes that are not used where a fact has another source.
    """

    snapshot: Snapshot
    notes: dict[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    _cache: dict[type[Fact], Fact | Missing] = field(default_factory=dict)
    _lines: dict[str, list[str]] = field(default_factory=dict)
    _parses: dict[tuple[str, Parser], Fact | ParseError] = field(default_factory=dict)

    def get(self, kind: type[F]) -> F | Missing:
        """The fact, or why there is none."""
        if kind not in self._cache:
            self._cache[kind] = self._read(kind)
        found = self._cache[kind]
        assert isinstance(found, kind | Missing)
        return found

    def by_second_sources(self) -> tuple[Facts, ...]:
        """The same snapshot by what the best sources of its facts hide, one for each of them.

        The XML of ``nvidia-smi -q`` and its text are two answers of one node: where the first is
        good and the second is not, the node is not good.
        """
        hidden: dict[frozenset[str], None] = {}
        for kind in _ALTERNATIVES:
            told = [s.probe for s in SOURCES[kind] if s.probe in self.snapshot.probes]
            hidden.update((frozenset(told[:n]), None) for n in range(1, len(told)))
        return tuple(
            Facts(self.snapshot, without=probes, _lines=self._lines, _parses=self._parses)
            for probes in hidden
        )

    def serves(self, kinds: Iterable[type[Fact]]) -> bool:
        """Whether one of the facts is there, from a source that is not its best."""
        return any(
            not isinstance(self.get(kind), Missing)
            for kind in kinds
            if kind in _ALTERNATIVES and any(s.probe in self.without for s in SOURCES[kind])
        )

    def line(self, probe: str, number: int) -> str:
        """One line of a probe's output without terminal sequences; "" where there is none."""
        if probe not in self._lines:
            result = self.snapshot.probes.get(probe)
            self._lines[probe] = result.stdout.split("\n") if result else []
        lines = self._lines[probe]
        return clean_lines(lines[number - 1])[0].strip() if 0 < number <= len(lines) else ""

    def _read(self, kind: type[Fact]) -> Fact | Missing:
        if kind in COMBINED:
            found = [self._from(source) for source in SOURCES[kind]]
            if kind is GpuRosters:
                return _rosters(found)
            if issubclass(kind, NcclTexts):
                return _nccl(kind, found)
            return _smi(found) if kind is SmiAnswer else self._logs(found)
        if kind in MERGED:
            all_found = [self._from(source) for source in SOURCES[kind]]
            read = [fact for fact in all_found if not isinstance(fact, Missing)]
            lost = [fact for fact in all_found if isinstance(fact, Missing)]
            return MERGED[kind](read) if read else _first(lost)
        missing: Missing | None = None
        for source in SOURCES[kind]:
            if source.probe in self.without:
                continue
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
            said = self._error(source, result)
            if said is not None:
                return said
        if not _whole(source.probe, result):
            why = describe(source.probe, result)
            absent = result.status is ProbeStatus.ABSENT
            return Missing(source.probe, why, recorded=True, answered=False, absent=absent)
        try:
            fact = self._parsed(source, result.stdout)
            fact = source.convert(fact) if source.convert else fact
            return fact.model_copy(update={"probe": source.probe})
        except NothingHere as error:
            return Missing(source.probe, f"{source.probe}: {error.why}", recorded=False)
        except ParseError as error:
            why = f"line {error.line}: {error.why}" if error.line else error.why
            if not result.stdout.strip() and result.stderr.strip():
                why = f"{why} ({result.stderr.strip().splitlines()[0][:120]})"
            if not source.reads_failures:  # that text is asked for more than its error only
                self.notes.setdefault(source.probe, why)
            reason = f"{source.probe} not understood: {why}"
            return Missing(source.probe, reason, recorded=True, line=error.line)

    def _parsed(self, source: Source, text: str) -> Fact:
        """Each text is read once by each parser, for whatever facts are made of it."""
        key = (source.probe, source.parse)
        if key not in self._parses:
            try:
                self._parses[key] = source.parse(text)
            except ParseError as error:
                self._parses[key] = error
        found = self._parses[key]
        if isinstance(found, ParseError):
            raise found
        return found

    def _error(self, source: Source, result: ProbeResult) -> Fact | None:
        """A known error text is an answer on either stream, also of a command that failed."""
        if result.status not in (ProbeStatus.OK, ProbeStatus.FAILED, ProbeStatus.DENIED):
            return None
        for parse, text in ((self._parsed, result.stdout), (_parse, result.stderr)):
            try:
                fact = parse(source, text)
            except ParseError:
                continue
            if source.reads_failures and source.reads_failures(fact):
                return fact.model_copy(update={"probe": source.probe})
        return None


def _parse(source: Source, text: str) -> Fact:
    return source.parse(text)


def _whole(probe: str, result: ProbeResult) -> bool:
    """The status says so and the exit status does not contradict it."""
    accept = PROBES[probe].accept_rc if probe in PROBES else (0,)
    return result.status is ProbeStatus.OK and (result.rc is None or result.rc in accept)


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


def _rosters(found: Sequence[Fact | Missing]) -> Fact | Missing:
    """All lists of GPUs that could be read, whole ones first: they are compared with each other."""
    read = [fact for fact in found if isinstance(fact, GpuRoster)]
    if not read:
        return _first([fact for fact in found if isinstance(fact, Missing)])
    read.sort(key=lambda roster: not roster.complete)
    return GpuRosters(probe=read[0].probe, rosters=tuple(read))


def _nccl(kind: type[NcclTexts], found: Sequence[Fact | Missing]) -> Fact | Missing:
    """All texts that could be read, and why the others could not: the worst of them counts."""
    read = [fact for fact in found if isinstance(fact, NcclText)]
    missing = [fact for fact in found if isinstance(fact, Missing)]
    if all(text.aside for text in read):
        return _first(missing or [Missing(read[0].probe, "a log and no test", recorded=False)])
    unread = tuple(fact.reason for fact in missing if fact.recorded)
    return kind(probe=read[0].probe, texts=tuple(read), unread=unread)


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
