"""The transport against a real sshd and a real sudo."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from fabric_tools.errors import UnreachableError, UsageError
from fabric_tools.models.snapshot import ProbeStatus, Snapshot
from fabric_tools.node.bundle import build_zipapp
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


@contextmanager
def bashrc(sshd: Sshd, user: str, text: str) -> Iterator[None]:
    """The login script of a user, which bash also reads for a command over ssh."""
    path = sshd.root / f"home-{user}" / ".bashrc"
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def own_tmp(sshd: Sshd, user: str, more: str = "") -> Iterator[Path]:
    """A TMPDIR of this user alone, with a name that has to be quoted."""
    path = sshd.root / "tmp of 'user' $x ü"
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    quoted = str(path).replace("'", "'\\''")
    with bashrc(sshd, user, f"export TMPDIR='{quoted}'\n{more}\n"):
        yield path


def programs(sshd: Sshd, name: str, **scripts: str) -> Path:
    """A folder for PATH."""
    folder = sshd.root / f"bin-{name}"
    folder.mkdir(exist_ok=True)
    for script, text in scripts.items():
        (folder / script).write_text(f"#!/bin/sh\n{text}\n")
        (folder / script).chmod(0o755)
    return folder


def test_sudo_with_password(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with own_tmp(sshd, "withpass", 'ls -A "$TMPDIR" >>"$HOME/seen"') as tmp:
        snapshot = read(connect("withpass@node", sshd.config()), password=SecretStr(PASSWORD))
    assert snapshot.probes["uid"].stdout == "0\n"
    seen = sshd.root / "home-withpass" / "seen"
    assert "fabric-" in seen.read_text(), "it was there while it ran"
    seen.unlink()
    assert not list(tmp.iterdir()), "the uploaded collector was not removed"


@pytest.mark.parametrize("fault", ["ulimit -f 8", "PATH={short}:$PATH", "export TMPDIR=/none"])
def test_an_upload_that_fails_leaves_nothing(sshd: Sshd, connect, fault: str) -> None:  # type: ignore[no-untyped-def]
    """A full disk, a connection that was cut, a TMPDIR that does not exist."""
    more = fault.format(short=programs(sshd, "short", cat="exec head -c 1000"))
    refused = pytest.raises(UnreachableError, match="cannot write to a temporary directory")
    with own_tmp(sshd, "withpass", more) as tmp, refused:
        read(connect("withpass@node", sshd.config()), password=SecretStr(PASSWORD))
    assert not list(tmp.iterdir())


def test_a_noisy_login_script_does_not_lose_a_snapshot(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    noise = "echo 'bash: module: command not found' >&2; echo 'x is not allowed to y' >&2"
    with bashrc(sshd, "withpass", noise):
        connection = connect("withpass@node", sshd.config())
        assert read(connection, password=SecretStr(PASSWORD)).host.uid == 0
        with pytest.raises(UnreachableError, match="sudo refused the password"):
            read(connection, password=SecretStr("wrong"))


def test_sudo_wrong_password(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="sudo refused the password") as caught:
        read(connect("withpass@node", sshd.config()), password=SecretStr("wrong-secret"))
    assert "wrong-secret" not in str(caught.value)


def test_the_password_is_nowhere(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    """Not in the snapshot, nor in any command line or environment while the collector runs."""
    everywhere = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '; true"
    archive = table(f"Probe('ps', 'command', ('sh', '-c', {everywhere!r}), 20.0, 10000000)")
    connection = connect("withpass@node", sshd.config())
    text = collect(connection, archive, password=SecretStr(PASSWORD))
    seen = json.loads(text)["probes"]["ps"]
    assert seen["status"] == "ok" and "collect.pyz" in seen["stdout"]
    assert PASSWORD not in text


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


def test_one_of_several_trusted_keys_of_a_type(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    known = sshd.root / "known_both"
    name, kind, key = sshd.host_key().split()
    other = (sshd.root / "other_ed25519.pub").read_text().split()[1]
    known.write_text(f"{name} {kind} {key}\n{name} {kind} {other}\n")
    assert read(connect("root@node", sshd.config("c-both", known=known))).host.uid == 0


def test_wildcard_known_hosts(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    known = sshd.root / "known_wild"
    _, kind, key = sshd.host_key().split()
    known.write_text(f"[127.0.0.*]:* {kind} {key}\n")
    assert read(connect("root@node", sshd.config("c-wild", known=known))).host.uid == 0
    known.write_text(f"[127.0.0.*]:*,![127.0.0.1]:* {kind} {key}\n")
    with pytest.raises(UnreachableError, match="host key unknown|verification failed"):
        read(connect("root@node", sshd.config("c-wild", known=known)))


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


HOSTILE = """
StrictHostKeyChecking no
UpdateHostKeys yes
VerifyHostKeyDNS yes
NoHostAuthenticationForLocalhost yes
BatchMode no
ControlMaster auto
ControlPath /tmp/fabric-%C
ForwardAgent yes
ForwardX11 yes
GSSAPIDelegateCredentials yes
Tunnel yes
PermitLocalCommand yes
LocalCommand false
RemoteCommand false
RequestTTY force
RemoteForward 0 127.0.0.1:22
"""


def hostile(config: Path) -> Path:
    """The configuration after lines that switch every protection off, for every host."""
    config.write_text(HOSTILE + config.read_text())
    return config


def test_a_careless_configuration_changes_nothing(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    """At the first hop, at a jump host and behind it; and nothing is added."""
    for first, second in ((0, 1), (1, 0)):
        files = [sshd.root / "known_careless", sshd.known_hosts]
        files[0].write_text("")
        text = JUMP.format(port=sshd.port, key=sshd.key, known=files[first], sure=files[second])
        config = hostile(sshd.config(f"c-careless{first}", text))
        with pytest.raises(UnreachableError, match="key unknown|verification failed|closed"):
            read(connect("behind", config))
        assert files[0].read_text() == "", "a refused key was added"
    config = hostile(sshd.config("c-careless", known=files[0]))
    with pytest.raises(UnreachableError, match="key unknown|verification failed"):
        read(connect("root@node", config))
    assert files[0].read_text() == ""
    careful = hostile(jump_config(sshd, "c-careful", sshd.known_hosts))
    before = sshd.known_hosts.read_text()
    assert read(connect("behind", careful)).host.uid == 0
    assert sshd.known_hosts.read_text() == before


def test_openssh_options_that_no_configuration_changes(sshd: Sshd) -> None:
    connection = openssh_connection("u@node:77", hostile(sshd.config("c-options")))
    argv = list(connection._argv)
    said = subprocess.run([argv[0], "-G", *argv[1:]], capture_output=True, text=True, check=True)
    values = dict(line.split(" ", 1) for line in said.stdout.splitlines() if " " in line)
    expected = {
        "user": "u", "port": "77", "hostname": "127.0.0.1",
        "stricthostkeychecking": "true", "updatehostkeys": "false", "verifyhostkeydns": "false",
        "nohostauthenticationforlocalhost": "no", "batchmode": "yes", "controlmaster": "false",
        "forwardagent": "no", "forwardx11": "no", "tunnel": "false", "permitlocalcommand": "no",
        "requesttty": "false", "clearallforwardings": "yes", "gssapidelegatecredentials": "no",
    }  # fmt: skip
    assert {key: values[key] for key in expected} == expected
    assert "controlpath" not in values and "remotecommand" not in values
    folder = Path(argv[2]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    connection.close()
    assert not folder.exists()


def test_identities_only_takes_the_agents_key_that_is_named(
    sshd: Sshd, tmp_path: Path, connect, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    key = tmp_path / "key"
    key.write_text(sshd.key.read_text())
    key.chmod(0o600)
    (tmp_path / "key.pub").write_text(sshd.key.with_suffix(".pub").read_text())
    config = tmp_path / "config"
    config.write_text(sshd.config("c-agent").read_text().replace(str(sshd.key), str(key)))
    config.chmod(0o600)
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        others = [str(sshd.root / "other_ed25519"), str(key)]
        subprocess.run(["ssh-add", "-q", *others], check=True)
        change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "a passphrase", "-f", str(key)]
        subprocess.run(change, check=True, stdout=subprocess.DEVNULL)
        assert read(connect("root@node", config)).host.uid == 0
    finally:
        agent.terminate()
        agent.wait(10)


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
    """Processes of that probe, by its code."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if HOLDS in line]


