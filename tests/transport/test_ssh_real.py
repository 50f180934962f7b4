"""The transport against a real sshd and a real sudo."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from fabric_tools.errors import UnreachableError, UsageError
from fabric_tools.models.snapshot import ProbeStatus, Snapshot
from fabric_tools.node.bundle import build_zipapp
from fabric_tools.node.run import TAG
from fabric_tools.transport.collect import Sudo, collect
from fabric_tools.transport.connection import Connection
from fabric_tools.transport.local import openssh_connection
from fabric_tools.transport.ssh import SshConnection
from tests.transport.sshd import PASSWORD, Sshd

pytestmark = pytest.mark.ssh

#: A probe table of two quick probes: these tests are about the way, not about what is asked.
QUICK = build_zipapp(
    {
        "probes.py": b"""
from typing import NamedTuple, Tuple
class Probe(NamedTuple):
    id: str; kind: str; argv: Tuple[str, ...]; timeout_s: float; max_bytes: int; says: str
    accept_rc: Tuple[int, ...] = (0,); files: Tuple[str, ...] = (); root: bool = False
PROBES = (Probe('uid', 'command', ('id', '-u'), 5.0, 1000, ''),
          Probe('shadow', 'file', ('/etc/shadow',), 5.0, 1000000, ''))
"""
    }
)


def table(probes: str) -> bytes:
    """A collector with another probe table (``Probe(...)`` expressions)."""
    return build_zipapp(
        {
            "probes.py": (
                "from typing import NamedTuple, Tuple\n"
                "class Probe(NamedTuple):\n"
                "    id: str; kind: str; argv: Tuple[str, ...]; timeout_s: float\n"
                "    max_bytes: int; says: str = ''; accept_rc: Tuple[int, ...] = (0,)\n"
                f"PROBES = ({probes},)\n"
            ).encode()
        }
    )


TRANSPORTS = {"builtin": SshConnection, "openssh": openssh_connection}


@pytest.fixture(params=sorted(TRANSPORTS))
def connect(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Each test runs over both SSH clients."""
    opened: list[Connection] = []

    def make(target: str, config: Path) -> Connection:
        opened.append(TRANSPORTS[request.param](target, config))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def read(connection: Connection, **options: object) -> Snapshot:
    return Snapshot.model_validate_json(collect(connection, QUICK, **options))  # type: ignore[arg-type]


