"""Which parts of a drawn node the verdicts speak against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric_tools.models.report import HostReport
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.report.text import ORDER, address, subjects

#: A sign beside the colour, for print and for eyes that do not tell red from green.
SIGNS = {Status.FAIL: "!", Status.UNKNOWN: "?", Status.WARN: "~"}
_EVERY = 10_000


@dataclass(slots=True)
class Mark:
    """The worst that was said of one part, by which checks, and of which bus address."""

    status: Status
    checks: list[str] = field(default_factory=list)
    address: str = ""

    @property
    def sign(self) -> str:
        """``!`` FAIL, ``?`` UNKNOWN, ``~`` WARN."""
        return SIGNS[self.status]


@dataclass(slots=True)
class Marks:
    """Marks of GPUs by number, and of pairs of GPUs by two numbers, the lower one first.

    ``passed``: GPUs of which at least one check said PASS; one of which nothing was said is not
    drawn as good.
    """

    gpus: dict[int, Mark] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Mark] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)


def marks(host: HostReport) -> Marks:
    """A waived fault is marked too: the part is as broken as before."""
    found = Marks()
    for verdict in _spoken(host):
        single = re.fullmatch(r"GPU (\d{1,4})", verdict.subject, re.ASCII)
        both = re.fullmatch(r"GPU(\d{1,4})-GPU(\d{1,4})", verdict.subject, re.ASCII)
        if single and verdict.status is Status.PASS:
            found.passed.add(int(single[1]))
        elif single:
            _add(found.gpus.setdefault(int(single[1]), Mark(verdict.status)), verdict)
        elif both and verdict.status is not Status.PASS:
            first, second = sorted((int(both[1]), int(both[2])))
            _add(found.pairs.setdefault((first, second), Mark(verdict.status)), verdict)
    return found


def _spoken(host: HostReport) -> Iterable[Verdict]:
    found = (verdict for decision in host.decisions for verdict in decision.verdicts)
    return (verdict for verdict in found if verdict.status is not Status.NOT_APPLICABLE)


def _add(mark: Mark, verdict: Verdict) -> None:
    """Only the checks of the worst status are named."""
    if ORDER.index(verdict.status) < ORDER.index(mark.status):
        mark.status, mark.checks, mark.address = verdict.status, [], ""
    if verdict.status is mark.status and verdict.check not in mark.checks:
        mark.checks.append(verdict.check)
        mark.address = mark.address or address(verdict)


def told(found: Marks) -> list[tuple[Status, str]]:
    """Each mark in words, alike ones together, faults first: ``! GPU 2, 3: nvlink.links``."""
    lines: dict[tuple[Status, str], list[str]] = {}
    for index, mark in sorted(found.gpus.items()):
        # For a fault somebody will open the chassis: the address says which card, a number may not.
        where = f" at {mark.address}" if mark.address and mark.status is Status.FAIL else ""
        lines.setdefault((mark.status, ", ".join(mark.checks)), []).append(f"GPU {index}{where}")
    for (first, second), mark in sorted(found.pairs.items()):
        name = f"GPU{first}-GPU{second}"
        lines.setdefault((mark.status, f"{', '.join(mark.checks)} "), []).append(name)
    ordered = sorted(lines.items(), key=lambda item: ORDER.index(item[0][0]))
    return [
        (status, f"{SIGNS[status]} {subjects(names, _EVERY)}: {checks.strip()}")
        for (status, checks), names in ordered
    ]
