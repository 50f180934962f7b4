"""A lab of its own for a module of tests: up, driven, looked into, down.

Everything that a run writes on the controller lies in ``folder``: ledger, home, temporary files.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabric_tools.ledger import Ledger
from lab.engine import find_engine
from lab.machines import wait_for_ssh
from lab.places import CACHE, container
from tests.cases_runner import ROOT

BIN = Path(sys.executable).parent
PLAYBOOKS = ROOT / "playbooks"
#: Seconds after which a run is taken for hung.
LIMIT_S = 900


@dataclass(frozen=True)
class Done:
    """A command that ended. ``text``: standard output, then standard error."""

    code: int
    out: str
    err: str = ""

    @property
    def text(self) -> str:
        return self.out + self.err

    def roles(self, host: str) -> dict[str, dict[str, int]]:
        """Tasks of each role that ran on ``host``, by their outcome (ok, changed, failed)."""
        found: dict[str, dict[str, int]] = {}
        role = ""
        for line in self.out.splitlines():
            if line.startswith(("TASK [", "RUNNING HANDLER [", "PLAY [", "PLAY RECAP")):
                title = line.partition("[")[2]
                role = title.partition(" : ")[0] if " : " in title else ""
            word, _, rest = line.partition(": [")
            if role and word in ("ok", "changed", "fatal") and rest.startswith(f"{host}]"):
                counts = found.setdefault(role, {})
                counts[word] = counts.get(word, 0) + 1
        return found

    @property
    def flat(self) -> str:
        """Standard output with every run of blanks as one: YAML results are wrapped."""
        return " ".join(self.out.split())

    def gates(self) -> str:
        """What stands below the run: a line for each host."""
        return self.out.partition("GATES ***")[2]


@dataclass
class Rig:
    """The lab ``name``. ``up`` makes it."""

    name: str
    folder: Path
    told: dict[str, object] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return CACHE / f"state-{self.name}"

    @property
    def inventory(self) -> Path:
        return self.state / "inventory"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("ANSIBLE_", "FABRIC_"))}
        return {
            **kept,
            "FABRIC_LAB": self.name,
            "FABRIC_LAB_CACHE": str(CACHE),
            "FABRIC_STATE": str(self.ledger),
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "PATH": f"{BIN}:{kept['PATH']}",
            "PYTHONPATH": str(ROOT),
            "ANSIBLE_NOCOLOR": "1",
        }

    # The lab itself.

    def up(self, nodes: int = 1, kind: str = "stock") -> Rig:
        """Make the lab anew, and a ledger with a key."""
        for place in (self.home, self.folder / "tmp"):
            place.mkdir(parents=True, exist_ok=True)
        self.down()
        self.lab("up", "--nodes", str(nodes), "--kind", kind)
        self.told = json.loads((self.state / "lab.json").read_text())
        done = self.tool("ledger", "init")
        assert done.code == 0, done.text
        return self

    def down(self) -> None:
        self.lab("down")

    def lab(self, *words: str) -> Done:
        """``python -m lab WORDS``; it must succeed."""
        done = self.run(sys.executable, "-m", "lab", *words, cwd=ROOT)
        assert done.code == 0, f"lab {' '.join(words)}: {done.text}"
        return done

    # The product.

    def run(self, *words: str | Path, cwd: Path = ROOT, **more: str) -> Done:
        """Any command in the rig's environment, ``more`` put over it."""
        done = subprocess.run(
            [str(word) for word in words], cwd=cwd, env=self.environment | more, timeout=LIMIT_S,
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def tool(self, *words: str | Path) -> Done:
        """``fabric-tools WORDS`` of this checkout."""
        return self.run(sys.executable, "-m", "fabric_tools", *words)

    def validate(self, *words: str) -> Done:
        """Judge every node of the lab over ssh."""
        return self.tool("validate", *words, "-i", self.inventory)

    def playbook(self, name: str, *options: str, cwd: Path = ROOT, **more: str) -> Done:
        """One of the product's playbooks on the nodes of the lab."""
        return self.run(*self._playbook(name, options), cwd=cwd, **more)

    def proved(self, name: str, *options: str) -> Done:
        """The same, and it must succeed."""
        done = self.playbook(name, *options)
        assert done.code == 0, _end(done.text)
        return done

    def entries(self, node: int = 1) -> list[tuple[str, bool]]:
        """The ledger of a node: phase, and whether its gate was open."""
        return [(e.phase, e.open) for e in Ledger(self.ledger, self.host(node)).entries()]

    def ledger_bytes(self, node: int = 1) -> bytes:
        path = Ledger(self.ledger, self.host(node)).path
        return path.read_bytes() if path.exists() else b""

    @contextmanager
    def started(self, name: str, *options: str) -> Iterator[Started]:
        """A playbook that runs, in a process group of its own, which is gone afterwards."""
        process = subprocess.Popen(
            [str(word) for word in self._playbook(name, options)], cwd=ROOT, text=True,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        run = Started(process)
        try:
            yield run
        finally:
            run.kill()

    def _playbook(self, name: str, options: tuple[str, ...]) -> list[str | Path]:
        return [BIN / "ansible-playbook", "-i", self.inventory, PLAYBOOKS / name, *options]

    # The nodes.

    def host(self, node: int = 1) -> str:
        return f"gpu-node-{node}"

    def container(self, node: int = 1) -> str:
        return container(f"node{node}", self.name)

    def inside(self, script: str, node: int = 1) -> str:
        """Run a shell script in a node as root; it must succeed."""
        return self._enter(self.container(node), script)

    def on_mirror(self, script: str) -> str:
        """The same on the machine that serves packages and time."""
        return self._enter(container("mirror", self.name), script)

    def _enter(self, container: str, script: str) -> str:
        pid = str(find_engine().pid(container))
        done = subprocess.run(
            ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-C", "sh", "-s"], input=script,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.returncode}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def cut_power(self, node: int = 1) -> None:
        """The node stops between two instructions, and stays off."""
        engine, container = find_engine(), self.container(node)
        first = engine.pid(container)
        engine("kill", "-s", "KILL", container)
        _wait(lambda: not Path(f"/proc/{first}").exists(), f"{container} does not die")

    def boot(self, node: int = 1) -> None:
        """The node comes up again, to its sshd."""
        find_engine()("start", self.container(node))
        self.wait_for_ssh(node)

    def wait_for_ssh(self, node: int = 1) -> None:
        wait_for_ssh(self.variables(node)["ansible_host"])

    def variables(self, node: int = 1) -> dict[str, Any]:
        """The node's variables in the inventory."""
        told = json.loads((self.inventory / "hosts.yml").read_text())
        hosts: dict[str, dict[str, Any]] = told["all"]["children"]["gpu_nodes"]["hosts"]
        return hosts[self.host(node)]


class Started:
    """A run that goes on. What it says is kept, and read up to a line that is waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        # Read at once: a run whose pipe is full would wait.
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def until(self, words: str) -> None:
        """Wait for a line that holds ``words``; fails where the run ends before."""
        while (line := self._lines.get(timeout=LIMIT_S)) is not None:
            if words in line:
                return
        raise AssertionError(f"ended before {words!r}: {_end(''.join(self._said))}")

    def end(self) -> Done:
        """Wait for the end of it."""
        while self._lines.get(timeout=LIMIT_S) is not None:
            pass
        return Done(self.process.wait(timeout=20), "".join(self._said))

    def kill(self) -> None:
        """SIGKILL to it and all that it started, as the death of the controller.

        Ansible's workers lead sessions of their own; one that stayed would end its task.
        """
        alive = self.process.poll() is None
        for pid in (self.process.pid, *_below(self.process.pid)) if alive else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=20)


def _below(pid: int) -> list[int]:
    """Children of a process, and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *_below(child)]
    return found


def sh(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def _wait(true: Callable[[], bool], otherwise: str, timeout_s: float = 60) -> None:
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, otherwise
        time.sleep(0.02)


def _end(text: str) -> str:
    return text[-3000:]
