"""A server that stops answering, at whatever step, holds nobody longer than the limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from fabric_tools.errors import UnreachableError
from fabric_tools.transport.connection import Limits
from fabric_tools.transport.ssh import SshConnection

LIMIT_S = 1.5


class Server(paramiko.ServerInterface):
    """Lets everybody in and then hangs at one step, until the test is over."""

    def __init__(self, step: str, over: threading.Event, transport: paramiko.Transport) -> None:
        self._step, self._over, self._transport = step, over, transport

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._hang("open")
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._hang("exec")
        return True  # and never an exit status: "run"

    def check_channel_direct_tcpip_request(self, *_: object) -> int:
        if self._step == "drop":
            self._transport.close()
        return paramiko.OPEN_FAILED_CONNECT_FAILED

    def _hang(self, step: str) -> None:
        if self._step == step:
            self._over.wait(60)


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The configuration for a server that hangs at ``request.param``."""
    over, key = threading.Event(), paramiko.ECDSAKey.generate()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    transports = []

    def serve() -> None:
        raw, _ = listener.accept()
        if request.param == "banner":
            over.wait(60)
            raw.close()
            return
        transport = paramiko.Transport(raw)
        transports.append(transport)
        transport.add_server_key(key)
        transport.start_server(server=Server(request.param, over, transport))

    threading.Thread(target=serve, daemon=True).start()
    key.write_private_key_file(str(tmp_path / "id"))
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")
    path = tmp_path / "config"
    path.write_text(
        f"Host jump\n ProxyJump node\n"
        f"Host *\n HostName 127.0.0.1\n Port {port}\n User x\n IdentityFile {tmp_path}/id\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {tmp_path}/known\n GlobalKnownHostsFile none\n"
    )
    yield path
    over.set()
    listener.close()
    for transport in transports:
        transport.close()


@pytest.mark.parametrize("config", ["open", "exec", "run"], indirect=True)
@pytest.mark.parametrize("size", [0, 50_000_000])
def test_a_command_ends_by_its_limit(config: Path, size: int) -> None:
    connection = SshConnection("node", config)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="no answer within 2 s"):
        connection.run("true", bytes(size), Limits(LIMIT_S))
    connection.close()
    assert time.monotonic() - began < LIMIT_S + 2


@pytest.mark.parametrize("config", ["banner"], indirect=True)
def test_a_login_ends_by_its_limit(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabric_tools.transport.ssh.LOGIN_TIMEOUT_S", LIMIT_S)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="no answer within 2 s"):
        SshConnection("node", config)
    assert time.monotonic() - began < LIMIT_S + 2


@pytest.mark.parametrize("config", ["run", "drop"], indirect=True)
def test_a_jump_host_that_does_not_reach_the_node(config: Path) -> None:
    with pytest.raises(UnreachableError, match="jump host node does not reach 127.0.0.1"):
        SshConnection("jump", config)
