"""The playbooks as an operator runs them: refused, dry, in one go over two nodes, twice, resumed.

The tests build on each other: two bare nodes become proved ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cases_runner import ROOT
from tests.lab.conftest import Labs
from tests.lab.rig import PLAYBOOKS, Done, Rig, sh
from tests.lab.states import changes, controller_state, left_on_controller, left_on_node, node_state

pytestmark = pytest.mark.lab

PHASES = ("preflight", "base", "driver")
ROLES = {"node_base", "nvidia_driver"}
BOTH = ("gpu-node-1", "gpu-node-2")


@pytest.fixture(scope="module")
def rig(labs: Labs) -> Rig:
    return labs("run", nodes=2)


def refused(done: Done, playbook: Path) -> None:
    """20-driver on a node whose base was never proved: the reason, the command, no role."""
    assert done.code == 2, done.text
    assert "base was never judged on this host; run `ansible-playbook -i /" in done.gates()
    assert f" {playbook} --limit " in done.gates()
    assert "TASK [nvidia_driver" not in done.out and "TASK [Read what the system is" not in done.out


def test_driver_is_refused_from_anywhere_without_configuration(rig: Rig) -> None:
    before = node_state(rig)
    done = rig.playbook("20-driver.yml", cwd=Path("/"))
    refused(done, PLAYBOOKS / "10-base.yml")
    assert done.gates().count("driver entry: CLOSED") == 2, "every host has its line"
    assert changes(before, node_state(rig)) == []


def test_driver_is_refused_under_ansible_runner(rig: Rig) -> None:
    private = rig.folder / "private"
    (private / "env").mkdir(parents=True)
    (private / "project").symlink_to(PLAYBOOKS)
    (private / "inventory").symlink_to(rig.inventory)
    code = (
        "import ansible_runner\n"
        f"run = ansible_runner.run(private_data_dir={str(private)!r}, playbook='20-driver.yml')\n"
        "print(run.status, run.rc)\n"
    )
    done = rig.run(sys.executable, "-c", code, cwd=Path("/"))
    assert "failed 2" in done.out, done.text
    refused(Done(2, done.out), Path("10-base.yml"))


def test_driver_is_refused_by_an_installed_wheel(rig: Rig, tmp_path: Path) -> None:
    sh(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path),
       str(ROOT))  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "installed"
    sh(sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", "--no-compile",
       "--target", str(place), str(wheel))  # fmt: skip
    alone = {"PYTHONPATH": str(place)}
    where = rig.run(place / "bin/fabric-tools", "playbooks", cwd=Path("/"), **alone)
    playbooks = Path(where.out.strip())
    assert playbooks.is_relative_to(place), where.text
    done = rig.run(
        Path(sys.executable).with_name("ansible-playbook"), "-i", rig.inventory,
        playbooks / "20-driver.yml", cwd=Path("/"), **alone,
    )  # fmt: skip
    refused(done, playbooks / "10-base.yml")


def test_check_mode_on_a_bare_node_changes_nothing(rig: Rig) -> None:
    node, controller = node_state(rig), controller_state(rig)
    done = rig.proved("site.yml", "--check", "--limit", "gpu-node-1")
    assert "would be closed: CLOSED (exit" in done.out
    assert "base entry: would be closed" in done.gates()
    assert set(done.roles("gpu-node-1")) == ROLES, "both roles are walked through"
    assert changes(node, node_state(rig)) == []
    assert controller_state(rig) == controller


def test_two_bare_nodes_are_proved_in_one_run(rig: Rig) -> None:
    done = rig.proved("site.yml")
    for number, host in enumerate(BOTH, start=1):
        assert rig.entries(number) == [(phase, True) for phase in PHASES]
        assert done.roles(host)["nvidia_driver"]["changed"] > 0
        assert left_on_node(rig, number) == []
    assert done.gates().count("driver exit: OPEN (exit 0)") == 2
    assert left_on_controller(rig) == []


def test_the_second_run_does_everything_and_changes_nothing(rig: Rig) -> None:
    before = [node_state(rig, number) for number in (1, 2)]
    done = rig.proved("site.yml")
    for number, host in enumerate(BOTH, start=1):
        ran = done.roles(host)
        assert set(ran) == ROLES, ran
        for role, counts in ran.items():
            assert set(counts) == {"ok"} and counts["ok"] > 10, (host, role, counts)
        assert rig.entries(number) == [(phase, True) for phase in PHASES] * 2
        assert changes(before[number - 1], node_state(rig, number)) == []


def test_check_mode_on_a_proved_node_changes_nothing(rig: Rig) -> None:
    node, controller = node_state(rig), controller_state(rig)
    done = rig.proved("site.yml", "--check", "--limit", "gpu-node-1")
    assert "would be closed" not in done.out
    ran = done.roles("gpu-node-1")
    assert set(ran) == ROLES and not any("changed" in counts for counts in ran.values()), ran
    assert changes(node, node_state(rig)) == []
    assert controller_state(rig) == controller


def test_resume_skips_what_is_proved_and_says_so(rig: Rig) -> None:
    before = rig.ledger_bytes()
    done = rig.proved("site.yml", "-e", "fabric_resume=true", "--limit", "gpu-node-1")
    assert done.roles("gpu-node-1") == {}
    for phase in ("base", "driver"):
        assert f"{phase} is skipped: proved, nothing that goes in has changed" in done.flat
    assert rig.ledger_bytes().startswith(before)


def test_resume_runs_a_phase_whose_settings_changed(rig: Rig) -> None:
    host = rig.variables()["fabric_host"] | {"stack": "r595"}
    changed = json.dumps({"fabric_resume": True, "fabric_host": host})
    done = rig.playbook("10-base.yml", "--check", "-e", changed, "--limit", "gpu-node-1")
    assert "base is not skipped: changed since its proof" in done.flat, done.text


def verdicts(done: Done, phase: str) -> dict[str, bool]:
    """Of a JSON report: is the gate open, by host."""
    return {
        host["host"]: decision["open"]
        for host in json.loads(done.out)["hosts"]
        for decision in host["decisions"]
        if decision["phase"] == phase
    }


def test_a_fleet_is_judged_at_once_and_the_worst_counts(rig: Rig) -> None:
    done = rig.validate(*PHASES, "nvlink", "--format", "json", "-v")
    assert done.code == 0, done.text
    said = [v for h in json.loads(done.out)["hosts"] for d in h["decisions"] for v in d["verdicts"]]
    fleet = [v["status"] for v in said if v["check"] == "fleet.same_stack"]
    assert fleet and set(fleet) == {"pass"}
    rig.inside("/usr/lib/lab/tell gpus.3.present=false", node=1)
    try:
        done = rig.validate("preflight", "--format", "json")
        assert done.code == 1
        assert verdicts(done, "preflight") == {"gpu-node-1": False, "gpu-node-2": True}
    finally:
        rig.inside("/usr/lib/lab/tell --healthy", node=1)


def test_a_broken_node_stops_alone(rig: Rig) -> None:
    rig.inside("/usr/lib/lab/tell gpus.3.present=false", node=1)
    try:
        done = rig.playbook("site.yml", "-e", "fabric_resume=true")
    finally:
        rig.inside("/usr/lib/lab/tell --healthy", node=1)
    assert done.code == 2
    first, second = rig.entries(1), rig.entries(2)
    assert first[-1] == ("preflight", False) and second[-1] == ("preflight", True)
    assert "gpu-node-1  preflight exit: CLOSED (exit 1)" in done.gates()
    assert "gpu-node-2  driver entry: OPEN (exit 0)" in done.gates()
    assert done.roles("gpu-node-1") == {}
    rig.proved("site.yml", "-e", "fabric_resume=true")
    assert rig.entries(1)[-1] == ("preflight", True)


def test_another_branch_is_fetched_whole_before_the_old_one_goes(rig: Rig) -> None:
    host = rig.variables()["fabric_host"] | {"stack": "r595"}
    asked = ("site.yml", "-e", json.dumps({"fabric_host": host}), "--limit", "gpu-node-1")
    rig.on_mirror("echo nvidia-fabricmanager_595 >/srv/missing")
    done = rig.playbook(*asked)
    rig.on_mirror("rm /srv/missing")
    assert done.code == 2 and "Fetch all of the wanted one" in done.out, done.text
    assert "580.173.02" in rig.inside("nvidia-smi --query-gpu=driver_version --format=csv")
    assert rig.inside("dpkg -l 'nvidia-*580*' | grep -c ^.i").strip() != "0"
    rig.proved(*asked)
    assert "595." in rig.inside("nvidia-smi --query-gpu=driver_version --format=csv")
    assert rig.entries()[-1] == ("driver", True)
