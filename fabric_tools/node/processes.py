"""Start the command of a probe, and find and kill all that it started.

Each command is made the one that inherits the orphans of its own descendants, so as long as it
lives everything it started lies below it, however often that forked, whatever session or
environment it took. When it has died, the collector inherits them (``adopt_orphans``): a child of
the collector that no probe is, is left over from a probe that has ended. All this is read from
/proc/PID/stat; other files there take locks that a process stuck in the kernel may hold.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from functools import lru_cache
from typing import Callable, Dict, Iterator, Optional, Sequence, Set, Tuple

#: Seconds between TERM and KILL, for the kernel to reap, and for finding what was left behind.
TERM_GRACE_S = 0.3
REAP_S = 0.15
SWEEP_S = 0.15
_PR_SET_CHILD_SUBREAPER = 36

CLEAN_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "LANG": "C",
    "HOME": "/",
    "TERM": "dumb",
}

_lock = threading.Lock()
_running: Set[int] = set()
_adopting = False


@lru_cache(maxsize=None)
def _prctl() -> Callable[..., int]:
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
        call.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        return call
    except (ImportError, OSError, AttributeError):  # then only process tree and session are known
        return lambda *_: -1


def adopt_orphans() -> None:
    """Make this process inherit what ended probes leave. It must have no children but probes."""
    global _adopting
    _adopting = _prctl()(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def start(argv: Sequence[str], pass_fds: Tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start it in a session of its own. Raises ``OSError`` where it cannot be started."""
    prctl = _prctl()
    # Under the lock, or a sweep would take a command that is just starting for an orphan.
    with _lock:
        proc = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=CLEAN_ENV,
            cwd="/",
            start_new_session=True,
            pass_fds=pass_fds,
            # One system call through a function that is loaded: no lock another thread may hold.
            preexec_fn=lambda: prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
        )
        _running.add(proc.pid)
    return proc


def end(proc: "subprocess.Popen[bytes]") -> str:
    """TERM, then KILL the command and whatever it started, in bounded time; says what was left."""
    if proc.poll() is None:
        _signal_group(proc.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            proc.wait(TERM_GRACE_S)
    if proc.poll() is None:
        proc.send_signal(signal.SIGSTOP)  # it starts no more while the rest is looked for
    killed = sweep(proc.pid)
    note = "; killed %d process(es) left behind" % len(killed) if killed else ""
    if proc.poll() is None:
        _signal_group(proc.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            proc.wait(REAP_S)
    if proc.poll() is None:
        note += "; it could not be killed (pid %d, state %s)" % (proc.pid, _state(proc.pid))
    return note


def forget(proc: "subprocess.Popen[bytes]") -> None:
    """The probe has ended and was reaped: its number may be given to another process."""
    with _lock:
        _running.discard(proc.pid)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def sweep(probe: Optional[int] = None) -> Set[int]:
    """KILL what ``probe`` started, and what ended probes left; the process ids.

    Again until nothing new is found: what is being killed may just have forked.
    """
    deadline = time.monotonic() + SWEEP_S
    killed: Set[int] = set()
    with _lock:
        while time.monotonic() < deadline:
            new = _left_by(probe, deadline) - killed
            if not new:
                break
            for number in new:
                with contextlib.suppress(OSError):
                    os.kill(number, signal.SIGKILL)
            killed |= new
    return killed


def _left_by(probe: Optional[int], deadline: float) -> Set[int]:
    children: Dict[int, Set[int]] = {}
    dead, more = set(), set()  # type: Set[int], Set[int]
    for pid, state, parent, session in _processes(deadline):
        children.setdefault(parent, set()).add(pid)
        if state in "ZX":
            dead.add(pid)
        if session == probe:
            more.add(pid)
    if probe is not None:
        more.add(probe)
    if _adopting:
        orphans = children.get(os.getpid(), set()) - _running
        for pid in orphans & dead:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        more |= orphans
    found: Set[int] = set()
    while more:
        found |= more
        more = {child for pid in more for child in children.get(pid, ())} - found
    return found - dead - {probe}


def _processes(deadline: float) -> Iterator[Tuple[int, str, int, int]]:
    """Id, state, parent and session of every process, as many as can be read in time."""
    for name in os.listdir("/proc"):
        if name.isdigit() and time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as handle:
                    words = handle.read().rpartition(")")[2].split()
                yield int(name), words[0], int(words[1]), int(words[3])


def _state(pid: int) -> str:
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as handle:
            return handle.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"
