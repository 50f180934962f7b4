"""A gate waits for what settles after a boot, and for nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric_tools.ansible.settle import PAUSE_S, Clock, settled
from fabric_tools.errors import Exit
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import HEALTHY, decide

OPEN = Decision(phase="base", open=True, exit_code=Exit.OPEN)


def closed(settles_s: int) -> Decision:
    return Decision(
        phase="base", open=False, exit_code=Exit.CLOSED, reasons=("failed: a.check0",),
        settles_s=settles_s,
    )  # fmt: skip


@dataclass
class Node:
    """Answers with one decision after the other, the last one again and again; each reading takes
    ``takes_s``. Time is its own."""

    decisions: list[Decision]
    takes_s: float = 3.0
    now_s: float = 0.0
    read: int = 0
    said: list[str] = field(default_factory=list)

    def collect(self) -> str:
        self.read += 1
        self.now_s += self.takes_s
        return str(self.read)

    def judged(self, text: str) -> list[Decision]:
        return [self.decisions[min(int(text), len(self.decisions)) - 1]]

    def pause(self, seconds: float) -> None:
        assert 0 < seconds <= PAUSE_S
        self.now_s += seconds

    def settled(self) -> str:
        clock = Clock(now=lambda: self.now_s, pause=self.pause)
        return settled(self.collect, self.judged, self.said.append, clock)


def test_an_open_gate_is_read_once() -> None:
    node = Node([OPEN])
    assert node.settled() == "1" and node.said == []


def test_a_fault_that_no_time_mends_is_not_waited_for() -> None:
    node = Node([closed(0), OPEN])
    assert node.settled() == "1" and node.said == []


def test_what_settles_is_looked_at_again_and_said_once() -> None:
    node = Node([closed(90), closed(90), OPEN])
    assert node.settled() == "3"
    assert node.said == ["failed: a.check0: looking again for up to 87 s"]


def test_what_never_settles_ends_in_time_and_is_judged_as_it_is() -> None:
    node = Node([closed(20)])
    assert node.settled() == str(node.read)
    assert 20 <= node.now_s <= 20 + node.takes_s


def test_a_fault_that_comes_up_meanwhile_ends_the_waiting() -> None:
    node = Node([closed(90), closed(0), OPEN])
    assert node.settled() == "2"


def settles(probe: str, old: str, new: str, phase: Phase, check: str) -> set[int]:
    """Of the verdicts of ``check`` on the healthy node with one text changed."""
    snapshot = read_snapshot(HEALTHY)
    text = snapshot.probes[probe].stdout
    assert old in text
    result = ProbeResult(status=ProbeStatus.OK, stdout=text.replace(old, new))
    changed = snapshot.model_copy(update={"probes": {**snapshot.probes, probe: result}})
    found = [v for v in decide(changed, phase).verdicts if v.check == check]
    assert found and all(v.status is not Status.PASS for v in found)
    return {v.settles_s for v in found}


def test_the_fabric_registers_while_its_manager_runs() -> None:
    state = ("nvidia_smi_q_xml", "<state>Completed</state>", "<state>In Progress</state>")
    assert settles(*state, Phase.DRIVER, "fabric.state") == {60}
    status = ("nvidia_smi_q_xml", "<status>Success</status>", "<status>Failure</status>")
    assert settles(*status, Phase.DRIVER, "fabric.state") == {0}
