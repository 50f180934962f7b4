"""``phases.py`` is the one list: playbooks, their gates and molecule's scenarios follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fabric_tools.ansible.sides import needed
from fabric_tools.phases import PHASES, PhaseInfo
from tests.cases_runner import ROOT

PLAYBOOKS = ROOT / "playbooks"
WRITTEN = [info for info in PHASES if (PLAYBOOKS / info.playbook).is_file()]


def gates(tasks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Every gate in the order of the tasks, those in blocks too."""
    found = []
    for task in tasks:
        if "fabric_gate" in task:
            found.append((task["fabric_gate"]["phase"], task["fabric_gate"]["side"]))
        found += gates(task.get("block", []))
    return found


def test_site_imports_every_playbook_in_order() -> None:
    site = yaml.safe_load((PLAYBOOKS / "site.yml").read_text())
    assert [play["import_playbook"] for play in site] == [info.playbook for info in WRITTEN]
    assert list(PHASES[: len(WRITTEN)]) == WRITTEN, "a phase is written after those before it"


@pytest.mark.parametrize("info", WRITTEN, ids=lambda info: info.id)
def test_each_playbook_has_both_gates_and_nothing_outside(info: PhaseInfo) -> None:
    (play,) = yaml.safe_load((PLAYBOOKS / info.playbook).read_text())
    assert gates(play["tasks"]) == [(info.id, "entry"), (info.id, "exit")]
    assert play["gather_facts"] is False, "nothing is done before the entry gate"
    for part in ("roles", "pre_tasks", "post_tasks", "any_errors_fatal"):
        assert part not in play
    assert "fabric_serial" in play["serial"]
    if info.scenario is None:
        return
    entry, block = play["tasks"]
    assert entry["register"] == "fabric_entry" and "fabric_gate" in entry
    assert block["when"] == "not fabric_entry.skip", "--resume skips the roles and their gate"
    roles = [task["ansible.builtin.import_role"]["name"] for task in block["block"]
             if "ansible.builtin.import_role" in task]  # fmt: skip
    assert info.scenario in roles
    assert "fabric_gate" in block["block"][-1], "what changed is judged last"
    assert (PLAYBOOKS / "roles" / info.scenario / "tasks/main.yml").is_file()


def test_every_role_that_is_written_has_its_scenario() -> None:
    found = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    assert found == {info.scenario for info in WRITTEN if info.scenario}


@pytest.mark.parametrize(
    "info", [info for info in WRITTEN if info.scenario], ids=lambda info: info.id
)
def test_a_scenario_runs_the_playbook_and_verifies_its_gate(info: PhaseInfo) -> None:
    folder = ROOT / "molecule" / str(info.scenario)
    (play,) = yaml.safe_load((folder / "converge.yml").read_text())
    assert play["ansible.builtin.import_playbook"] == f"../../playbooks/{info.playbook}"
    files = yaml.safe_load((folder / "molecule.yml").read_text())["verifier"]
    gates = {Path(name).stem for name in files["additional_files_or_dirs"]}
    assert gates == {f"test_{phase}" for phase in (*needed(info.id), info.id)}
    for name in files["additional_files_or_dirs"]:
        assert (folder / "tests" / name).is_file(), "molecule leaves out a file that is not there"


def test_roles_are_found_beside_the_playbooks() -> None:
    assert (PLAYBOOKS / "roles").resolve() == ROOT / "roles"
