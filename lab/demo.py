"""``python -m lab.demo``: a simulated node from bare to a proved fabric, a fault, and healed again.

Every command of it is one that an operator types. Exit 0 shown, 1 something failed, 2 a lab is up
already, 75 the lab cannot run on this host (told in one line; nothing was done), 130 interrupted.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

from lab.demo_host import why_not
from lab.errors import LabError
from lab.faults import BY_NAME, Fault
from lab.places import CACHE, INVENTORY, ROOT, SSH_CONFIG, STATE
from lab.stage import Done, Stage, clip

OUT = ROOT / ".cache" / "demo"
LOG = OUT / "demo.log"
NODE = "gpu-node-1"
FAULT = "link-down"
GATES = ("preflight", "base", "driver", "nvlink")
#: Phases that a playbook drives in the lab, with seconds measured on two cores.
PHASES = {"preflight": 6, "base": 35, "driver": 50}
#: The first time an image is made; later it is only started.
IMAGE_S, START_S, READ_S = 60, 5, 8
_CANNOT = 75
_TOOL = str(Path(sys.executable).with_name("fabric-tools"))
_PLAY = str(Path(sys.executable).with_name("ansible-playbook"))
_GATE = re.compile(rf"\b((?:{'|'.join(GATES)}): (?:OPEN|CLOSED)[^'\n]*)")
_PASSING = re.compile(r"  (?:passed|not measured|not applicable): ")
_FOUND = re.compile(r"  (?:FAIL|UNKNOWN|WARN) ")
_RECAP = re.compile(r"ok=(?P<ok>\d+) +changed=(?P<changed>\d+)")

_FIRST = f"""
Simulated: GPUs, NVSwitches, NICs, and what vendor packages have inside.
Real: Debian, systemd, sshd, apt, dpkg, dkms, gpg, Ansible, and the product,
which has no switch for simulated nodes and is not told.
Everything that commands print: {LOG.relative_to(ROOT)}
"""


def main() -> int:
    """Show it all; the lab is taken down at the end, whatever happens, unless KEEP is set."""
    reason = why_not()
    if reason:
        print(reason)
        return _CANNOT
    if STATE.exists():
        print("demo: a lab is up or was left behind: `make lab-down` first", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    # What ends a job ends a playbook too, and takes the lab down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stage = Stage(sys.stdout, LOG, steps=len(PHASES) + 4, env=_environment())
    try:
        _play(stage)
        code = 0
    except LabError as error:
        stage.say(f"demo: {error}")
        code = 1
    except KeyboardInterrupt:
        stage.say("\ndemo: interrupted")
        code = 130
    return max(code, _leave(stage))


def _play(stage: Stage) -> None:
    first = not list(CACHE.glob("pool-*/.whole"))
    up_s = (IMAGE_S if first else 0) + START_S
    total_s = up_s + sum(PHASES.values()) + 4 * READ_S
    stage.say(_FIRST)
    stage.say(f"About {total_s / 60:.0f} to {total_s / 30:.0f} minutes, by what else runs here.\n")
    stage.step("bare node", [sys.executable, "-m", "lab", "up"], up_s)
    stage.aside([_TOOL, "ledger", "init"])
    for phase, estimate_s in PHASES.items():
        playbook = next((ROOT / "playbooks").glob(f"*-{phase}.yml"))
        done = stage.step(
            phase, [_PLAY, "-i", INVENTORY, playbook.relative_to(ROOT)], estimate_s
        )  # fmt: skip
        stage.say(f"      {_gates(done)[-1]}{_recap(done)}")
    done = stage.step("nvlink, passive", [_TOOL, "validate", "nvlink", "-i", INVENTORY], READ_S)
    stage.say(f"      {clip(_gates(done)[-1], 72)}")
    _fault(stage, BY_NAME[FAULT])
    stage.say("\nWhat the ledger proves of this machine now, signed:")
    shown = stage.aside([_TOOL, "ledger", "show", NODE])
    stage.say("\n".join(f"  {clip(line, 76)}" for line in shown.text.splitlines()))
    stage.say("\nReports, one self-contained page each, with the topology drawn (simulated):")
    for page in (OUT / "fault.html", OUT / "healed.html"):
        stage.say(f"  {page}")
    stage.say(
        f"\ndemo: gates opened, closed on the fault and opened again; {stage.elapsed_s:.0f} s"
    )


def _fault(stage: Stage, fault: Fault) -> None:
    """Put the cause in place, show the closed gate, take it away, show the open one."""
    stage.say(f"\nA fault, {fault.name}: {fault.says} (told to the simulated hardware).")
    stage.aside(_cause(fault.breaks))
    snapshot = _read(stage, "fault")
    text = _judged(stage, snapshot, "console", code=1).text
    found = json.loads(_judged(stage, snapshot, "json", code=1).text)
    if (fault.check, fault.subject) not in _failed(found):
        raise LabError(f"{fault.check} did not fail for {fault.subject}", f"see {snapshot}")
    stage.say(f"$ fabric-tools validate {' '.join(GATES)} --snapshot ...")
    stage.say(_without_passed(text))
    stage.say("\nThe cause is taken away.")
    stage.aside(_cause(fault.heals))
    done = _judged(stage, _read(stage, "healed"), "console", code=0)
    stage.say("\n".join(f"      {clip(line, 72)}" for line in _gates(done)))


def _cause(script: str) -> list[str | Path]:
    """The command that runs a script of a fault in the node, as root; by SSH, which always
    reaches the node and nothing else, also where the engine runs in a chroot."""
    return ["ssh", "-F", SSH_CONFIG, NODE, f"sudo sh -euc {shlex.quote(script)}"]


def _read(stage: Stage, name: str) -> Path:
    """A snapshot and its page."""
    snapshot = OUT / f"{name}.json"
    stage.step(
        f"collect, {name}",
        [_TOOL, "collect", "--host", NODE, "--ssh-config", SSH_CONFIG, "-o", snapshot], READ_S,
    )  # fmt: skip
    page = _judged(stage, snapshot, "html", code=None).text
    (OUT / f"{name}.html").write_text(page[page.index("<!DOCTYPE") :])
    return snapshot


def _judged(stage: Stage, snapshot: Path, form: str, *, code: int | None) -> Done:
    declared = STATE / "host_vars.json"
    if not declared.exists():
        tree = json.loads((INVENTORY / "hosts.yml").read_text())
        host = tree["all"]["children"]["gpu_nodes"]["hosts"][NODE]
        declared.write_text(json.dumps({"fabric_host": host["fabric_host"]}))
    return stage.aside(
        [_TOOL, "validate", *GATES, "--snapshot", snapshot, "--host-vars", declared,
         "--name", NODE, "--format", form],
        code=code,
    )  # fmt: skip


def _failed(report: dict[str, object]) -> set[tuple[str, str]]:
    hosts = report["hosts"]
    assert isinstance(hosts, list)
    return {
        (verdict["check"], verdict["subject"])
        for host in hosts
        for decision in host["decisions"]
        for verdict in decision["verdicts"]
        if verdict["status"] == "fail"
    }


def _without_passed(text: str) -> str:
    """The console report without the names of what passed, which are many."""
    kept, passing = [], False
    for line in text.splitlines():
        if _PASSING.match(line):
            passing = True
        elif not line.startswith("  ") or _FOUND.match(line):
            passing = False
        if not passing:
            kept.append(f"  {line}".rstrip())
    return "\n".join(kept)


def _gates(done: Done) -> list[str]:
    return [line.strip() for line in _GATE.findall(done.text)] or ["(no gate was judged)"]


def _recap(done: Done) -> str:
    found = _RECAP.search(done.text)
    return f" (tasks: {found['ok']} ok, {found['changed']} changed)" if found else ""


def _environment() -> dict[str, str]:
    """Plain text of 80 columns; the ledger lies with the lab and goes with it."""
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_FORCE_COLOR": "False",
        "ANSIBLE_NOCOLOR": "True",
        "COLUMNS": "78",
        "FABRIC_STATE": str(STATE / "ledger"),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }


def _leave(stage: Stage) -> int:
    """Take the lab down, or say how to; returns an exit code."""
    if os.environ.get("KEEP") and SSH_CONFIG.exists():
        stage.say(f"KEEP=1, the lab stays:  ssh -F {SSH_CONFIG} {NODE}")
        stage.say(f"  export FABRIC_STATE={STATE / 'ledger'}")
        stage.say(f"  inventory: {INVENTORY}; `make lab-down` removes it all")
        return 0
    try:
        stage.aside([sys.executable, "-m", "lab", "down"])
    except LabError as error:
        stage.say(f"demo: {error}; `make lab-down` again")
        return 1
    finally:
        shutil.rmtree(STATE / "ledger", ignore_errors=True)
    stage.say("demo: the lab is down again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
