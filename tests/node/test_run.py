"""No command can hold the collector: not by time, size, children or closed pipes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fabric_tools.node import run
from fabric_tools.node.run import TAG, read_file, run_bounded


def timed(argv: list[str], timeout_s: float = 1.0, max_bytes: int = 100000) -> run.Outcome:
    began = time.monotonic()
    outcome = run_bounded(argv, timeout_s, max_bytes)
    assert time.monotonic() - began < timeout_s + 1.0
    return outcome


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def left_behind() -> list[Path]:
    """Processes of this test's probes that are still there once the kernel had time to end them."""
    deadline = time.monotonic() + 5
    while (found := _tagged()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _tagged() -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{TAG}={os.getpid()}-".encode() in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


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


def test_ignores_term_and_forks_away() -> None:
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(60)\n  os._exit(0)\n"
        "print('x', flush=True); time.sleep(60)"
    )
    outcome = timed(python(code))
    assert outcome.status == "timeout" and outcome.stdout == b"x\n"
    assert "left behind" in outcome.note
    assert not left_behind()


def test_a_child_that_keeps_the_output_open_makes_it_cut() -> None:
    outcome = timed(["sh", "-c", "sleep 60 & echo done"], timeout_s=10)
    assert outcome.status == "cut" and outcome.stdout == b"done\n"
    assert outcome.duration_s < 2
    assert not left_behind()


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
