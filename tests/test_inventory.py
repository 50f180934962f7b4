"""Inventories as Ansible reads them, and how their hosts are reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret
from pydantic import ValidationError

from fabric_tools.ansible.inventory import Node, read_inventory
from fabric_tools.ansible.ssh_args import ssh_options
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.transport.local import openssh_connection
from fabric_tools.transport.ssh_config import SshConfig
from tests.cases_runner import ROOT
from tests.test_files import cli, refused

HOSTS = """\
all:
  vars:
    ansible_user: ops
  children:
    gpu_nodes:
      hosts:
        n1: {ansible_host: 192.0.2.11, ansible_port: 2222}
        n2: {ansible_host: "2001:db8::2", ansible_become: false}
        n3:
          ansible_connection: local
"""
GROUP = """\
fabric_host:
  platform: "{{ 'dgx-' + board }}"
  profile:
    fabric: none
board: h100
ansible_ssh_common_args: -o ControlMaster=auto -J ops@jump.example -o IdentityFile=~/.ssh/fleet
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/gpu_nodes.yml").write_text(GROUP)
    return tmp_path


def read(folder: Path, **more: object) -> dict[str, Node]:
    found = read_inventory([str(folder / "hosts.yml")], **more)  # type: ignore[arg-type]
    return {node.name: node for node in found}


def test_groups_templates_and_ssh_settings(folder: Path) -> None:
    nodes = read(folder)
    assert list(nodes) == ["n1", "n2", "n3"]
    n1 = nodes["n1"]
    assert n1.site.platform == "dgx-h100" and n1.site.profile.fabric == "none"
    assert n1.address == "192.0.2.11" and n1.become and n1.password is None
    assert n1.options == {
        "identityfile": "~/.ssh/fleet", "port": "2222", "proxyjump": "ops@jump.example",
        "user": "ops",
    }  # fmt: skip
    assert nodes["n2"].address == "[2001:db8::2]" and not nodes["n2"].become
    assert nodes["n3"].local and not nodes["n3"].options


def test_limit(folder: Path) -> None:
    assert list(read(folder, limit="gpu_nodes:!n2")) == ["n1", "n3"]
    with pytest.raises(UsageError, match="n9"):
        read(folder, limit="n9")


def test_vault(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("open sesame\n")
    vault = VaultLib([("default", VaultSecret(b"open sesame"))])
    sealed = vault.encrypt("ansible_become_password: correct horse\n").decode()
    (folder / "group_vars/all.yml").write_text(sealed)
    password = read(folder, vault_files=[secret])["n1"].password
    assert password is not None and password.get_secret_value() == "correct horse"
    assert "correct horse" not in repr(read(folder, vault_files=[secret]))
    with pytest.raises(UsageError, match="vault"):
        read(folder)


def test_a_wrong_host_is_told_with_file_and_line(folder: Path) -> None:
    path = folder / "group_vars/gpu_nodes.yml"
    path.write_text(GROUP.replace("fabric: none", "fabrik: none"))
    with pytest.raises(UsageError, match=r"gpu_nodes.yml:4: n1: fabric_host: profile.fabrik"):
        read(folder)
    path.write_text(GROUP.replace("board: h100", ""))
    with pytest.raises(UsageError, match="n1: .*board"):
        read(folder)


@pytest.mark.cli
def test_a_broken_inventory_is_one_line_that_says_why(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: [1")
    refused(cli("validate", "base", "-i", str(path)), str(path), "flow sequence")


def test_what_cannot_be_read_shrinks_no_fleet(folder: Path) -> None:
    with pytest.raises(UsageError, match="no such inventory"):
        read_inventory([str(folder / "absent.yml")])
    (folder / "bad.yml").write_text("all: [\n")
    with pytest.raises(UsageError, match="bad.yml"):
        read_inventory([str(folder / "hosts.yml"), str(folder / "bad.yml")])
    (folder / "hosts.yml").write_text(HOSTS.replace("local", "docker"))
    with pytest.raises(UsageError, match="n3: ansible_connection docker is not one of ssh"):
        read(folder)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("-o ProxyJump=a,b -p 22", {"proxyjump": "a,b", "port": "22"}),
        ("-oUser=x -o 'User y'", {"user": "x"}),
        ("-C -o StrictHostKeyChecking=yes -o ServerAliveInterval=5", {}),
        ("-o UserKnownHostsFile=/k -i /id", {"userknownhostsfile": "/k", "identityfile": "/id"}),
    ],
)
def test_ssh_arguments(text: str, want: dict[str, str]) -> None:
    assert ssh_options(text, "n1") == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-o StrictHostKeyChecking=no", "host keys are always checked"),
        ("-L 1:2:3", "'-L' is not understood"),
        ("-o ProxyJump", "not understood"),
        ("-o 'x", "ssh arguments"),
        ("--", "'--' is not understood"),
    ],
)
def test_ssh_arguments_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ssh_options(text, "n1")


