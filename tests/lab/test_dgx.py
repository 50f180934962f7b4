"""A DGX as its vendor delivers it: verified, opened, and left as it is.

The tests build on each other.
"""

from __future__ import annotations

import json

import pytest

from lab.faults import BY_NAME
from tests.lab.conftest import Labs
from tests.lab.rig import Done, Rig
from tests.lab.states import changes, node_state

pytestmark = pytest.mark.lab

PHASES = ("preflight", "base", "driver")
ROLES = {"node_base", "nvidia_driver"}
#: What the inventory declares and the vendor does not own: proxy and time.
OURS = ("/etc/environment", "/etc/apt/apt.conf.d/80fabric-proxy", "/etc/chrony/chrony.conf")
FOREIGN = BY_NAME["foreign-repository"]


@pytest.fixture(scope="module")
def rig(labs: Labs) -> Rig:
    return labs("dgx", kind="dgx-os")


def bad(done: Done) -> set[str]:
    """Of a JSON report: the checks of all phases that neither passed nor do not apply."""
    decisions = [d for host in json.loads(done.out)["hosts"] for d in host["decisions"]]
    assert {d["phase"] for d in decisions} == set(PHASES)
    verdicts = [v for decision in decisions for v in decision["verdicts"]]
    return {v["check"] for v in verdicts if v["status"] in ("fail", "unknown", "warn")}


def test_check_mode_changes_nothing(rig: Rig) -> None:
    before = node_state(rig)
    rig.proved("site.yml", "--check")
    assert changes(before, node_state(rig)) == [] and rig.entries() == []


def test_it_is_proved_and_left_as_it_is(rig: Rig) -> None:
    before = node_state(rig)
    done = rig.proved("site.yml")
    assert rig.entries() == [(phase, True) for phase in PHASES]
    assert set(done.roles("gpu-node-1")) == ROLES
    changed = changes(before, node_state(rig))
    places = {
        line: next((place for place in OURS if place in line.split()), "") for line in changed
    }
    assert [line for line, place in places.items() if not place] == []
    assert set(places.values()) == set(OURS)
    owned = rig.validate(*PHASES, "--format", "json", "-v")
    assert bad(owned) == set(), owned.text
    assert owned.out.count("/etc/dgx-release)") == 5, "holds, moves and the mirror are the vendor's"


def test_the_second_run_changes_nothing(rig: Rig) -> None:
    before = node_state(rig)
    ran = rig.proved("site.yml").roles("gpu-node-1")
    assert set(ran) == ROLES
    assert all(set(counts) == {"ok"} and counts["ok"] > 5 for counts in ran.values()), ran
    assert changes(before, node_state(rig)) == []


def test_a_foreign_repository_closes_the_gate_alone(rig: Rig) -> None:
    rig.inside(f"set -eu\n{FOREIGN.breaks}")
    done = rig.validate(*PHASES, "--format", "json", "-v")
    assert done.code == 1 and bad(done) == {FOREIGN.check}, done.text
    assert "would come from" in done.out and "/apt/cuda" in done.out
    done = rig.playbook("20-driver.yml")
    assert done.code == 2 and rig.entries()[-1] == ("driver", False)
    assert "driver exit: CLOSED (exit 1)" in done.gates()


def test_an_upgrade_is_refused_while_it_is_there(rig: Rig) -> None:
    before = node_state(rig)
    done = rig.playbook("20-driver.yml", "-e", "nvidia_driver_dgx_upgrade=true")
    assert done.code == 2
    assert "not upgraded, nvidia-driver-580-open would be removed" in done.flat, done.text
    assert changes(before, node_state(rig)) == []


def test_healing_reopens_the_gate(rig: Rig) -> None:
    rig.inside(f"set -eu\n{FOREIGN.heals}")
    before = node_state(rig)
    rig.proved("20-driver.yml", "-e", "nvidia_driver_dgx_upgrade=true")
    assert rig.entries()[-1] == ("driver", True)
    assert changes(before, node_state(rig)) == [], "nothing was there to upgrade"
    assert rig.validate(*PHASES).code == 0
