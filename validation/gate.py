"""What every ``test_<phase>.py`` here does, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import Kind
from fabric_tools.models.report import Decision
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

_BAD = (Status.FAIL, Status.UNKNOWN)


def gate_tests(phase: Phase) -> tuple[Callable[..., None], Callable[..., None]]:
    """A test for each check of the phase, and one for its gate."""

    @pytest.mark.parametrize(
        "check", [item.id for item in for_phase(phase) if item.kind is Kind.NODE]
    )
    def test_check(check: str, decisions: dict[Phase, Decision]) -> None:
        verdicts = [v for v in decisions[phase].verdicts if v.check == check]
        assert verdicts, f"{check} gave no verdict"
        bad = [f"{v.subject}: {v.actual}" for v in verdicts if v.status in _BAD and not v.waived_by]
        assert not bad

    def test_gate(decisions: dict[Phase, Decision]) -> None:
        assert decisions[phase].open, decisions[phase].reasons

    return test_check, test_gate
