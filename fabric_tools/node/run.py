"""Run one command so that nothing it does can hold the collector: time, size or children."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from fabric_tools.node import processes

#: Seconds for the pipes of a dead command. With the waits of ``processes`` it stays below the 1 s
#: that a probe may cost beyond its timeout.
DRAIN_S = 0.25
STDERR_MAX_BYTES = 64 * 1024
_CHUNK = 65536

#: True when the run is to be given up.
Stop = Callable[[], bool]


def never() -> bool:
    """The ``Stop`` of a run that nobody can interrupt."""
    return False


class Outcome(NamedTuple):
    """How a command ended. ``status`` is a value of ``ProbeStatus``; output is raw bytes."""

    status: str
    rc: Optional[int]
    stdout: bytes
    stderr: bytes
    duration_s: float
    note: str


def run_bounded(
    argv: Sequence[str],
    timeout_s: float,
    max_bytes: int,
    accept_rc: Tuple[int, ...] = (0,),
    pass_fds: Tuple[int, ...] = (),
    stop: Stop = never,
) -> Outcome:
    """Run ``argv`` with no input, no terminal and a clean environment.

    Returns at the latest ``timeout_s`` plus one second after the call, whatever the command does,
    and soon after ``stop`` has become true. Output beyond ``max_bytes`` ends the command with
    status ``cut``.
    """
    began = time.monotonic()
    try:
        proc = processes.start(argv, pass_fds)
    except OSError as error:
        return Outcome(_start_status(error), None, b"", b"", 0.0, _errno_text(argv[0], error))
    with proc.stdout as out, proc.stderr as err:  # type: ignore[union-attr]
        reader = _Reader(out.fileno(), err.fileno(), max_bytes)
        why = reader.read_until(proc, began + timeout_s, stop)
        note = "" if why == "end" else processes.end(proc)
    if proc.poll() is not None:  # one that cannot be killed stays known, it is no orphan
        processes.forget(proc)
    took = time.monotonic() - began
    return _outcome(proc.poll(), why, note, reader, took, timeout_s, accept_rc)


def _outcome(
    rc: Optional[int],
    why: str,
    note: str,
    reader: "_Reader",
    took: float,
    timeout_s: float,
    accept_rc: Tuple[int, ...],
) -> Outcome:
    stdout, stderr = bytes(reader.stdout), bytes(reader.stderr)
    if why == "timeout":
        text = "no answer within %g s%s" % (timeout_s, note)
        return Outcome("timeout", rc, stdout, stderr, took, text)
    if why == "stopped":
        return Outcome("error", rc, stdout, stderr, took, "the collector was stopped" + note)
    if why == "overflow":
        text = "more than %d bytes%s" % (reader.max_bytes, note)
        return Outcome("cut", rc, stdout, stderr, took, text)
    if why == "held":
        text = "ended, but a child of it kept the output open%s" % note
        return Outcome("cut", rc, stdout, stderr, took, text)
    if rc in accept_rc:
        return Outcome("ok", rc, stdout, stderr, took, "")
    status = "denied" if _looks_denied(stdout, stderr) else "failed"
    text = "killed by signal %d" % -rc if rc is not None and rc < 0 else "exit status %s" % rc
    return Outcome(status, rc, stdout, stderr, took, text)


class _Reader:
    """Reads both pipes without ever blocking, up to its limits."""

    def __init__(self, out: int, err: int, max_bytes: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.max_bytes = max_bytes
        self._out = out
        self._selector = selectors.DefaultSelector()
        for fd in (out, err):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)

    def read_until(self, proc: "subprocess.Popen[bytes]", deadline: float, stop: Stop) -> str:
        """Read until the command is over: ``end, held, overflow, timeout`` or ``stopped``."""
        gone_at = None  # type: Optional[float]
        with self._selector:
            while self._selector.get_map():
                now = time.monotonic()
                if gone_at is None and proc.poll() is not None:
                    gone_at = now
                if gone_at is not None and now > gone_at + DRAIN_S:
                    return "held"
                if gone_at is None and now >= deadline:
                    return "timeout"
                if stop():
                    return "stopped"
                for key, _ in self._selector.select(0.02):
                    self._take(key.fd)
                if len(self.stdout) > self.max_bytes:
                    del self.stdout[self.max_bytes :]
                    return "overflow"
        return _await_exit(proc, deadline, stop)

    def _take(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(fd)
        elif fd == self._out:
            self.stdout += data
        elif len(self.stderr) < STDERR_MAX_BYTES:
            self.stderr += data[: STDERR_MAX_BYTES - len(self.stderr)]


def _await_exit(proc: "subprocess.Popen[bytes]", deadline: float, stop: Stop) -> str:
    """The command has closed its output; it still has until the deadline to end."""
    while not stop():
        left = deadline - time.monotonic()
        try:
            proc.wait(max(0.0, min(left, 0.05)))
            return "end"
        except subprocess.TimeoutExpired:
            if left <= 0:
                return "timeout"
    return "stopped"


def _start_status(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "absent"
    return "denied" if isinstance(error, PermissionError) else "error"


def _errno_text(name: str, error: OSError) -> str:
    return "%s: %s" % (name, error.strerror or error)


_DENIALS = (b"permission denied", b"operation not permitted", b"insufficient permission")


def _looks_denied(stdout: bytes, stderr: bytes) -> bool:
    text = (stderr + b"\n" + stdout[:4096]).lower()
    return any(denial in text for denial in _DENIALS)


def read_file(path: str, timeout_s: float, max_bytes: int, stop: Stop = never) -> Outcome:
    """Read a file through ``cat``: a read from a hung driver must not hang the collector."""
    try:
        os.stat(path)
    except OSError as error:
        return Outcome(_start_status(error), None, b"", b"", 0.0, _errno_text(path, error))
    if not os.access(path, os.R_OK):
        return Outcome("denied", None, b"", b"", 0.0, "%s: Permission denied" % path)
    return run_bounded(("cat", "--", path), timeout_s, max_bytes, stop=stop)


def as_text(data: bytes) -> str:
    """UTF-8, undecodable bytes replaced."""
    return data.decode("utf-8", "replace")


def outcome_json(argv: Sequence[str], outcome: Outcome) -> Dict[str, object]:
    """The snapshot's form of one outcome (``models.snapshot.ProbeResult``)."""
    return {
        "status": outcome.status,
        "argv": list(argv),
        "rc": outcome.rc,
        "stdout": as_text(outcome.stdout),
        "stderr": as_text(outcome.stderr),
        "duration_s": round(outcome.duration_s, 3),
        "note": outcome.note,
    }
