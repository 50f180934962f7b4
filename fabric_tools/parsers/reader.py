"""From a snapshot to facts: each fact from its best readable source, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from fabric_tools.models.base import Fact
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.sources import PREFERRED, SOURCES, Source

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be had. ``recorded``: at least one of its probes was asked."""

    probe: str
    reason: str
    recorded: bool
    line: int = 0


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
        missing: Missing | None = None
        second: Fact | None = None
        prefer = PREFERRED.get(kind)
        for source in SOURCES[kind]:
            found = self._from(source)
            if isinstance(found, Missing):
                # The first source that was asked at all explains best why there is no fact.
                if missing is None or (found.recorded and not missing.recorded):
                    missing = found
            elif prefer is None or prefer(found):
                return found
            else:
                second = second or found
        if second is not None:
            return second
        return missing or Missing("", "no probe gives this fact", recorded=False)

    def _from(self, source: Source) -> Fact | Missing:
        result = self.snapshot.probes.get(source.probe)
        if result is None:
            return Missing(source.probe, f"{source.probe} was not recorded", recorded=False)
        if result.status is ProbeStatus.FAILED and source.reads_failures:
            return self._from_failure(source, result)
        if result.status is not ProbeStatus.OK:
            return Missing(source.probe, describe(source.probe, result), recorded=True)
        try:
            return source.parse(result.stdout).model_copy(update={"probe": source.probe})
        except ParseError as error:
            why = f"line {error.line}: {error.why}" if error.line else error.why
            if not result.stdout.strip() and result.stderr.strip():
                why = f"{why} ({result.stderr.strip().splitlines()[0][:120]})"
            self.notes.setdefault(source.probe, why)
            reason = f"{source.probe} not understood: {why}"
            return Missing(source.probe, reason, recorded=True, line=error.line)

    @staticmethod
    def _from_failure(source: Source, result: ProbeResult) -> Fact | Missing:
        """A failed command whose error text is known says what is wrong; any other says nothing."""
        missing = Missing(source.probe, describe(source.probe, result), recorded=True)
        for text in (result.stdout, result.stderr):
            try:
                fact = source.parse(text)
            except ParseError:
                continue
            if source.reads_failures and source.reads_failures(fact):
                return fact.model_copy(update={"probe": source.probe})
        return missing


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
    text = f"{probe} {_WORDS.get(result.status, str(result.status))}"
    return f"{text}: {details[:200]}" if details else text
