"""Run the collector over the connection that Ansible has, and leave nothing behind.

The zipapp goes to a private temporary directory of that connection, because not every way to become
root leaves standard input free. What runs is checked against the digest of what was sent, and what
comes back is a snapshot or it is not passed on, as in ``transport``.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import signal
from collections.abc import Iterator
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from fabric_tools.errors import UnreachableError
from fabric_tools.node.bundle import zipapp_bytes
from fabric_tools.node.collector import worst_case_s
from fabric_tools.transport.collect import file_command, framed
from fabric_tools.transport.connection import Completed, Limits

#: Seconds for everything but the probes: log-in at every hop, becoming root, the transfer.
_OVERHEAD_S = 120.0


def collect_over(action: Any, host: str) -> str:
    """The snapshot's JSON text from the host of ``action`` (an Ansible action plugin).

    Raises Ansible's own ``AnsibleConnectionFailure`` where the host is not reached or does not
    answer in time, ``UnreachableError`` where it answers with anything but a snapshot.
    """
    archive, nonce = zipapp_bytes(), secrets.token_hex(16)
    with _deadline(worst_case_s() + _OVERHEAD_S, host):
        # The first to reach the node, and to be told why it cannot be reached.
        folder = action._make_tmp_path()
        try:
            path = action._connection._shell.join_path(folder, "fabric-collect.pyz")
            action._transfer_data(path, archive)
            action._fixup_perms2((folder, path), execute=False)
            command = shlex.join(file_command(path, archive, nonce))
            with _unlogged(action):
                answer = action._low_level_execute_command(command)
        finally:
            # It decides nothing: neither a snapshot that is here nor an error may be lost to it.
            with contextlib.suppress(AnsibleConnectionFailure):
                action._remove_tmp_path(folder, force=True)
    return framed(_bounded(answer, host), nonce, host)


def _bounded(answer: dict[str, Any], host: str) -> Completed:
    """Ansible has read it all by now; what is too long for a snapshot is not looked at.

    Where Ansible becomes root without pipelining there is a terminal between, which ends lines with
    CR LF; the collector itself writes no CR.
    """
    limits = Limits(timeout_s=0.0)
    stdout = answer["stdout"].encode("utf-8", "replace").replace(b"\r\n", b"\n")
    stderr = answer["stderr"].encode("utf-8", "replace")
    if len(stdout) > limits.stdout_max_bytes:
        mib = limits.stdout_max_bytes // 2**20
        raise UnreachableError(
            f"sent more than {mib} MiB", where=host,
            try_next="look at the node by hand: its output is not a snapshot",
        )  # fmt: skip
    return Completed(answer["rc"], stdout, stderr[: limits.stderr_max_bytes])


@contextlib.contextmanager
def _unlogged(action: Any) -> Iterator[None]:
    """At -vvv the ssh connection prints what a command said; raw output may hold secrets."""
    play = action._connection._play_context
    before, play.no_log = getattr(play, "no_log", False), True
    try:
        yield
    finally:
        play.no_log = before


class _TimeIsUp(BaseException):
    """Not an ``Exception``: the ssh connection would take that for a lost one and try again."""


@contextlib.contextmanager
def _deadline(seconds: float, host: str) -> Iterator[None]:
    """An end to waiting for a hung node. A task that has a ``timeout`` of its own keeps that one.

    Each task runs in the main thread of a process of its own, where an alarm may be set.
    """
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        yield
        return

    def up(number: int, frame: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeIsUp:
        raise AnsibleConnectionFailure(
            f"{host}: no answer within {seconds:.0f} s; is the node hung? try `ssh {host} uptime`"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