def test_probe_that_prints_without_end(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    archive = table(
        "Probe('flood', 'command', ('head', '-c', '1000000000', '/dev/zero'), 20.0, 100000)"
    )
    result = Snapshot.model_validate_json(
        collect(connect("root@node", sshd.config()), archive)
    ).probes["flood"]
    assert result.status is ProbeStatus.CUT
    assert len(result.stdout) == 100000


#: In a process of its own: the peak of this one is that of all tests before.
MEASURED = """
import resource, sys
from pathlib import Path
from fabric_tools.errors import UnreachableError
from fabric_tools.transport.collect import collect
from fabric_tools.transport.{module} import {name}
connection = {name}("junk@node", Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    collect(connection, b"x")
except UnreachableError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("make", TRANSPORTS.values(), ids=TRANSPORTS)
def test_login_that_sends_a_gigabyte(sshd: Sshd, make: object) -> None:
    flag = sshd.root / "home-junk" / "flood"
    flag.write_text("")
    module, name = make.__module__.rpartition(".")[2], make.__name__  # type: ignore[attr-defined]
    try:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED.format(module=module, name=name), str(sshd.config())],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        flag.unlink()
    said, grown_mib = done.stdout.splitlines()
    assert "more than 64 MiB" in said
    assert int(grown_mib) < 200


MINIMAL = {
    "schema_version": 1, "kind": "fabric-tools/snapshot", "collector": {"version": "1"},
}  # fmt: skip


def fake_collector(body: bytes) -> bytes:
    """What a node could run in place of ours: a right frame around whatever it likes."""
    code = (
        "import hashlib, sys\n"
        f"body = {body!r}\n"
        "head = '\\n%s %s %d %s\\n' % ('FABRIC-COLLECT', sys.argv[2], len(body),"
        " hashlib.sha256(body).hexdigest())\n"
        "sys.stdout.buffer.write(head.encode() + body)\n"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", code)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "body",
    [b"\x1b]0;owned\x07", b"[]", json.dumps({**MINIMAL, "\x1b[2J": 1}).encode(),
     json.dumps({**MINIMAL, "probes": {"a": "\x1b[2J"}}).encode()],
    ids=["escape", "list", "field", "probe"],
)  # fmt: skip
def test_what_is_not_a_snapshot_is_not_passed_on(sshd: Sshd, connect, body: bytes) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreachableError, match="not a snapshot") as caught:
        collect(connect("root@node", sshd.config()), fake_collector(body))
    assert str(caught.value).isprintable()


def test_a_snapshot_is_passed_on_as_ascii(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    named = {**MINIMAL, "host": {"hostname": "\x9b2J\u202e"}}
    body = json.dumps(named, ensure_ascii=False).encode()
    text = collect(connect("root@node", sshd.config()), fake_collector(body))
    assert text.isascii() and text[:-1].isprintable()
    assert Snapshot.model_validate_json(text).host.hostname == "\x9b2J\u202e"


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
    folder = programs(sshd, "none", sh='exec /bin/sh "$@"')
    refused = pytest.raises(UnreachableError, match="needs Python 3.9 or later, there is none")
    with bashrc(sshd, "nosudo", f"PATH={folder}"), refused:
        read(connect("nosudo@node", sshd.config()), sudo=Sudo.NEVER)


#: ``python3 -I -c CODE ARGUMENTS...`` as an older version would run it.
OLD_PYTHON = """code=$3; shift 3
exec /usr/bin/python3 -I -c '
import sys
sys.version_info, sys.version = (3, 6, 8, "final", 0), "3.6.8 (default)"
exec(sys.argv.pop(1))' "$code" "$@"
"""


def test_an_old_python_on_the_node(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    folder = programs(sshd, "old", python3=OLD_PYTHON)
    refused = pytest.raises(UnreachableError, match="needs Python 3.9 or later.* has 3.6.8")
    with bashrc(sshd, "nosudo", f"PATH={folder}:$PATH"), refused:
        read(connect("nosudo@node", sshd.config()), sudo=Sudo.NEVER)


#: The kernel forbids memfds.
NO_MEMFD = """code=$3; shift 3
exec /usr/bin/python3 -I -c '
import errno, os, sys
def memfd_create(*_): raise PermissionError(errno.EACCES, "no")
os.memfd_create = memfd_create
exec(sys.argv.pop(1))' "$code" "$@"
"""


def test_without_memfd(sshd: Sshd, connect) -> None:  # type: ignore[no-untyped-def]
    folder = programs(sshd, "memfd", python3=NO_MEMFD)
    with bashrc(sshd, "nosudo", f"PATH={folder}:$PATH"):
        archive = build_zipapp()
        text = collect(connect("nosudo@node", sshd.config()), archive, sudo=Sudo.NEVER)
    assert json.loads(text)["probes"]["nvml"]["status"] in ("absent", "ok")
