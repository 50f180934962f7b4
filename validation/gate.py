"""What every ``test_<phase>.py`` here does, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import Kind
from fabric_tools.models.report import Decision
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.phases import Phase
from fabric_tools.report.text import printable

_BAD = (Status.FAIL, Status.UNKNOWN)


def _told(verdict: Verdict) -> str:
    words = (verdict.subject, verdict.status.upper(), verdict.actual)
    remedy = f"\n  remedy: {verdict.remedy}" if verdict.remedy else ""
    return printable(": ".join(words)) + remedy


def gate_tests(phase: Phase) -> tuple[Callable[..., None], Callable[..., None]]:
    """A test for each check of the phase, and one for its gate."""

    @pytest.mark.parametrize(
        "check", [item.id for item in for_phase(phase) if item.kind is Kind.NODE]
    )
    def test_check(check: str, decisions: dict[Phase, Decision]) -> None:
        verdicts = [v for v in decisions[phase].verdicts if v.check == check]
        assert verdicts, f"{check} gave no verdict"
        bad = [v for v in verdicts if v.status in _BAD and not v.waived_by]
        if bad:
            pytest.fail("\n".join(map(_told, bad)), pytrace=False)

    def test_gate(decisions: dict[Phase, Decision]) -> None:
        decision = decisions[phase]
        if not decision.open:
            pytest.fail("; ".join(decision.reasons), pytrace=False)

    return test_check, test_gate
