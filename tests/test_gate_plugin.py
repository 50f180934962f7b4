"""``fabric_gate`` as Ansible runs it: from ``/``, without ansible.cfg, over a local connection."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fabric_tools.ledger import Ledger
from tests.cases_runner import ROOT
from tests.nodes_that_answer import MACHINE, Site

#: Each starts the command as a process.
pytestmark = pytest.mark.cli

#: Run from "/", so the command names the playbook whole.
NEVER = "base was never judged on this host; run `ansible-playbook"
MEND = f"{ROOT}/playbooks/10-base.yml --limit node`"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_phase_proves_itself_and_the_next_may_begin(site: Site) -> None:
    asked = site.gates(("preflight", "exit"), ("base", "entry"), ("driver", "entry"))
    done = site.with_key().with_healthy_node().play(asked)
    assert done.returncode == 2, "driver may not begin: base was never proved"
    assert f"{NEVER} -i node, {MEND}" in done.stdout
    assert "ok=2 " in done.stdout and "changed=0" in done.stdout
    assert "node  driver entry: CLOSED" not in done.stdout, "the summary stands by the playbooks"
    (entry,) = Ledger(site.ledger, "node").entries()
    assert entry.open and entry.phase == "preflight" and entry.machine_id == MACHINE
    assert "role.node_base" not in entry.inputs and "playbook" in entry.inputs
    left = [path.name for path in site.folder.rglob("*fabric-collect*")]
    assert not left, "the collector was left behind"


def test_a_clock_that_follows_nobody_yet_is_waited_for(site: Site) -> None:
    done = site.with_key().with_a_node_that_was_just_booted().play(site.gates(("base", "exit")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node: failed: host.time: looking again for up to 90 s" in done.stdout
    (entry,) = Ledger(site.ledger, "node").entries()
    assert entry.open and entry.phase == "base", "what is written down is the last reading"


def test_driver_playbook_stops_before_its_role(site: Site) -> None:
    done = site.with_key().play(ROOT / "playbooks/20-driver.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{NEVER} -i node, {MEND}" in done.stdout
    assert "TASK [Read what the system is]" not in done.stdout
    gates = done.stdout.partition("GATES ***")[2]
    assert "node  driver entry: CLOSED (exit" in gates
    assert not list(site.ledger.glob("*.jsonl")), "an entry gate writes nothing"


def test_without_a_key_nothing_is_proved(site: Site) -> None:
    done = site.with_healthy_node().play(site.gates(("preflight", "exit")))
    assert done.returncode == 2
    assert "make one with `fabric-tools ledger init`" in done.stdout
    assert "CLOSED (exit 3)" in done.stdout
    assert not site.ledger.exists()


def test_check_mode_neither_fails_nor_writes(site: Site) -> None:
    asked = site.gates(("preflight", "exit"), ("base", "entry"), ("base", "exit"))
    done = site.with_key().play(asked, "--check")  # no stand-in: the machine of the tests
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("would be closed: CLOSED (exit") == 3
    assert {path.name for path in site.ledger.iterdir()} == {"site.key", "site.pub"}


def test_a_node_that_is_not_reached_is_unreachable(site: Site) -> None:
    asked = site.gates(("preflight", "exit"))
    done = site.with_key().play(asked, "-e", "ansible_host=127.0.0.1 ansible_port=1",
                                connection="ssh")  # fmt: skip
    assert done.returncode == 4 and "unreachable=1" in done.stdout
    assert "Connection refused" in done.stdout and "censored" not in done.stdout
    assert not list(site.ledger.glob("*.jsonl"))


def test_an_answer_that_is_no_snapshot(site: Site) -> None:
    python = site.bin / "python3"
    python.write_text("#!/bin/sh\nprintf 'owned\\033[2J\\n'; exit 7\n")
    python.chmod(0o755)
    done = site.with_key().play(site.gates(("preflight", "exit")))
    assert done.returncode == 2
    assert "no snapshot came back (exit status 7); the node said: owned [2J" in done.stdout


def test_wrong_arguments_and_variables_are_told(site: Site) -> None:
    done = site.play(site.gates(("drivers", "entry")))
    assert done.returncode == 2 and "no phase 'drivers'; there are preflight" in done.stdout
    wrong = json.dumps({"fabric_host": {"profile": {"fabrik": "roce"}}})
    done = site.play(site.gates(("preflight", "exit")), "-e", wrong)
    assert "fabric_host: profile.fabrik: Extra inputs are not permitted" in done.stdout


def test_under_ansible_runner(site: Site) -> None:
    site.with_key()
    private = site.folder / "private"
    (private / "inventory").mkdir(parents=True)
    (private / "inventory/hosts").write_text("node ansible_connection=local\n")
    (private / "env").mkdir()
    (private / "env/extravars").write_text(json.dumps(site.variables()))
    code = (
        "import ansible_runner, sys\n"
        f"run = ansible_runner.run(private_data_dir={str(private)!r}, "
        f"playbook={str(ROOT / 'playbooks/20-driver.yml')!r})\n"
        "print(run.status, run.rc)\n"
    )
    env = {**site.environment, "PATH": f"{Path(sys.executable).parent}:{site.environment['PATH']}"}
    del env["ANSIBLE_ACTION_PLUGINS"]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=env, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    assert "failed 2" in done.stdout, done.stdout + done.stderr
    assert NEVER in done.stdout


def test_an_ansible_of_another_python_is_told_in_one_line(site: Site) -> None:
    other = site.folder / "other/fabric_tools"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    before = site.environment
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "node,", "-c", "local",
         str(ROOT / "playbooks/00-preflight.yml")],
        cwd="/", env={**before, "PYTHONPATH": str(other.parent)}, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "run the ansible-playbook that was installed with fabric-tools" in (
        done.stdout + done.stderr
    )
