"""Every recorded case gives the verdicts it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric_tools.errors import Exit
from fabric_tools.models.verdict import Status, Verdict
from tests.cases_runner import ALL_CASES, CASES, decide_case, load, phase_of

#: A folder saved by hand has no NVML reading; the healthy example says so by this warning.
ALWAYS_WARNS = {"driver.nvml_agrees"}


def alone(verdict: Verdict) -> Status:
    """What the check says by itself; that another fault explains it is the gate's word."""
    return Status.FAIL if verdict.follows else verdict.status


@pytest.mark.recorded
@pytest.mark.parametrize("path", ALL_CASES, ids=[str(p.relative_to(CASES))[:-5] for p in ALL_CASES])
def test_case(path: Path, tmp_path: Path) -> None:
    case, check = load(path), path.parent.name
    wanted = Status(case["expect"]["status"])
    decision = decide_case(case, phase_of(case, check), tmp_path)
    mine = [v for v in decision.verdicts if v.check == check]
    assert mine
    if wanted is Status.PASS:
        assert {alone(v) for v in mine} == {Status.PASS}, mine
    else:
        hit = {v.subject for v in mine if alone(v) is wanted}
        subjects = set(case["expect"].get("subjects") or hit)
        assert hit == subjects and hit
        # A cut matrix still passes what it shows; without named subjects only the worst counts.
        if "subjects" in case["expect"]:
            others = {alone(v) for v in mine if v.subject not in subjects}
            assert others <= {Status.PASS, *(Status(s) for s in case.get("rest") or ())}
    for text in [case["expect"].get("actual")]:
        assert text is None or any(text in v.actual for v in mine if alone(v) is wanted)
    others = {
        v.check: alone(v).value
        for v in decision.verdicts
        if v.check != check and v.status is not Status.PASS
    }
    others = {c: s for c, s in others.items() if not (c in ALWAYS_WARNS and s == "warn")}
    also = case.get("also") or {}
    # What the site has not declared does not apply; a case may say so.
    others = {c: s for c, s in others.items() if s != "not_applicable" or c in also}
    assert others == also
    for verdict in mine:
        assert verdict.actual
        assert verdict.expected or verdict.status in (Status.UNKNOWN, Status.NOT_APPLICABLE)
        assert verdict.evidence or verdict.status is Status.NOT_APPLICABLE
        loud = verdict.status in (Status.FAIL, Status.WARN, Status.UNKNOWN)
        assert bool(verdict.remedy) == loud
    statuses = {wanted, *(Status(s) for s in others.values())}
    if Status.FAIL in statuses:
        assert decision.exit_code == Exit.CLOSED
    elif Status.UNKNOWN in statuses:
        assert decision.exit_code == Exit.UNKNOWN
    else:
        assert decision.exit_code == Exit.OPEN
    assert decision.open == (decision.exit_code == Exit.OPEN)
