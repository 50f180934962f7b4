"""Words shared by the formats: safe text, grouped verdicts, and the closing line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fabric_tools.errors import Exit
from fabric_tools.models.report import Decision, HostReport, Report
from fabric_tools.models.verdict import Evidence, Status, Verdict, Waiver

_MAX_NAMED = 4
#: Faults first: this is the order of reading.
ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.NOT_APPLICABLE, Status.PASS)


def printable(text: str) -> str:
    """The text on one line, every control or formatting character replaced by a blank."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def harmless(text: str) -> str:
    """The same lines and columns, every other control or formatting character made a blank.

    For what a site's own file says: its words must not steer a terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


@dataclass(frozen=True, slots=True)
class Group:
    """Verdicts that say the same: of several subjects, or (UNKNOWN) in several checks."""

    status: Status
    waived_by: str
    verdicts: tuple[Verdict, ...]

    @property
    def first(self) -> Verdict:
        """The verdict that stands for all of them."""
        return self.verdicts[0]

    @property
    def checks(self) -> tuple[str, ...]:
        """Ids of the checks, in order."""
        return tuple(dict.fromkeys(verdict.check for verdict in self.verdicts))

    @property
    def subjects(self) -> str:
        """Of one check, or of several that speak of the same subjects; else none is named."""
        spoken: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            spoken.setdefault(verdict.check, []).append(verdict.subject)
        first, *others = spoken.values()
        return subjects(first) if all(names == first for names in others) else ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Of the first verdict, without repeats."""
        return tuple(dict.fromkeys(self.first.evidence))


def groups(decision: Decision) -> list[Group]:
    """Verdicts of one gate, alike ones together, faults first and in the order of the checks."""
    found: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in decision.verdicts:
        # One missing probe silences many checks: that is one thing to read and to mend.
        check = "" if verdict.status is Status.UNKNOWN else verdict.check
        key = (check, verdict.status, verdict.waived_by, _alike(verdict), verdict.remedy)
        found.setdefault(key, []).append(verdict)
    made = [Group(items[0].status, items[0].waived_by, tuple(items)) for items in found.values()]
    return sorted(made, key=lambda group: ORDER.index(group.status))


_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): ", re.ASCII)


def address(verdict: Verdict) -> str:
    """The bus address that what was seen begins with, or ""."""
    found = _ADDRESS.match(verdict.actual)
    return found[1] if found else ""


def _alike(verdict: Verdict) -> str:
    """What was seen, without the bus address that differs for every GPU."""
    found = _ADDRESS.match(verdict.actual)
    return verdict.actual[found.end() :] if found else verdict.actual


def actual(group: Group) -> str:
    """What was seen; the bus address is kept where the group is about one GPU."""
    return group.first.actual if len(group.verdicts) == 1 else _alike(group.first)


def subjects(names: Sequence[str], most: int = _MAX_NAMED) -> str:
    """``GPU 0-3, GPU 6``; pairs by name, the first ``most`` of many."""
    numbers = [re.fullmatch(r"GPU (\d+)", name) for name in names]
    if names and all(numbers):
        return _ranges(sorted(int(number[1]) for number in numbers if number))
    shown = ", ".join(names[:most])
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return "GPU " + ", ".join(parts)


def evidence_text(evidence: Evidence) -> str:
    """``nvidia_smi_topo line 4: GPU2 NODE ...``."""
    place = f"{evidence.probe} line {evidence.line}" if evidence.line else evidence.probe
    return printable(f"{place}: {evidence.text}" if evidence.text else place)


def quiet_lines(decision: Decision) -> list[str]:
    """What needs no look: the checks that passed, those that do not apply, and those that had
    nothing to judge. A check that passed on one subject and not on another is in none of them.
    """
    by_check: dict[str, set[Status]] = {}
    for verdict in decision.verdicts:
        by_check.setdefault(verdict.check, set()).add(verdict.status)
    passed = [name for name, found in by_check.items() if found == {Status.PASS}]
    nothing = [name for name, found in by_check.items() if found == {Status.NOT_APPLICABLE}]
    lines = [f"passed: {', '.join(passed)}"] if passed else []
    lines += [f"not applicable: {', '.join(nothing)}"] if nothing else []
    if decision.not_measured:
        whys: dict[str, list[str]] = {}
        for text in decision.not_measured:
            name, _, why = text.partition(": ")
            whys.setdefault(why, []).append(name)
        shown = [f"{', '.join(names)} ({why})" for why, names in whys.items()]
        lines.append(f"not measured: {'; '.join(shown)}")
    return lines


def closing(decision: Decision) -> str:
    """Open or closed, and why, on one line."""
    if decision.open:
        checks = {verdict.check for verdict in decision.verdicts}
        waived = {verdict.check for verdict in decision.verdicts if verdict.waived_by}
        if decision.verdicts and all(v.status is Status.NOT_APPLICABLE for v in decision.verdicts):
            why = decision.verdicts[0].actual
            return printable(f"{decision.phase}: OPEN, nothing applies here: {why}")
        warned = {v.check for v in decision.verdicts if v.status is Status.WARN}
        what = "OPEN (passive part, nothing measured under load)"
        text = (
            f"{decision.phase}: {what if decision.passive_only else 'OPEN'}, {len(checks)} checks"
        )
        text += f", {len(warned)} with a warning" if warned else ""
        return text + (f", {len(waived)} WAIVED: {', '.join(sorted(waived))}" if waived else "")
    return printable(f"{decision.phase}: CLOSED, {'; '.join(decision.reasons)}")


_MEANING = {
    Exit.OPEN: "every gate asked for is open",
    Exit.CLOSED: "closed by a fault",
    Exit.UNKNOWN: "closed because it could not tell",
    Exit.UNREACHABLE: "a node was not reached",
}


def verdict_line(report: Report) -> str:
    """The last line of a report."""
    word = "OPEN" if report.exit_code == Exit.OPEN else "CLOSED"
    meaning = _MEANING.get(Exit(report.exit_code), "")
    return f"{word} (exit {report.exit_code}): {meaning}"


def waiver_line(waiver: Waiver, host: str) -> str:
    """A waiver as every report shows it; one that is for another host says that it is not used."""
    text = f"{waiver.kind.replace('_', '-')}: {waiver.check}"
    text += f" of {waiver.subject}" if waiver.subject != "*" else ""
    text += f" on {waiver.host}" if waiver.host != "*" else ""
    text += f" until {waiver.expires:%Y-%m-%d %H:%M}, {waiver.owner}: {waiver.reason}"
    if waiver.host not in ("*", host):
        known = f"this host is called {host}" if host else "the host's name was not given"
        text += f" (NOT USED: {known}, see --name)"
    return printable(text)


def origin(host: HostReport) -> str:
    """Where the snapshot comes from; anything but a node says so first."""
    words = {
        "node": "",
        "files": "FILES SAVED BY HAND",
        "lab": "SIMULATED NODE (lab)",
        "recorded": "RECORDED, not a live node",
    }
    parts = [words[host.source.kind], printable(host.source.note)]
    if host.taken_at:
        parts.append(f"taken {host.taken_at:%Y-%m-%d %H:%M:%S %Z}".strip())
    if host.redacted:
        parts.append("redacted")
    return "; ".join(part for part in parts if part)
