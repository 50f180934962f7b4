"""What one reading of a node costs, against the tools people would use instead.

30 probes over a real sshd on loopback: 29 stand-ins that answer within 20 ms and one that takes
2 s. Compared in the same run, each from a cold process, median of 7:

- fabric: connect, become root by sudo, read all probes, bring one snapshot back
- ssh: the same 30 commands one after the other in one `ssh host script`
- ssh parallel: the same, all started at once (the most that a shell script can do)
- playbook: one ansible play with 30 `command` tasks, pipelining on
- ansible -m command: one ad-hoc call a probe

Needs root (users and a mount namespace, see tests/transport/sshd.py). Prints ratios; the aims are
at most 1.3 of ssh and at least 6 times faster than ansible -m command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.transport.sshd import Sshd, missing  # noqa: E402

QUICK = "sleep 0.01; echo stand-in output of one line"
SLOW = "sleep 2; echo slow"
COMMANDS = [QUICK] * 29 + [SLOW]

_ONCE = """
import sys
from pathlib import Path
from fabric_tools.node.bundle import build_zipapp
from fabric_tools.transport.collect import collect
from fabric_tools.transport.files import parse_snapshot
from fabric_tools.transport.ssh import SshConnection
connection = SshConnection("nopasswd@node", Path(sys.argv[1]))
text = collect(connection, build_zipapp({"probes.py": Path(sys.argv[2]).read_bytes()}))
connection.close()
probes = parse_snapshot(text, "bench").probes
assert len(probes) == 30 and all(p.status == "ok" for p in probes.values())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    why = missing()
    if why:
        print(f"not run: {why}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = Sshd(folder).start()
        try:
            _report(_measure(_contestants(server, folder), options.runs), options.runs)
        finally:
            server.stop()
    return 0


def _contestants(server: Sshd, folder: Path) -> dict[str, Callable[[], None]]:
    config = server.config(extra=" ControlMaster no\n User nopasswd\n")
    table = folder / "probes.py"
    table.write_text(_table())
    script = "\n".join(f"sh -c '{command}'" for command in COMMANDS)
    parallel = "\n".join(f"sh -c '{command}' &" for command in COMMANDS) + "\nwait"
    inventory = folder / "hosts"
    inventory.write_text(
        f"node ansible_ssh_common_args='-F {config}' ansible_user=nopasswd ansible_become=true\n"
    )
    play = folder / "play.yml"
    play.write_text(_play())
    ssh = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "nopasswd@node", "sudo -n sh -s"]
    scripts = Path(sys.executable).parent
    ansible = [str(scripts / "ansible"), "-i", str(inventory), "node", "-m", "command", "-a"]
    env = {
        "ANSIBLE_PIPELINING": "True", "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
    }  # fmt: skip

    def ad_hoc() -> None:
        for command in COMMANDS:
            _run([*ansible, f"sh -c '{command}'"], env=env)

    return {
        "fabric": lambda: _run([sys.executable, "-c", _ONCE, str(config), str(table)]),
        "ssh": lambda: _run(ssh, script),
        "ssh parallel": lambda: _run(ssh, parallel),
        "playbook": lambda: _run(
            [str(scripts / "ansible-playbook"), "-i", str(inventory), str(play)], env=env
        ),
        "ansible -m command": ad_hoc,
    }


def _table() -> str:
    rows = [
        f"Probe('p{i}', 'command', ('sh', '-c', {command!r}), 10.0, 100000)"
        for i, command in enumerate(COMMANDS)
    ]
    return (
        "from typing import NamedTuple, Tuple\n"
        "class Probe(NamedTuple):\n"
        "    id: str; kind: str; argv: Tuple[str, ...]; timeout_s: float; max_bytes: int\n"
        "    says: str = ''; accept_rc: Tuple[int, ...] = (0,)\n"
        f"PROBES = ({', '.join(rows)})\n"
    )


def _play() -> str:
    tasks = "".join(f"    - command: \"sh -c '{command}'\"\n" for command in COMMANDS)
    return f"- hosts: node\n  gather_facts: false\n  tasks:\n{tasks}"


def _run(argv: list[str], text: str = "", env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        argv, input=text, text=True, capture_output=True, check=False, cwd=ROOT,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{argv[0]} failed: {done.stdout[-500:]} {done.stderr[-500:]}")


def _measure(contestants: dict[str, Callable[[], None]], runs: int) -> dict[str, list[float]]:
    """Interleaved, so that a busy moment of the machine meets all of them; the first is warm-up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(runs + 1):
        for name, call in contestants.items():
            if number == 0 and name == "ansible -m command":
                continue  # half a minute a run: the play has warmed ansible up
            began = time.monotonic()
            call()
            if number:
                times[name].append(time.monotonic() - began)
        print(f"round {number} of {runs} done", file=sys.stderr, flush=True)
    return times


def _report(times: dict[str, list[float]], runs: int) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"30 probes, one of 2 s, real sshd and sudo on loopback; median of {runs}")
    for name, values in times.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        ratio = medians["fabric"] / medians[name]
        print(f"{name:20} {medians[name]:7.2f} s  ({spread})  fabric / this = {ratio:.2f}")
    print(f"against ssh: {medians['fabric'] / medians['ssh']:.2f} (aim at most 1.3)")
    faster = medians["ansible -m command"] / medians["fabric"]
    print(f"against ansible -m command: {faster:.1f} times faster (aim at least 6)")


if __name__ == "__main__":
    sys.exit(main())
