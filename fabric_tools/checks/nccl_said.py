"""What several texts and tests of NCCL say, put into one finding: the worst counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabric_tools.checks.registry import NODE, Finding, at, unknown
from fabric_tools.models.nccl import NcclRun
from fabric_tools.models.nccl_texts import NcclText, NcclTexts
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing

_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Said:
    """What one test or one log says. ``comparable`` is False where there is no figure for it."""

    status: Status
    actual: str
    evidence: Evidence
    expected: str = ""
    remedy: str = ""
    comparable: bool = True


def here(text: NcclText, line: int | None = 0) -> Evidence:
    """Evidence in the file that ``text`` was read from."""
    return Evidence(probe=text.probe, line=line or 0)


def unread(found: NcclTexts) -> list[Said]:
    """Texts, and tables beside a log, that could not be read."""
    whole = [Said(Status.UNKNOWN, why, at(found)) for why in found.unread]
    return whole + [
        Said(Status.UNKNOWN, f"{text.probe} not understood: {text.unread}", here(text))
        for text in found.texts
        if text.unread
    ]


def absent(missing: Missing, expected: str) -> Iterator[Finding]:
    """UNKNOWN for a text that cannot be read.

    Nothing where no text of this kind was saved: another file of the same snapshot speaks then, and
    without any the check does not run.
    """
    if missing.recorded:
        yield unknown(NODE, missing, expected)


def worst(said: Sequence[Said], expected: str) -> Finding:
    """One finding of the worst status; what else has that status stands beside it."""
    status = min((item.status for item in said), key=_ORDER.index)
    items = [item for item in said if item.status is status]
    actual = list(dict.fromkeys(item.actual for item in items))
    more = f"; and {len(actual) - _SHOWN} more" if len(actual) > _SHOWN else ""
    evidence = tuple(dict.fromkeys(item.evidence for item in items))[:3]
    remedy = next((item.remedy for item in items if item.remedy), "")
    wanted = next((item.expected for item in items if item.expected), expected)
    return Finding(NODE, status, wanted, "; ".join(actual[:_SHOWN]) + more, evidence, remedy)


def named(run: NcclRun, collective: str | None = None) -> str:
    """How a test is called in a report."""
    return collective or run.collective or "a test whose collective is not printed"


def size(number: int) -> str:
    """Bytes in the unit in which they are a whole number, else in GiB."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << power and (number % (1 << power) == 0 or number >= 1 << 30):
            return f"{number / (1 << power):.4g} {unit}"
    return f"{number} B"
