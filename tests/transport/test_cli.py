"""The commands as a user runs them, against a real sshd and on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fabric_tools.models.snapshot import Snapshot
from tests.transport.sshd import PASSWORD, Sshd

pytestmark = pytest.mark.ssh


def cli(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fabric_tools", *map(str, args)],
        capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
    )  # fmt: skip


def reach(sshd: Sshd, user: str) -> list[object]:
    return ["--host", f"{user}@node", "--ssh-config", sshd.config()]


def test_validate_a_host(sshd: Sshd) -> None:
    """This machine is no DGX: the gate is closed, with reasons, and not for want of an answer."""
    how = ["--platform", "dgx-h100", "--format", "json"]
    done = cli("validate", "preflight", *reach(sshd, "nopasswd"), *how)
    assert done.returncode in (1, 3) and done.stderr == ""
    said = json.loads(done.stdout)
    assert said["hosts"][0]["host"] == os.uname().nodename
    assert len(said["hosts"][0]["decisions"][0]["verdicts"]) > 5


def test_collect_a_host_into_a_file(sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    done = cli("collect", *reach(sshd, "nopasswd"), "-o", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert path.stat().st_mode & 0o777 == 0o600
    snapshot = Snapshot.model_validate_json(path.read_text())
    assert snapshot.host.uid == 0 and snapshot.probes["kernel_release"].stdout
    assert list(tmp_path.iterdir()) == [path]


def test_collect_locally(tmp_path: Path) -> None:
    done = cli("collect", "--local", "--no-sudo")
    assert (done.returncode, done.stderr) == (0, "")
    snapshot = Snapshot.model_validate_json(done.stdout)
    assert snapshot.probes["kernel_release"].stdout == f"{os.uname().release}\n"


@pytest.mark.parametrize("transport", ["builtin", "openssh"])
def test_the_password_comes_from_the_environment_and_goes_nowhere(
    sshd: Sshd, tmp_path: Path, transport: str
) -> None:
    """Programs that this one starts do not inherit it: here what ``Match exec`` runs."""
    env, config = tmp_path / "env", sshd.config("c-cli")
    if transport == "openssh":
        config.write_text(f'{config.read_text()}Match exec "env >{env}"\n')
    done = cli(
        "collect", "--host", "withpass@node", "--ssh-config", config, "--transport", transport,
        FABRIC_TOOLS_SUDO_PASSWORD=PASSWORD,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert Snapshot.model_validate_json(done.stdout).host.uid == 0
    assert PASSWORD not in done.stdout
    if transport == "openssh":
        assert "PATH=" in env.read_text()
        assert PASSWORD not in env.read_text()


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr[:-1].isprintable()
    for word in words:
        assert word in done.stderr


def test_not_reached_is_4(sshd: Sshd, tmp_path: Path) -> None:
    wrong = cli("collect", *reach(sshd, "withpass"), FABRIC_TOOLS_SUDO_PASSWORD="wrong-secret")
    one_line(wrong, 4, "sudo refused the password")
    assert "wrong-secret" not in wrong.stderr
    one_line(cli("collect", *reach(sshd, "withpass")), 4, "--ask-sudo-password")
    one_line(cli("validate", "preflight", *reach(sshd, "nobody9")), 4, "no key accepted")
    config = sshd.config("c-cli-unknown", known=tmp_path / "none")
    unknown = cli("collect", "--host", "root@node", "--ssh-config", config)
    one_line(unknown, 4, "host key unknown", "SHA256:")


def test_what_cannot_be_used_is_2(sshd: Sshd, tmp_path: Path) -> None:
    into = cli("collect", *reach(sshd, "root"), "-o", "/proc/none/s.json")
    one_line(into, 2, "/proc/none/s.json", "cannot write")
    for host in ("[/x]", "[bold]x", "a" * 64, "h:99999", "-oProxyCommand=x"):
        done = cli("validate", "preflight", f"--host={host}")
        one_line(done, 2, "--host")
    absent = cli("collect", "--host", "h", "--ssh-config", tmp_path / "c", "--transport", "openssh")
    one_line(absent, 2, str(tmp_path / "c"))


def test_the_collector_that_is_handed_out_runs(tmp_path: Path) -> None:
    assert cli("collect", "--save-collector", tmp_path / "c.pyz").returncode == 0
    done = subprocess.run(
        ["/usr/bin/python3", "c.pyz", "--redact"], cwd=tmp_path, capture_output=True, check=True
    )
    snapshot = Snapshot.model_validate_json(done.stdout)
    assert snapshot.redacted and snapshot.probes["nvml"].status in ("absent", "ok")
