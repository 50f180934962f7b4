"""``fabric_gate`` and ``validate -i`` against a real sshd and a real sudo, by one inventory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nodes_that_answer import ANSIBLE, Site
from tests.transport.sshd import PASSWORD, Sshd

pytestmark = pytest.mark.ssh


def inventory(sshd: Sshd, folder: Path) -> Path:
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": sshd.port,
        "ansible_ssh_private_key_file": str(sshd.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={sshd.known_hosts} "
        "-o GlobalKnownHostsFile=none -o IdentitiesOnly=yes -o ControlPath=none",
        "fabric_host": {"platform": "dgx-h100"},
    }
    users = {
        "quick": {"ansible_user": "nopasswd"},
        "asked": {"ansible_user": "withpass", "ansible_become_password": PASSWORD},
    }
    path = folder / "hosts.json"
    hosts = {name: {**host, **user} for name, user in users.items()}
    path.write_text(json.dumps({"all": {"hosts": hosts}}))
    return path


@pytest.mark.parametrize("pipelining", ["True", "False"])
def test_gate_becomes_root_and_leaves_nothing(sshd: Sshd, tmp_path: Path, pipelining: str) -> None:
    """Without pipelining Ansible has a terminal allocated, for sudoers with requiretty."""
    site = Site(tmp_path).with_key()
    playbook = site.folder / "gates.yml"
    gate = {"fabric_gate": {"phase": "preflight", "side": "exit"}}
    play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": [gate]}
    playbook.write_text(json.dumps([play]))
    done = subprocess.run(
        [str(ANSIBLE), "-i", str(inventory(sshd, tmp_path)), str(playbook), "-vvv"],
        capture_output=True, text=True, check=False, cwd="/", stdin=subprocess.DEVNULL,
        env={**site.environment, "ANSIBLE_PIPELINING": pipelining}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    for host in ("quick", "asked"):
        line = (site.ledger / f"{host}.jsonl").read_text()
        entry = json.loads(line)
        assert entry["phase"] == "preflight" and not entry["open"]
        assert "denied" not in line, "what needs root was read"
    assert "fabric-tools/snapshot" not in done.stdout, "the snapshot is not logged"
    assert PASSWORD not in done.stdout + done.stderr
    for user in ("nopasswd", "withpass"):
        left = sorted((sshd.root / f"home-{user}/.ansible/tmp").iterdir())
        assert left == []


def test_validate_reaches_the_same_hosts(sshd: Sshd, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fabric_tools", "validate", "preflight", "-i",
         str(inventory(sshd, tmp_path)), "--format", "json"],
        capture_output=True, text=True, check=False, env=Site(tmp_path).environment,
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    assert done.returncode in (1, 3), done.stderr
    hosts = json.loads(done.stdout)["hosts"]
    assert [host["host"] for host in hosts] == ["quick", "asked"]
    assert all(host["identity"]["uid"] == 0 for host in hosts)
    assert PASSWORD not in done.stdout + done.stderr
