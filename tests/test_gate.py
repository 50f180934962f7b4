"""The gate: what opens it, and everything that must not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from fabric_tools.checks import BY_ID, CHECKS
from fabric_tools.errors import Exit, worst
from fabric_tools.gate import Expectation, decide, faults, settles_s
from fabric_tools.models.report import Decision
from fabric_tools.models.verdict import Status, Verdict, Waiver

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ONE = (Expectation("a.check", ("GPU 0", "GPU 1")),)


def verdicts(*statuses: Status) -> list[Verdict]:
    return [Verdict(check="a.check", subject=f"GPU {i}", status=s) for i, s in enumerate(statuses)]


def waiver(**changes: object) -> Waiver:
    base = {
        "check": "a.check", "reason": "known", "owner": "ops", "expires": NOW + timedelta(days=1),
    }  # fmt: skip
    return Waiver.model_validate({**base, **changes})


def run(found: list[Verdict], waivers: tuple[Waiver, ...] = (), expected=ONE) -> Decision:  # type: ignore[no-untyped-def]
    return decide("driver", expected, found, waivers, host="node1", as_of=NOW)


@pytest.mark.parametrize("status", [Status.PASS, Status.WARN, Status.NOT_APPLICABLE])
def test_open(status: Status) -> None:
    decision = run(verdicts(Status.PASS, status))
    assert decision.open and decision.exit_code == Exit.OPEN and not decision.reasons


def test_fail_closes() -> None:
    decision = run(verdicts(Status.PASS, Status.FAIL))
    assert not decision.open and decision.exit_code == Exit.CLOSED
    assert decision.reasons == ("failed: a.check",)


def test_unknown_closes() -> None:
    assert run(verdicts(Status.PASS, Status.UNKNOWN)).exit_code == Exit.UNKNOWN


def test_fail_outweighs_unknown() -> None:
    assert run(verdicts(Status.FAIL, Status.UNKNOWN)).exit_code == Exit.CLOSED


def test_no_checks_is_closed() -> None:
    decision = run([], expected=())
    assert not decision.open and decision.exit_code == Exit.UNKNOWN


def test_no_verdicts_is_closed() -> None:
    decision = run([])
    assert not decision.open and "no verdict for GPU 0, GPU 1" in decision.reasons[0]


def test_a_check_without_subjects_is_closed() -> None:
    assert not run([], expected=(Expectation("a.check", ()),)).open


def test_too_few_subjects_is_closed() -> None:
    decision = run(verdicts(Status.PASS))
    assert not decision.open and decision.exit_code == Exit.UNKNOWN
    assert decision.reasons == ("a.check gave no verdict for GPU 1",)


def test_another_checks_verdicts_do_not_count() -> None:
    other = [Verdict(check="b", subject=f"GPU {i}", status=Status.PASS) for i in (0, 1)]
    assert not run(other).open


@pytest.mark.parametrize("status", [Status.FAIL, Status.UNKNOWN])
def test_waiver_opens_and_is_shown(status: Status) -> None:
    decision = run(verdicts(Status.PASS, status), (waiver(),))
    assert decision.open
    assert "ops: known" in decision.verdicts[1].waived_by
    assert not decision.verdicts[0].waived_by


def test_expired_waiver_is_closed_and_says_so() -> None:
    decision = run(verdicts(Status.PASS, Status.FAIL), (waiver(expires=NOW),))
    assert not decision.open
    assert "expired" in " ".join(decision.reasons)


@pytest.mark.parametrize(
    "changes", [{"host": "node2"}, {"check": "b.check"}, {"subject": "GPU 0"}, {"host": "node"}]
)
def test_waiver_of_something_else_does_not_hold(changes: dict[str, object]) -> None:
    assert not run(verdicts(Status.PASS, Status.FAIL), (waiver(**changes),)).open


def test_waiver_of_a_subject() -> None:
    decision = run(verdicts(Status.FAIL, Status.FAIL), (waiver(subject="GPU 0"),))
    assert not decision.open
    assert run(verdicts(Status.FAIL, Status.PASS), (waiver(subject="GPU 0"),)).open


def test_waiver_does_not_stand_in_for_silence() -> None:
    assert not run(verdicts(Status.PASS), (waiver(),)).open


def test_some_checks_can_never_be_waived() -> None:
    expected = (Expectation("a.check", ("GPU 0",), waivable=False),)
    decision = run(verdicts(Status.FAIL), (waiver(),), expected)
    assert not decision.open
    assert "can never be waived" in " ".join(decision.reasons)


def test_a_waiver_needs_reason_and_owner() -> None:
    for field in ("reason", "owner"):
        with pytest.raises(ValidationError):
            waiver(**{field: ""})


def test_a_waiver_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValidationError):
        waiver(expires="2026-12-01T00:00:00")


def test_break_glass_is_marked() -> None:
    decision = run(verdicts(Status.PASS, Status.FAIL), (waiver(kind="break_glass"),))
    assert decision.open and decision.verdicts[1].waived_by.startswith("break-glass")


def test_worst_exit_code() -> None:
    assert worst([Exit.OPEN, Exit.UNKNOWN, Exit.CLOSED]) is Exit.CLOSED
    assert worst([Exit.OPEN, Exit.UNKNOWN]) is Exit.UNKNOWN
    assert worst([Exit.UNREACHABLE, Exit.CLOSED]) is Exit.UNREACHABLE
    assert worst([Exit.INTERNAL, Exit.UNREACHABLE]) is Exit.INTERNAL
    assert worst([]) is Exit.UNKNOWN


EFFECT = Expectation("a.check", ("GPU 0", "GPU 1"))


def explained(
    cause: str = "node", *, waivers: tuple[Waiver, ...] = (), subject: str = "GPU 0",
    because: str = "a.cause",
) -> Decision:  # fmt: skip
    """Both failed; ``a.check`` of one GPU says that ``a.cause`` may be why."""
    found = [
        Verdict(check="a.cause", subject=cause, status=Status.FAIL),
        *verdicts(Status.PASS, Status.PASS),
    ]
    effect = Verdict(check="a.check", subject=subject, status=Status.FAIL, because=(because,))
    found = [v for v in found if (v.check, v.subject) != (effect.check, subject)] + [effect]
    expected = (Expectation("a.cause", (cause,)), EFFECT)
    standing = faults(expected, found, waivers, host="node1", as_of=NOW)
    return decide(
        "driver", expected, found, waivers, host="node1", as_of=NOW, standing=standing
    )  # fmt: skip


def test_a_fault_is_named_once_and_what_it_explains_is_not_known() -> None:
    decision = explained()
    assert not decision.open and decision.exit_code == Exit.CLOSED
    assert decision.reasons == ("failed: a.cause", "explained by a.cause: a.check")
    (effect,) = [v for v in decision.verdicts if v.follows]
    assert (effect.status, effect.follows) == (Status.UNKNOWN, "a.cause")
    assert effect.remedy == "mend a.cause first; then this is judged anew"


def test_a_fault_of_one_gpu_explains_nothing_of_another() -> None:
    assert explained("GPU 0").reasons == ("failed: a.cause", "explained by a.cause: a.check")
    assert explained("GPU 1").reasons == ("failed: a.cause, a.check",)
    assert explained("GPU0-GPU1", subject="GPU 0").reasons == ("failed: a.cause, a.check",)


def test_a_fault_may_explain_by_one_of_its_subjects_alone() -> None:
    """Another version of the fabric manager is no reason for CUDA to refuse its library."""
    why = ("failed: a.cause", "explained by a.cause: a.check")
    assert explained("userspace", because="a.cause@userspace").reasons == why
    both = ("failed: a.cause, a.check",)
    assert explained("fabric manager", because="a.cause@userspace").reasons == both
    assert explained("GPU 1", because="a.cause@GPU 1").reasons == both  # of another GPU


def test_a_waived_fault_explains_nothing() -> None:
    """Or the waiver of one check would let another pass as unknown and be waived with less."""
    decision = explained(waivers=(waiver(check="a.cause"),))
    assert decision.reasons == ("failed: a.check",) and decision.exit_code == Exit.CLOSED


def test_what_passed_or_is_unknown_is_left_as_it_is() -> None:
    for status in (Status.PASS, Status.WARN, Status.UNKNOWN):
        verdict = Verdict(check="a.check", subject="GPU 0", status=status, because=("a.cause",))
        decision = decide(
            "driver", (Expectation("a.check", ("GPU 0",)),), [verdict], (), host="node1",
            as_of=NOW, standing={("a.cause", "node")},
        )  # fmt: skip
        assert decision.verdicts == (verdict,)


def test_causes_are_checks_and_form_no_circle() -> None:
    """In a circle every fault would be explained by another, and none would be named."""

    def causes(name: str, above: tuple[str, ...] = ()) -> None:
        assert name not in above, f"{' -> '.join((*above, name))}"
        for cause in BY_ID[name].follows:
            causes(cause, (*above, name))

    for item in CHECKS:
        causes(item.id)


SETTLING = Verdict(check="a.check", subject="GPU 0", status=Status.FAIL, settles_s=90)
BROKEN = Verdict(check="a.check", subject="GPU 1", status=Status.FAIL)
FINE = Verdict(check="a.check", subject="GPU 1", status=Status.PASS)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [([SETTLING, FINE], 90), ([SETTLING, BROKEN], 0), ([FINE, BROKEN], 0)],
)
def test_only_what_settles_is_waited_for(found: list[Verdict], seconds: int) -> None:
    assert settles_s([run(found)]) == seconds
    assert settles_s([run(verdicts(Status.PASS, Status.PASS)), run(found)]) == seconds


def test_what_was_not_said_is_not_waited_for() -> None:
    """A check that did not speak will not speak later."""
    decision = run([SETTLING])
    assert decision.reasons == ("failed: a.check", "a.check gave no verdict for GPU 1")
    assert settles_s([decision]) == 0
