"""``make demo``: what it says before it acts, where it cannot run, and the recorded half of it."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import demo, demo_host, engine
from lab.engine import Engine
from lab.errors import LabError
from lab.stage import WIDTH, Stage, StepFailed
from tests.cases_runner import ROOT

#: None of these may be started by a demo that only says what it would do.
_CHANGING = ("apt-get", "podman", "docker", "mmdebstrap", "pip", "ip", "ssh-keygen")


def _checkout(folder: Path) -> Path:
    """What the shell half of the demo needs, in a place that it may spoil."""
    shutil.copytree(ROOT / "tools", folder / "tools")
    for name in ("Makefile", "requirements.lock", "requirements-build.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "lab").mkdir()
    shutil.copy(ROOT / "lab" / "needs.txt", folder / "lab")
    return folder


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _run(folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"} | env, text=True,
        capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


def _tree(folder: Path) -> dict[str, float]:
    return {str(path): path.lstat().st_mtime for path in folder.rglob("*")}


@pytest.mark.cli
def test_dry_only_says(tmp_path: Path) -> None:
    """It starts nothing that changes a host, and needs nothing installed to say so."""
    folder = _checkout(tmp_path / "src")
    for name in _CHANGING:
        _script(tmp_path / "bin" / name, f"echo {name} >>{tmp_path}/started")
    before = _tree(folder)
    done = _run(folder, "make", "demo", "DRY=1", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    for word in ("install ", "containers", "bridge", "make lab-down", "nothing was done"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert _tree(folder) == before
    assert not (tmp_path / "started").exists()


def test_dry_names_the_packages_that_are_missing(tmp_path: Path) -> None:
    """Where root has nothing of the lab, the line holds what apt-get would be asked for."""
    bare = tmp_path / "bin"
    for name in ("dirname", "cat", "sed", "fold", "grep", "sh", "env"):
        bare.mkdir(exist_ok=True)
        (bare / name).symlink_to(str(shutil.which(name)))
    _script(bare / "id", "echo 0")
    _script(bare / "apt-get", f"touch {tmp_path}/started")
    done = _run(_checkout(tmp_path / "src"), "tools/demo", PATH=str(bare), DRY="1")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    line = said.partition("apt-get install podman")[2]
    for package in ("mmdebstrap", "gcc", "gnupg", "openssh-client"):
        assert package in line
    assert "apt-get install python3" in said
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("recorded", [0, 1])
@pytest.mark.parametrize("where", ["bootstrap", "host"])
def test_without_a_lab_the_recorded_nodes_decide(tmp_path: Path, where: str, recorded: int) -> None:
    """A host without simulated nodes: one line why, and the exit code of the recorded half."""
    folder = _checkout(tmp_path / "src")
    make = _script(tmp_path / "make", f'echo "$*" >>{tmp_path}/made\n'
                   f'case "$*" in *demo-recorded*) exit {recorded};; esac')  # fmt: skip
    refuses = "echo 'bootstrap: podman missing' >&2; exit 1" if where == "bootstrap" else "true"
    _script(folder / "tools" / "bootstrap", refuses)
    _script(folder / ".venv/bin/python", "echo 'need root'; exit 75")
    done = _run(folder, "tools/demo", MAKE=str(make))
    assert done.returncode == recorded
    assert ("NOTHING WAS DRIVEN" in done.stdout) == (recorded == 0)
    assert ("podman missing" if where == "bootstrap" else "need root") in done.stdout
    assert "demo-recorded" in (tmp_path / "made").read_text()


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_an_end_of_the_demo_is_never_replaced(tmp_path: Path, code: int) -> None:
    """A demo that ran and failed has failed: recorded nodes do not make it green."""
    folder = _checkout(tmp_path / "src")
    make = _script(tmp_path / "make", f'echo "$*" >>{tmp_path}/made')
    _script(folder / "tools" / "bootstrap", "true")
    _script(folder / ".venv/bin/python", f"exit {code}")
    assert _run(folder, "tools/demo", MAKE=str(make)).returncode == code
    assert "demo-recorded" not in (tmp_path / "made").read_text()


@pytest.mark.cli
def test_the_recorded_nodes_are_judged_as_expected() -> None:
    done = _run(ROOT, "tools/demo-recorded", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout[-2000:]
    assert "nodes judged as expected" in done.stdout


def test_recorded_nodes_of_one_kind_prove_nothing(tmp_path: Path) -> None:
    folder = _checkout(tmp_path / "src")
    _script(folder / ".venv/bin/fabric-tools", "exit 0")
    (folder / "examples/healthy").mkdir(parents=True)
    (folder / "examples/healthy/expected").write_text("0\n")
    done = _run(folder, "tools/demo-recorded")
    assert done.returncode == 1
    assert "needs a healthy and a sick node" in done.stderr


def _status(tmp_path: Path, capabilities: str) -> Path:
    path = tmp_path / "status"
    path.write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    return path


def test_a_host_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason alone, and none where all is there."""
    monkeypatch.setattr(demo_host.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(demo_host, "find_engine", lambda: Engine("podman", ()))
    every = _status(tmp_path, "000001ffffffffff")
    monkeypatch.setattr(demo_host.os, "geteuid", lambda: 1000)
    assert "root" in demo_host.why_not(every)
    monkeypatch.setattr(demo_host.os, "geteuid", lambda: 0)
    assert demo_host.why_not(every) == ""
    assert "CAP_NET_ADMIN" in demo_host.why_not(_status(tmp_path, "00000000a80425fb"))

    def no_engine() -> Engine:
        raise LabError("no podman and no docker here")

    monkeypatch.setattr(demo_host, "find_engine", no_engine)
    assert "no podman" in demo_host.why_not(_status(tmp_path, "000001ffffffffff"))


def _stage(tmp_path: Path) -> tuple[Stage, io.StringIO]:
    out = io.StringIO()
    return Stage(out, tmp_path / "log", steps=1, env=dict(os.environ)), out


def test_a_step_that_fails_shows_its_last_lines(tmp_path: Path) -> None:
    stage, out = _stage(tmp_path)
    with pytest.raises(StepFailed):
        stage.step("driver", ["sh", "-c", "seq 100; echo cause >&2; exit 3"], 1)
    text = out.getvalue()
    assert "FAILED" in text
    assert "cause" in text
    assert "| 80" in text
    assert "| 20\n" not in text
    assert "\n20\n" in (tmp_path / "log").read_text()


def test_a_step_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    stage, _ = _stage(tmp_path)
    with pytest.raises(StepFailed, match="not done in 1 s"):
        stage.step("driver", ["sh", "-c", f"sleep 60 & echo $! >{tmp_path}/pid; wait"], 1,
                   timeout_s=1)  # fmt: skip
    child = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 20  # killed, it may have to wait for a processor to end on
    while _alive(child):
        assert time.monotonic() < until
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process is there and not dead already, only unburied."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_a_ci_log_has_short_plain_lines(tmp_path: Path) -> None:
    stage, out = _stage(tmp_path)
    task = f"TASK [node_base : {'Bring ' * 40}] ****"
    stage._told = stage._started - 60
    stage._wait("[1/1] base", 35, 61.0, task)
    stage.step("base", [sys.executable, "-c", f"print({task!r})"], 1)
    for line in out.getvalue().splitlines():
        assert len(line) <= WIDTH
        assert "\r" not in line
        assert "\x1b" not in line


def test_what_passed_is_left_out_of_the_fault(tmp_path: Path) -> None:
    text = (
        "node\n\n  FAIL     nvlink.links  GPU 6\n           actual    link 17\n"
        "  passed: a.b,\n  c.d\n  not measured: e.f (needs\n  load)\ndriver: CLOSED\n"
    )
    kept = demo._without_passed(text)
    assert "link 17" in kept
    assert "driver: CLOSED" in kept
    for word in ("a.b", "c.d", "e.f", "load)"):
        assert word not in kept


def test_only_what_failed_counts_as_caught() -> None:
    def verdict(status: str) -> dict[str, str]:
        return {"check": "nvlink.links", "subject": "GPU 6", "status": status}

    def report(status: str) -> dict[str, object]:
        return {"hosts": [{"decisions": [{"verdicts": [verdict(status)]}]}]}

    assert demo._failed(report("fail")) == {("nvlink.links", "GPU 6")}
    assert demo._failed(report("unknown")) == set()


def test_a_lab_that_is_up_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "why_not", lambda: "")
    monkeypatch.setattr(demo, "STATE", tmp_path)
    assert demo.main() == 2
    assert "make lab-down" in capsys.readouterr().err
    assert tmp_path.exists()


def test_a_demo_that_is_ended_takes_its_lab_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``timeout`` and CI end a job by SIGTERM."""
    left: list[str] = []

    def play(_: Stage) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    def leave(_: Stage) -> int:
        left.append("down")
        return 0

    monkeypatch.setattr(demo, "why_not", lambda: "")
    for name, place in (("STATE", "state"), ("OUT", "out"), ("LOG", "out/log")):
        monkeypatch.setattr(demo, name, tmp_path / place)
    monkeypatch.setattr(demo, "_play", play)
    monkeypatch.setattr(demo, "_leave", leave)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert demo.main() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left == ["down"]


def test_nothing_is_started_outside_a_node() -> None:
    """An engine in a chroot enters the host's root: the guard refuses there, as it does here."""
    words = ["sh", "-c", engine._ONLY_INSIDE, "sh", "echo", "ran"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert done.stdout == ""
    assert "does not reach the node" in done.stderr