def test_own_options_go_before_the_file_and_only_for_the_target(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n User file\n Port 3\n")
    found = SshConfig(config, {"user": "mine", "port": "2222", "proxyjump": "jump"})
    node = found.resolve("n1", is_target=True)
    assert (node.user, node.port, node.proxy_jump) == ("mine", 2222, ("jump",))
    jump = found.resolve("jump")
    assert (jump.user, jump.port, jump.proxy_jump) == ("file", 3, ())
    refused = SshConfig(config, {"proxycommand": "nc %h"})
    with pytest.raises(UsageError, match="proxycommand is set"):
        refused.resolve("n1", is_target=True)


def test_own_options_with_openssh() -> None:
    connection = openssh_connection("n1", own={"user": "mine", "proxyjump": "jump"})
    config = Path(connection._argv[2]).read_text()
    mine = config.index('Host "n1"\n user "mine"\n proxyjump "jump"\nHost *\n')
    assert config.index("StrictHostKeyChecking yes") < mine < config.index("~/.ssh/config")
    connection.close()
    with pytest.raises(UsageError, match="not an ssh option"):
        openssh_connection("n1", own={"user": 'x"\n Match all'})


@pytest.mark.cli
def test_validate_reads_what_it_reaches_and_tells_the_rest(folder: Path) -> None:
    (folder / "hosts.yml").write_text(
        "all: {hosts: {here: {ansible_connection: local, ansible_become: false, fabric_host: "
        "{platform: dgx-h100}}, away: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    )
    done = cli("validate", "preflight", "-i", str(folder / "hosts.yml"), "--format", "json")
    assert done.returncode == 4, done.stderr.decode()
    here, away = json.loads(done.stdout)["hosts"]
    assert here["host"] == "here" and here["platform"]["id"] == "dgx-h100"
    assert here["decisions"][0]["exit_code"] in (1, 3) and here["taken_at"]
    assert away["decisions"][0]["exit_code"] == 4
    assert "no SSH connection to 127.0.0.1:1" in away["decisions"][0]["reasons"][0]
    assert b"2 of 2: " in done.stderr


@pytest.mark.cli
def test_validate_i_refuses_options_about_one_host(folder: Path) -> None:
    where = str(folder / "hosts.yml")
    done = cli("validate", "preflight", "-i", where, "--host-vars", where)
    assert done.returncode == 2 and b"--host-vars is about one host" in done.stderr
    done = cli("validate", "preflight", "-i", where, "--local")
    assert done.returncode == 2 and b"give one of" in done.stderr


@pytest.mark.cli
def test_glass_is_broken_for_one_host_of_an_inventory(folder: Path) -> None:
    (folder / "hosts.yml").write_text(
        "all: {hosts: {here: {ansible_connection: local, ansible_become: false}, "
        "away: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    )
    where = ("validate", "preflight", "-i", str(folder / "hosts.yml"))
    glass = ("--break-glass", "pci.gpu_count", "--reason", "no GPU here")
    done = cli(*where, *glass)
    assert done.returncode == 2
    assert b"--break-glass is about one host, 2 hosts are named" in done.stderr
    assert b"--limit HOST" in done.stderr
    done = cli(*where, "--limit", "here", *glass[:2], "--format", "json")
    assert done.returncode == 2 and b"--break-glass needs a --reason" in done.stderr
    done = cli(*where, "--limit", "here", "--break-glass", "pci.gpu_cuont", "--reason", "x")
    assert done.returncode == 2 and b"pci.gpu_cuont" in done.stderr
    done = cli(*where, "--limit", "here", *glass, "--format", "json")
    (host,) = json.loads(done.stdout)["hosts"]
    assert [w["kind"] for w in host["waivers"]] == ["break_glass"]


@pytest.mark.cli
def test_drift_of_an_inventory(folder: Path) -> None:
    """A host that was never proved and one that is not reached: each says why."""
    (folder / "hosts.yml").write_text(
        "all: {hosts: {here: {ansible_connection: local, ansible_become: false, fabric_host: "
        "{platform: dgx-h100}}, away: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    )
    ledger = folder / "ledger"
    assert cli("ledger", "init", "--ledger", str(ledger)).returncode == 0
    where = ("drift", "-i", str(folder / "hosts.yml"), "--ledger", str(ledger))
    done = cli(*where, "--format", "json")
    assert done.returncode == 4, done.stderr.decode()
    here, away = json.loads(done.stdout)["hosts"]
    assert (here["host"], here["exit_code"]) == ("here", 3) and here["untold"]
    assert away["exit_code"] == 4 and "127.0.0.1:1" in away["untold"][0]
    assert cli(*where, "--limit", "here").returncode == 3
    done = cli(*where, "--name", "here")
    assert done.returncode == 2 and b"about one host" in done.stderr


@pytest.mark.cli
def test_playbooks_prints_their_folder() -> None:
    assert cli("playbooks").stdout.decode().strip() == str(ROOT / "playbooks")


@pytest.mark.parametrize(
    "wrong",
    [
        {"mirror": {"url": "http://user:pw@mirror.example.org", "key_fingerprint": "A" * 40}},
        {"profile": {"proxy": "proxy.example.org:3128"}},
        {"profile": {"proxy": 'http://proxy";\nDPkg::Pre-Invoke "x'}},
    ],
)
def test_addresses_are_whole_and_hold_nothing_else(wrong: dict[str, object]) -> None:
    """A mirror with credentials would be shown, and equal no source that apt tells."""
    with pytest.raises(ValidationError):
        HostVars.model_validate(wrong)
