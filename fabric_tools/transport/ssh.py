"""The built-in transport: paramiko, host keys checked at every hop, no terminal, no prompts."""

from __future__ import annotations

import base64
import getpass
import itertools
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import paramiko

from fabric_tools.errors import UnreachableError, UsageError
from fabric_tools.transport.connection import (
    CHUNK,
    DRAIN_S,
    Buffers,
    Completed,
    Limits,
    Responder,
    no_answer,
)
from fabric_tools.transport.known_hosts import OnlyTrusted, known_name, read_known_hosts
from fabric_tools.transport.ssh_config import Hop, SshConfig

CONNECT_TIMEOUT_S = 10.0
AUTH_TIMEOUT_S = 20.0
#: For all hops together, whatever the single steps would still be allowed.
LOGIN_TIMEOUT_S = 90.0
_MAX_HOPS = 8

# paramiko logs what servers send (banners); without a handler of the application's own it would
# reach the terminal as it is.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class SshConnection:
    """One authenticated connection, through as many jump hosts as the configuration says."""

    def __init__(
        self,
        target: str,
        config_file: Path | None = None,
        own: Mapping[str, str] | None = None,
    ) -> None:
        """``own``: options for the target itself, before those of the configuration."""
        self.name = target
        self._clients: list[paramiko.SSHClient] = []
        config = SshConfig(config_file, own)
        try:
            with self._deadline(Limits(LOGIN_TIMEOUT_S)):
                self._client = self._connect(config, target, sock=None, depth=0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection and its jump hosts.

        The nearest first: closing what lies behind a hung one would send through it, and wait.
        """
        for client in self._clients:
            client.close()

    @contextmanager
    def _deadline(self, limits: Limits) -> Iterator[None]:
        """Cut the connection when the time is up: some waits of paramiko have no bound."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            for client in list(self._clients):
                transport = client.get_transport()
                if transport is not None:
                    transport.close()

        watch = threading.Timer(limits.timeout_s, cut)
        watch.daemon = True
        watch.start()
        try:
            yield
        except (paramiko.SSHException, OSError, EOFError, UnreachableError) as error:
            if late.is_set():
                raise no_answer(self.name, limits) from error
            raise
        finally:
            watch.cancel()

    def _connect(
        self, config: SshConfig, target: str, sock: paramiko.Channel | None, depth: int
    ) -> paramiko.SSHClient:
        if depth > _MAX_HOPS:
            raise UsageError("ProxyJump goes in a circle", where=target)
        hop = config.resolve(target, is_target=depth == 0)
        if sock is None:
            sock = self._jump(config, hop, depth)
        client = paramiko.SSHClient()
        self._clients.append(client)
        known = read_known_hosts(hop.known_hosts, known_name(hop.hostname, hop.port))
        client.set_missing_host_key_policy(OnlyTrusted(known))
        _open(client, hop, sock, known.kinds)
        return client

    def _jump(self, config: SshConfig, hop: Hop, depth: int) -> paramiko.Channel | None:
        """A channel to ``hop`` through its jump hosts; None when it is reached directly."""
        channel: paramiko.Channel | None = None
        stops = (*hop.proxy_jump, None)
        for here, following in itertools.pairwise(stops):
            if here is None:
                break
            client = self._connect(config, here, sock=channel, depth=depth + 1)
            after = hop if following is None else config.resolve(following)
            channel = _tunnel(client, here, after)
        return channel

    def run(
        self, command: str, stdin: bytes, limits: Limits, respond: Responder | None = None
    ) -> Completed:
        """See ``connection.Connection.run``."""
        buffers = Buffers(self.name, limits)
        transport = self._client.get_transport()
        try:
            with self._deadline(limits):
                if transport is None:
                    raise UnreachableError("connection is closed", where=self.name)
                with transport.open_session(timeout=CONNECT_TIMEOUT_S) as channel:
                    channel.settimeout(1.0)
                    channel.exec_command(command)
                    return _Pump(self.name, channel, stdin, buffers, respond).run()
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise UnreachableError(f"connection lost: {_words(error)}", where=self.name) from error


class _Pump:
    """Moves bytes between one channel and the buffers."""

    def __init__(
        self,
        name: str,
        channel: paramiko.Channel,
        stdin: bytes,
        buffers: Buffers,
        respond: Responder | None,
    ) -> None:
        self._name, self._channel, self._buffers = name, channel, buffers
        self._pending = memoryview(stdin)
        self._respond = respond
        self._open = respond is not None  # keep the input open for the answer
        self._input_ended = False

    def run(self) -> Completed:
        channel = self._channel
        gone_at: float | None = None
        while True:
            self._buffers.check_time()
            moved = self._write() | self._read()
            if channel.exit_status_ready() and gone_at is None:
                gone_at = time.monotonic()
            if moved:
                continue
            if channel.closed or channel.eof_received:
                if channel.exit_status_ready():
                    break
                if channel.closed:
                    raise UnreachableError(
                        "connection closed before the command ended", where=self._name
                    )
            if gone_at is not None and time.monotonic() > gone_at + DRAIN_S:
                break
            select.select([channel], [], [], 0.05 if self._pending or gone_at is None else 0.01)
        return self._buffers.completed(channel.recv_exit_status())

    def _write(self) -> bool:
        channel = self._channel
        if self._input_ended or channel.closed or channel.exit_status_ready():
            return False
        if self._pending:
            if not channel.send_ready():
                return False
            try:
                self._pending = self._pending[channel.send(bytes(self._pending[:CHUNK])) :]
            except TimeoutError:  # nothing was sent; the deadline ends this
                return False
            except OSError:  # the command has ended and does not want the rest
                self._pending, self._input_ended = memoryview(b""), True
            return True
        if not self._open:
            channel.shutdown_write()
            self._input_ended = True
        return False

    def _read(self) -> bool:
        moved = False
        if self._channel.recv_ready():
            self._buffers.out(self._channel.recv(CHUNK))
            moved = True
        if self._channel.recv_stderr_ready():
            self._buffers.err(self._channel.recv_stderr(CHUNK))
            moved = True
            answer = self._respond(bytes(self._buffers.stderr)) if self._respond else None
            if answer is not None and self._open:
                self._pending, self._open = memoryview(answer), False
        return moved


def _words(error: Exception) -> str:
    """An EOFError and some socket errors come without a text; several tries come as one error."""
    tries = getattr(error, "errors", None)
    if isinstance(tries, dict) and tries:
        return ", ".join(sorted({t.strerror or str(t) for t in tries.values()}))
    return str(error) or type(error).__name__


def _tunnel(client: paramiko.SSHClient, here: str, after: Hop) -> paramiko.Channel:
    transport = client.get_transport()
    try:
        if transport is None:
            raise paramiko.SSHException("connection is closed")
        return transport.open_channel(
            "direct-tcpip",
            (after.hostname, after.port),
            ("127.0.0.1", 0),
            timeout=CONNECT_TIMEOUT_S,
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise UnreachableError(
            f"jump host {here} does not reach {after.hostname}:{after.port}: {_words(error)}",
            where=after.alias,
        ) from error


def _open(
    client: paramiko.SSHClient, hop: Hop, sock: paramiko.Channel | None, kinds: set[str]
) -> None:
    """Connect, check the host key, authenticate with keys; every failure says which step it was."""
    user = hop.user or getpass.getuser()
    files = [str(path) for path in hop.identity_files if path.is_file()]
    address = f"{hop.hostname}:{hop.port}"
    try:
        client.connect(
            hop.hostname,
            port=hop.port,
            username=user,
            key_filename=files or None,  # type: ignore[arg-type]  # a list is documented
            look_for_keys=not files and not hop.identities_only,
            allow_agent=not hop.identities_only,
            pkey=_from_agent(hop),
            sock=sock,
            timeout=CONNECT_TIMEOUT_S,
            banner_timeout=CONNECT_TIMEOUT_S,
            auth_timeout=AUTH_TIMEOUT_S,
            channel_timeout=CONNECT_TIMEOUT_S,
            transport_factory=lambda raw, **more: _prefer(paramiko.Transport(raw, **more), kinds),
        )
    except paramiko.SSHException as error:
        _raise_ssh(hop, user, files, error)
    except socket.gaierror as error:
        raise UnreachableError(
            f"name {hop.hostname} does not resolve: {error.strerror}", where=hop.alias
        ) from error
    except (OSError, EOFError) as error:
        raise UnreachableError(
            f"no SSH connection to {address}: {_words(error)}", where=hop.alias,
            try_next="is the node up and sshd listening?",
        ) from error  # fmt: skip


def _prefer(transport: paramiko.Transport, kinds: set[str]) -> paramiko.Transport:
    """Ask for a host key of a type that known_hosts has, as ssh does; any other looks changed."""
    options = transport.get_security_options()
    options.key_types = sorted(
        options.key_types,
        key=lambda kind: ("ssh-rsa" if kind.startswith("rsa-sha2-") else kind) not in kinds,
    )
    return transport


def _from_agent(hop: Hop) -> paramiko.PKey | None:
    """With IdentitiesOnly, the agent's key whose public half lies beside an identity file."""
    if not hop.identities_only:
        return None
    wanted = set()
    for path in hop.identity_files:
        with suppress(OSError, IndexError, ValueError):
            public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
            wanted.add(base64.b64decode(public.read_text().split()[1]))
    if not wanted:
        return None
    with suppress(paramiko.SSHException):
        return next((key for key in paramiko.Agent().get_keys() if key.asbytes() in wanted), None)
    return None


def _raise_ssh(hop: Hop, user: str, files: list[str], error: paramiko.SSHException) -> None:
    """Say which step failed: the log-in or the protocol. The host key is refused by its policy."""
    if "No authentication methods available" in str(error):
        raise UnreachableError(
            f"host key is right, but there is no key to log in with as {user}", where=hop.alias,
            try_next="name an IdentityFile or load a key into the agent",
        ) from error  # fmt: skip
    if isinstance(error, paramiko.AuthenticationException):
        tried = ", ".join(files) if files else "the default keys"
        agent = ", IdentitiesOnly: no others" if hop.identities_only else " and the agent's"
        raise UnreachableError(
            f"no key accepted for user {user} (tried {tried}{agent})", where=hop.alias,
            try_next="check User and IdentityFile; a key with a passphrase must be in the agent "
            "(with IdentitiesOnly, its .pub beside it)",
        ) from error  # fmt: skip
    raise UnreachableError(
        f"no SSH connection to {hop.hostname}:{hop.port}: {_words(error)}", where=hop.alias,
        try_next="is the node up and sshd listening?",
    ) from error  # fmt: skip
