"""The playbooks that exist, run by the ansible-core of this Python against this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_runner import ROOT

#: Each starts a command as a process.
pytestmark = pytest.mark.cli

ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


def play(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run 00-preflight on localhost without SSH and without becoming root."""
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "FABRIC_STATE": str(tmp_path / "ledger"),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }
    variables = {"ansible_become": False, "ansible_python_interpreter": sys.executable}
    playbook = str(ROOT / "playbooks/00-preflight.yml")
    return subprocess.run(
        [str(ANSIBLE), "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), playbook,
         *args],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=env,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_platform_and_waivers_of_the_inventory_are_used(tmp_path: Path) -> None:
    site = {"fabric_host": {"platform": "no-such"}}
    done = play(tmp_path, "-e", json.dumps(site))
    assert done.returncode == 2
    assert "no platform 'no-such'" in done.stdout
    site = {"fabric_host": {"platform": "dgx-h100"}}
    done = play(tmp_path, "-e", json.dumps(site))
    assert "dgx-h100 (declared)" in done.stdout


def test_the_snapshot_is_not_logged(tmp_path: Path) -> None:
    assert "fabric-tools/snapshot" not in play(tmp_path, "-vvv").stdout


def left(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.glob("fabric-*")]


def test_a_machine_without_gpus_closes_the_gate(tmp_path: Path) -> None:
    done = play(tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "CLOSED (exit 3): closed because it could not tell" in done.stdout
    assert "changed=0" in done.stdout
    assert not left(tmp_path), "the collector was left behind"


def test_check_mode_tells_and_does_not_fail(tmp_path: Path) -> None:
    done = play(tmp_path, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would be closed: CLOSED (exit 3)" in done.stdout
    assert not left(tmp_path)


def test_ansible_is_the_version_that_this_python_gets() -> None:
    done = subprocess.run([str(ANSIBLE), "--version"], capture_output=True, text=True, check=True)
    want = "core 2.19." if sys.version_info < (3, 12) else "core 2.21."
    assert want in done.stdout.splitlines()[0]
