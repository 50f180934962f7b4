"""A node that answers Ansible: its python3 is a stand-in that brings the whole healthy node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from fabric_tools.ledger import create_keys
from fabric_tools.models.snapshot import HostIdentity, Snapshot, Source
from tests.cases_runner import MORE, ROOT
from tests.checks.whole import SITE, whole_node

MACHINE = "0123456789abcdef0123456789abcdef"
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
#: Answers as the collector does; argv: -I -c CODE PATH LENGTH SHA256 NONCE.
_STAND_IN = """\
#!{python} -I
import datetime, hashlib, json, pathlib, sys
said = json.loads(pathlib.Path({said!r}).read_text())
said["started_at"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
text = json.dumps(said) + "\\n"
digest = hashlib.sha256(text.encode()).hexdigest()
assert pathlib.Path(sys.argv[4]).stat().st_size == int(sys.argv[5])
print("welcome to the node\\n\\n" + "FABRIC-COLLECT", sys.argv[7], len(text), digest)
print(text, end="")
later = pathlib.Path({said!r} + ".later")
if later.exists():
    later.rename({said!r})
"""


def snapshot_now(folder: Path, machine: str = MACHINE) -> Snapshot:
    """The whole healthy node as a collector would bring it at this moment."""
    return whole_node(folder).model_copy(
        update={
            "source": Source(),
            "started_at": datetime.now(UTC),
            "host": HostIdentity(hostname="node", machine_id=machine, boot_id="b1", uid=0),
        }
    )


class Site:
    """A controller with an empty ledger and, where it is asked for, a node that answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.bin = folder / "bin"
        self.bin.mkdir()

    def with_key(self) -> Site:
        self.ledger.mkdir(mode=0o700)
        create_keys(self.ledger / "site.key")
        return self

    def with_healthy_node(self) -> Site:
        said = self.folder / "said.json"
        said.write_text(snapshot_now(self.folder).model_dump_json())
        python = self.bin / "python3"
        python.write_text(_STAND_IN.format(python=sys.executable, said=str(said)))
        python.chmod(0o755)
        return self

    def with_a_node_that_was_just_booted(self) -> Site:
        """Its clock follows nobody at the first reading; at the second it does."""
        self.with_healthy_node()
        said = self.folder / "said.json"
        text = said.read_text()
        Path(f"{said}.later").write_text(text)
        booted = json.loads(text)
        clock = booted["probes"]["chrony_tracking"]
        assert ",Normal" in clock["stdout"]
        clock["stdout"] = clock["stdout"].replace(",Normal", ",Not synchronised")
        said.write_text(json.dumps(booted))
        return self

    @property
    def environment(self) -> dict[str, str]:
        drop = ("ANSIBLE_CONFIG", "FABRIC_STATE")
        return {name: value for name, value in os.environ.items() if name not in drop} | {
            "ANSIBLE_ACTION_PLUGINS": str(ROOT / "playbooks/action_plugins"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "FABRIC_STATE": str(self.ledger),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.folder),
        }

    def variables(self) -> dict[str, object]:
        return {
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "fabric_host": SITE.model_dump(mode="json"),
            "fabric_stacks_dir": str(MORE / "stacks"),
        }

    def play(
        self, playbook: Path | str, *args: str, connection: str = "local"
    ) -> subprocess.CompletedProcess[str]:
        """From ``/`` and without any ansible.cfg."""
        return subprocess.run(
            [str(ANSIBLE), "-i", "node,", "-c", connection, "-e", json.dumps(self.variables()),
             str(playbook), *args],
            capture_output=True, text=True, check=False, cwd="/", env=self.environment,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip

    def gates(self, *asked: tuple[str, str]) -> Path:
        """A playbook of gates alone: no role may run on the machine of the tests."""
        path = self.folder / "gates.yml"
        tasks = [{"fabric_gate": {"phase": phase, "side": side}} for phase, side in asked]
        path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        return path
