"""Read many nodes at once: bounded, and one that is not reached hides no other."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from pydantic import SecretStr

from fabric_tools.errors import FabricToolsError, InternalError
from fabric_tools.transport.collect import Sudo, collect
from fabric_tools.transport.connection import Connection

#: Nodes that are read at the same time: as many as ansible.cfg has forks.
WORKERS = 16


@dataclass(frozen=True, slots=True)
class Target:
    """One node: its inventory name, how to reach it, and how to become root on it."""

    name: str
    connect: Callable[[], Connection]
    sudo: Sudo = Sudo.AUTO
    password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one node gave: the snapshot's JSON text, or why there is none."""

    name: str
    text: str = ""
    error: FabricToolsError | None = None
    seconds: float = 0.0


Progress = Callable[[Answer, int, int], None]


def collect_all(
    targets: Sequence[Target], archive: bytes, progress: Progress | None = None
) -> tuple[Answer, ...]:
    """One answer a target, in their order. ``progress`` is called with each as it comes in.

    Interrupted, it closes every connection, so that nothing waits for a hung node.
    """
    fleet = _Fleet(archive)
    found: dict[str, Answer] = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(fleet.read, target) for target in targets]
        try:
            for job in as_completed(jobs):
                answer = job.result()
                found[answer.name] = answer
                if progress:
                    progress(answer, len(found), len(targets))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            fleet.close()
            raise
    return tuple(found[target.name] for target in targets)


class _Fleet:
    """The connections that are open now."""

    def __init__(self, archive: bytes) -> None:
        self._archive = archive
        self._open: set[Connection] = set()
        self._lock = threading.Lock()

    def read(self, target: Target) -> Answer:
        """Never raises: what went wrong is the answer of this node alone."""
        began = time.monotonic()
        try:
            return Answer(target.name, self._text(target), seconds=time.monotonic() - began)
        except FabricToolsError as error:
            return Answer(target.name, error=error, seconds=time.monotonic() - began)
        except Exception as error:
            fault = InternalError(f"{type(error).__name__}: {error}", where=target.name)
            return Answer(target.name, error=fault, seconds=time.monotonic() - began)

    def _text(self, target: Target) -> str:
        connection = target.connect()
        with self._lock:
            self._open.add(connection)
        try:
            return collect(connection, self._archive, sudo=target.sudo, password=target.password)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def close(self) -> None:
        """Let go of every node."""
        with self._lock:
            waiting = list(self._open)
        for connection in waiting:
            with contextlib.suppress(Exception):
                connection.close()
