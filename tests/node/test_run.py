"""No command can hold the collector: not by time, size, children or closed pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from fabric_tools.node import run
from fabric_tools.node.bundle import build_zipapp
from fabric_tools.node.run import read_file, run_bounded


def timed(argv: list[str], timeout_s: float = 1.0, max_bytes: int = 100000) -> run.Outcome:
    began = time.monotonic()
    outcome = run_bounded(argv, timeout_s, max_bytes)
    assert time.monotonic() - began < timeout_s + 1.0
    return outcome


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def running(mark: str) -> list[int]:
    """Processes with this mark in their command line; they all belong to one test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def soon(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(true())


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process sleeps."""
    return f"3000.{uuid.uuid4().int % 10**12}"


def test_good() -> None:
    outcome = timed(["sh", "-c", "echo out; echo err >&2"])
    assert (outcome.status, outcome.rc) == ("ok", 0)
    assert (outcome.stdout, outcome.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("argv", "status", "note"),
    [
        (["no-such-tool"], "absent", "No such file"),
        (["/etc/passwd"], "denied", "Permission denied"),
        (["false"], "failed", "exit status 1"),
        (["sh", "-c", "kill -9 $$"], "failed", "signal 9"),
        (["sh", "-c", "echo 'dmesg: read failed: Operation not permitted' >&2; exit 1"],
         "denied", "exit status 1"),
        (["sleep", "60"], "timeout", "no answer within 1 s"),
        (["sh", "-c", "exec >&- 2>&-; sleep 60"], "timeout", "no answer"),
        (["yes"], "cut", "more than 100000 bytes"),
    ],
)  # fmt: skip
def test_ways_to_end(argv: list[str], status: str, note: str) -> None:
    outcome = timed(argv)
    assert outcome.status == status and note in outcome.note
    assert len(outcome.stdout) <= 100000


#: Forks twice, out of its session and without its environment, and keeps the output open.
ESCAPES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve('/bin/sleep', ['sleep', '{mark}'], {{}})
    os._exit(0)
os.wait()
print('x', flush=True)
"""


def test_ignores_term_and_forks_away(mark: str) -> None:
    outcome = timed(python(ESCAPES.format(mark=mark) + "time.sleep(60)"))
    assert outcome.status == "timeout" and outcome.stdout == b"x\n"
    assert "killed 1 process(es) left behind" in outcome.note
    assert soon(lambda: not running(mark))


def test_a_child_that_keeps_the_output_open_makes_it_cut(mark: str) -> None:
    outcome = timed(["sh", "-c", f"sleep {mark} & echo done"], timeout_s=10)
    assert outcome.status == "cut" and outcome.stdout == b"done\n"
    assert outcome.duration_s < 2
    assert soon(lambda: not running(mark))


def in_a_collector(code: str) -> list[str]:
    """The lines that ``code`` prints in a process that adopts the orphans of its probes."""
    start = (
        "import sys, threading\n"
        "from fabric_tools.node import processes, run\n"
        "processes.adopt_orphans()\n"
    )
    done = subprocess.run(python(start + code), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_what_a_dead_probe_left_is_found_in_whatever_session_it_hides(mark: str) -> None:
    escapes = python(ESCAPES.format(mark=mark))
    lines = in_a_collector(f"o = run.run_bounded({escapes!r}, 9, 99)\nprint(o.status, o.note)")
    assert lines == [
        "cut ended, but a child of it kept the output open; killed 1 process(es) left behind"
    ]
    assert soon(lambda: not running(mark))


def test_only_the_processes_of_this_probe_are_killed(mark: str) -> None:
    """The other probe has an orphan too, and both go on undisturbed."""
    other = python(ESCAPES.format(mark=mark) + "sys.stdin.read(); time.sleep(1.5); print('y')")
    lines = in_a_collector(
        f"other = threading.Thread(target=lambda: print(run.run_bounded({other!r}, 9, 99)[:3]))\n"
        "other.start()\n"
        "print(run.run_bounded(('sleep', '60'), 0.3, 99).note)\n"
        "other.join()"
    )
    assert lines[0] == "no answer within 0.3 s"
    # It ended by itself, with all its output; only then was what it had left behind killed.
    assert lines[1] == "('cut', 0, b'x\\ny\\n')"
    assert soon(lambda: not running(mark))


def test_orphans_are_reaped_and_swept_at_the_end(mark: str) -> None:
    quiet = python("import os; os.close(1); os.close(2)" + ESCAPES.format(mark=mark).replace(
        "print('x', flush=True)", ""))  # fmt: skip
    lines = in_a_collector(
        f"print(run.run_bounded({quiet!r}, 9, 99).status)\n"
        "print(len(processes.sweep()))\n"
        "import os, time\n"
        "for _ in range(500):\n"
        "    processes.sweep(); time.sleep(0.01)\n"
        "    try: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)\n"
        "    except ChildProcessError: print('no children'); break"
    )
    assert lines == ["ok", "1", "no children"]
    assert not running(mark)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_collector_and_all_it_started(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    escapes = ESCAPES.format(mark=mark) + "time.sleep(60)"
    path = tmp_path / "c.pyz"
    path.write_bytes(table(*[("python3", "-c", escapes)] * 6))
    # These tests may themselves run under nohup or in the background, with signals ignored.
    default = ["env", "--default-signal=INT,TERM,HUP"]
    collector = subprocess.Popen(
        [*default, sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert soon(lambda: len([pid for pid in running(mark) if comm(pid) == "sleep"]) == 4)
    began = time.monotonic()
    collector.send_signal(number)
    collector.send_signal(number)  # an impatient user
    try:
        out, err = collector.communicate(timeout=30)
    finally:
        collector.kill()
    assert time.monotonic() - began < 3
    assert (collector.returncode, out, err) == (128 + number, b"", b"")
    assert soon(lambda: not running(mark))


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def table(*argvs: tuple[str, ...]) -> bytes:
    """A collector that runs these commands."""
    probes = "".join(
        f"Probe('p{n}', 'command', {argv!r}, 60.0, 10000)," for n, argv in enumerate(argvs)
    )
    return build_zipapp(
        {
            "probes.py": (
                "from typing import NamedTuple, Tuple\n"
                "class Probe(NamedTuple):\n"
                "    id: str; kind: str; argv: Tuple[str, ...]; timeout_s: float\n"
                "    max_bytes: int; says: str = ''; accept_rc: Tuple[int, ...] = (0,)\n"
                f"PROBES = ({probes})\n"
            ).encode()
        }
    )


def test_carried_by_hand_and_run_by_its_bare_name(tmp_path: Path) -> None:
    (tmp_path / "c.pyz").write_bytes(build_zipapp())
    done = subprocess.run(
        [sys.executable, "c.pyz", "-o", "s.json"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    path = tmp_path / "s.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["probes"]["nvml"]["status"] in ("absent", "ok")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.pyz", "s.json"]


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "c.pyz").write_bytes(table(("true",)))
    done = subprocess.run(
        [sys.executable, "c.pyz", "-o", "none/s.json"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr == b"fabric-collect: none/s.json: cannot write: No such file or directory\n"


def test_much_on_stderr_is_bounded_and_does_not_block() -> None:
    outcome = timed(["sh", "-c", "head -c 5000000 /dev/zero >&2; echo end"], timeout_s=5)
    assert outcome.status == "ok" and outcome.stdout == b"end\n"
    assert len(outcome.stderr) == run.STDERR_MAX_BYTES


def test_clean_environment_no_input_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    text = timed(["env"]).stdout.decode()
    assert "SECRET_OF_THE_CALLER" not in text and "LC_ALL=C" in text
    assert timed(["cat"]).stdout == b""
    assert timed(["tty"]).rc == 1


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("hello\n")
    assert read_file(str(path), 1, 100).stdout == b"hello\n"
    assert read_file(str(path), 1, 3).status == "cut"
    assert read_file(str(tmp_path / "none"), 1, 3).status == "absent"
    assert read_file(str(tmp_path), 1, 3).status == "failed"
    os.mkfifo(tmp_path / "fifo")
    assert read_file(str(tmp_path / "fifo"), 0.3, 3).status == "timeout"


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "c.pyz").write_bytes(table(("true",)))
    done = subprocess.run(
        [sys.executable, "c.pyz", "-o", "/dev/full"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and b"not a regular file" in done.stderr
    assert not Path("/dev/full").is_file()
