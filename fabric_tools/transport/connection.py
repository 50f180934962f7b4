"""What the ways to reach a node have in common, and the one that starts a local program."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fabric_tools.errors import UnreachableError

CHUNK = 65536
#: Seconds to wait for the last bytes of a command that has ended (something may hold its output).
DRAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one command: seconds in all, and bytes of each stream."""

    timeout_s: float
    stdout_max_bytes: int = 64 * 1024 * 1024
    stderr_max_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended by itself."""

    rc: int
    stdout: bytes
    stderr: bytes


def no_answer(name: str, limits: Limits) -> UnreachableError:
    """The error for a command whose time is up."""
    return UnreachableError(
        f"no answer within {limits.timeout_s:.0f} s", where=name,
        try_next="is the node hung? try `ssh HOST uptime`",
    )  # fmt: skip


#: Called with all of stderr so far after each piece; returns bytes to send, or None. May raise.
Responder = Callable[[bytes], bytes | None]


class Connection(Protocol):
    """An authenticated way to run commands on one node."""

    name: str

    def run(
        self, command: str, stdin: bytes, limits: Limits, respond: Responder | None = None
    ) -> Completed:
        """Run ``command`` in the login shell, without a terminal, with ``stdin`` as its input.

        With ``respond``, the input stays open until it has returned bytes, which follow ``stdin``.
        Raises ``UnreachableError`` on a lost connection, a limit passed, or no end in time.
        """

    def close(self) -> None:
        """Let go of the node. Safe to call twice."""


class Buffers:
    """Collects both streams of a command and enforces the limits."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._name = name
        self._limits = limits
        self._deadline = time.monotonic() + limits.timeout_s

    def out(self, data: bytes) -> None:
        """Take a piece of stdout; too much of it is an error, never a truncation."""
        self.stdout += data
        if len(self.stdout) > self._limits.stdout_max_bytes:
            mib = self._limits.stdout_max_bytes // 2**20
            raise UnreachableError(
                f"sent more than {mib} MiB, stopped reading", where=self._name,
                try_next="look at the node by hand: its output is not a snapshot",
            )  # fmt: skip

    def err(self, data: bytes) -> None:
        """Take a piece of stderr; beyond the limit it is dropped, it is only ever shown."""
        room = self._limits.stderr_max_bytes - len(self.stderr)
        self.stderr += data[: max(0, room)]

    def check_time(self) -> None:
        """Raise when the time is up."""
        if time.monotonic() > self._deadline:
            raise no_answer(self._name, self._limits)

    def completed(self, rc: int) -> Completed:
        """The finished command."""
        return Completed(rc, bytes(self.stdout), bytes(self.stderr))


class PopenConnection:
    """Runs the command through a local program: ``sh -c`` here, or ``ssh HOST``."""

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.name = name
        self._argv = argv
        self._folder = folder  # files that argv names; removed with the connection

    def run(
        self, command: str, stdin: bytes, limits: Limits, respond: Responder | None = None
    ) -> Completed:
        """See ``Connection.run``."""
        buffers = Buffers(self.name, limits)
        try:
            proc = subprocess.Popen(
                [*self._argv, command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise UnreachableError(
                f"cannot start {self._argv[0]}: {error.strerror}", where=self.name
            ) from error
        try:
            _Pump(proc, stdin, buffers, respond).run()
        finally:
            _end(proc)
        return buffers.completed(proc.returncode)

    def close(self) -> None:
        """Nothing is held between commands but the folder."""
        if self._folder:
            self._folder.cleanup()


class _Pump:
    """Moves bytes between a local process and the buffers without blocking."""

    def __init__(
        self,
        proc: subprocess.Popen[bytes],
        stdin: bytes,
        buffers: Buffers,
        respond: Responder | None,
    ) -> None:
        assert proc.stdin and proc.stdout and proc.stderr
        self._proc, self._buffers, self._respond = proc, buffers, respond
        self._pending = memoryview(stdin)
        self._open = respond is not None  # keep the input open for the answer
        self._stdin, self._out, self._err = proc.stdin, proc.stdout, proc.stderr
        self._selector = selectors.DefaultSelector()
        for stream in (self._out, self._err):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)
        os.set_blocking(self._stdin.fileno(), False)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def run(self) -> None:
        gone_at: float | None = None
        with self._selector:
            while self._out in self._map or self._err in self._map:
                self._buffers.check_time()
                for key, _ in self._selector.select(0.05):
                    if key.fileobj is self._stdin:
                        self._write()
                    else:
                        self._read(key.fd)
                if gone_at is None and self._proc.poll() is not None:
                    gone_at = time.monotonic()
                if gone_at is not None and time.monotonic() > gone_at + DRAIN_S:
                    return
        while self._proc.poll() is None:
            self._buffers.check_time()
            time.sleep(0.01)

    @property
    def _map(self) -> set[object]:
        return {key.fileobj for key in self._selector.get_map().values()}

    def _write(self) -> None:
        try:
            if self._pending:
                self._pending = self._pending[os.write(self._stdin.fileno(), self._pending) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pending, self._open = memoryview(b""), False
        if not self._pending:
            self._selector.unregister(self._stdin)
            if not self._open:
                self._stdin.close()

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        stream = self._out if fd == self._out.fileno() else self._err
        if not data:
            self._selector.unregister(stream)
        elif stream is self._out:
            self._buffers.out(data)
        else:
            self._buffers.err(data)
            self._answer()

    def _answer(self) -> None:
        """Ask the responder after every piece: it raises when it sees its prompt a second time."""
        answer = self._respond(bytes(self._buffers.stderr)) if self._respond else None
        if answer is not None and self._open:
            self._pending, self._open = memoryview(answer), False
            self._selector.register(self._stdin, selectors.EVENT_WRITE)


def _end(proc: subprocess.Popen[bytes]) -> None:
    """Leave nothing running, and never wait without bound."""
    if proc.poll() is None:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(proc.pid, sig)
                proc.wait(0.5)
                break
            except (ProcessLookupError, PermissionError):
                break
            except subprocess.TimeoutExpired:
                continue
    for stream in (proc.stdin, proc.stdout, proc.stderr):
        if stream and not stream.closed:
            try:
                stream.close()
            except BrokenPipeError:
                continue