def test_root_needs_no_sudo(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    assert read(connect("root@node", sshd.config())).probes["uid"].stdout == "0\n"


def test_sudo_without_password(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    snapshot = read(connect("nopasswd@node", sshd.config()))
    assert snapshot.probes["uid"].stdout == "0\n"
    assert snapshot.probes["shadow"].status is ProbeStatus.OK


def test_sudo_with_password(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    before = set(Path("/tmp").iterdir())
    snapshot = read(connect("withpass@node", sshd.config()), password=SecretStr(PASSWORD))
    assert snapshot.probes["uid"].stdout == "0\n"
    left = {path.name for path in set(Path("/tmp").iterdir()) - before if path.name[:4] == "tmp."}
    assert not left, "the uploaded collector was not removed"


def test_sudo_wrong_password(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="sudo refused the password") as caught:
        read(connect("withpass@node", sshd.config()), password=SecretStr("wrong-secret"))
    assert "wrong-secret" not in str(caught.value)


def test_sudo_password_needed(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="wants a password.*--ask-sudo-password"):
        read(connect("withpass@node", sshd.config()))


def test_not_in_sudoers(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="may not use sudo|not in the sudoers"):
        read(connect("nosudo@node", sshd.config()), password=SecretStr(PASSWORD))


def test_requiretty(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="requiretty"):
        read(connect("tty@node", sshd.config()))


def test_no_sudo_reads_what_the_user_may(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    snapshot = read(connect("nosudo@node", sshd.config()), sudo=Sudo.NEVER)
    assert snapshot.probes["uid"].stdout == "23003\n"
    assert snapshot.probes["shadow"].status is ProbeStatus.DENIED


def test_wrong_user(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match=r"no key accepted for user nobody9|denied"):
        read(connect("nobody9@node", sshd.config()))


def test_host_key_unknown(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    empty = sshd.root / "known_empty"
    empty.write_text("")
    with pytest.raises(UnreachableError, match="host key unknown|[Hh]ost key verification failed"):
        read(connect("root@node", sshd.config("c-unknown", known=empty)))
    assert empty.read_text() == "", "a refused key was added"


def test_host_key_changed(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    other = sshd.root / "known_other"
    words = (sshd.root / "other_ed25519.pub").read_text().split()
    other.write_text(f"[127.0.0.1]:{sshd.port} {words[0]} {words[1]}\n")
    with pytest.raises(
        UnreachableError, match="host key CHANGED|IDENTIFICATION HAS CHANGED|verification failed"
    ):
        read(connect("root@node", sshd.config("c-changed", known=other)))


def test_host_key_revoked(sshd: Sshd) -> None:
    revoked = sshd.root / "known_revoked"
    revoked.write_text(sshd.host_key() + "@revoked * " + sshd.host_key().split(" ", 1)[1])
    with pytest.raises(UnreachableError, match="@revoked"):
        SshConnection("root@node", sshd.config("c-revoked", known=revoked))


def test_hashed_known_hosts(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    hashed = sshd.root / "known_hashed"
    hashed.write_text(sshd.host_key())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hashed)], check=True, capture_output=True)
    assert read(connect("root@node", sshd.config("c-hashed", known=hashed))).probes["uid"].rc == 0


JUMP = """
Host jump
 HostName 127.0.0.1
 Port {port}
 User nopasswd
 IdentityFile {key}
 IdentitiesOnly yes
 UserKnownHostsFile {known}
 GlobalKnownHostsFile none
Host behind
 HostName 127.0.0.1
 Port {port}
 User root
 ProxyJump jump
 IdentityFile {key}
 IdentitiesOnly yes
 UserKnownHostsFile {sure}
 GlobalKnownHostsFile none
"""


def jump_config(sshd: Sshd, name: str, known: Path) -> Path:
    return sshd.config(
        name, JUMP.format(port=sshd.port, key=sshd.key, known=known, sure=sshd.known_hosts)
    )


def test_jump_host(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    assert read(connect("behind", jump_config(sshd, "c-jump", sshd.known_hosts))).host.uid == 0


def test_jump_host_key_is_checked(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    empty = sshd.root / "known_jump_empty"
    empty.write_text("")
    with pytest.raises(UnreachableError, match="host key unknown|[Hh]ost key verification failed"):
        read(connect("behind", jump_config(sshd, "c-jump-bad", empty)))


def test_nothing_listens(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "c"
    config.write_text("Host gone\n HostName 127.0.0.1\n Port 1\n")
    with pytest.raises(UnreachableError, match="no SSH connection"):
        SshConnection("root@gone", config)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ProxyCommand nc %h %p", "proxycommand"),
        ("CertificateFile ~/.ssh/x-cert.pub", "certificatefile"),
        ("HostKeyAlias other", "hostkeyalias"),
        ("Match exec true\n User x", "Match exec"),
    ],
)
def test_what_paramiko_cannot_do_is_refused_by_name(tmp_path: Path, line: str, named: str) -> None:
    config = tmp_path / "c"
    config.write_text(f"Host node\n {line}\n")
    with pytest.raises(UsageError, match=rf"(?s){named}.*--transport openssh"):
        SshConnection("node", config)


def test_top_level_include_is_read(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "inner").write_text(sshd.config("c-inner").read_text())
    outer = tmp_path / "outer"
    outer.write_text(f"Include {tmp_path}/inn*\nUser root\n")
    outer.chmod(0o600)
    connection = SshConnection("node", outer)
    assert read(connection).host.uid == 0
    connection.close()


def test_cert_authority_is_named_in_the_refusal(sshd: Sshd) -> None:
    known = sshd.root / "known_ca"
    known.write_text("@cert-authority * " + sshd.host_key().split(" ", 1)[1])
    with pytest.raises(UnreachableError, match="--transport openssh"):
        SshConnection("root@node", sshd.config("c-ca", known=known))


HOLDS = r"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(300)
    os._exit(0)
print('partial', flush=True)
time.sleep(300)
"""


def test_probe_that_forks_twice_and_ignores_term(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    archive = table(f"Probe('holds', 'command', ('python3', '-c', {HOLDS!r}), 2.0, 10000)")
    quick = table("Probe('quick', 'command', ('true',), 2.0, 10000)")
    connection = connect("nopasswd@node", sshd.config())
    began = time.monotonic()
    Snapshot.model_validate_json(collect(connection, quick))
    overhead = time.monotonic() - began
    began = time.monotonic()
    snapshot = Snapshot.model_validate_json(collect(connection, archive))
    took = time.monotonic() - began
    result = snapshot.probes["holds"]
    assert result.status is ProbeStatus.TIMEOUT
    assert "left behind" in result.note
    assert snapshot.duration_s < 3.0
    assert took - overhead < 3.0, f"{took:.2f} s for a 2 s timeout, {overhead:.2f} s without"
    deadline = time.monotonic() + 5
    while (left := _sleepers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


def _sleepers() -> list[str]:
    """Processes of that probe, by its tag and its code."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TAG}=".encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if "time.sleep(300)" in line]


def test_probe_that_prints_without_end(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    archive = table(
        "Probe('flood', 'command', ('head', '-c', '1000000000', '/dev/zero'), 20.0, 100000)"
    )
    result = Snapshot.model_validate_json(
        collect(connect("root@node", sshd.config()), archive)
    ).probes["flood"]
    assert result.status is ProbeStatus.CUT
    assert len(result.stdout) == 100000


def test_login_that_sends_a_gigabyte(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    flag = sshd.root / "home-junk" / "flood"
    flag.write_text("")
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UnreachableError, match="more than 64 MiB"):
            read(connect("junk@node", sshd.config()))
        grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown_mib < 300
    finally:
        flag.unlink()


def test_login_banner_and_escapes_do_no_harm(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    text = collect(connect("junk@node", sshd.config()), QUICK)
    assert json.loads(text)["probes"]["uid"]["stdout"] == "0\n"
    assert text.isascii() and "\x1b" not in text


def test_escapes_in_an_error_are_not_shown(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    broken = b"not a zip archive"
    with pytest.raises(UnreachableError) as caught:
        collect(connect("junk@node", sshd.config()), broken)
    assert str(caught.value).isprintable()


def test_no_python_on_the_node(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    """``set -r``-like PATH: the login shell of this user finds no python3."""
    rc = sshd.root / "home-nosudo" / ".bashrc"
    rc.write_text("PATH=/nonexistent; export PATH\n")
    try:
        with pytest.raises(UnreachableError):
            read(connect("nosudo@node", sshd.config()), sudo=Sudo.NEVER)
    finally:
        rc.unlink()
