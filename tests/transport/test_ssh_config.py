"""What the built-in transport takes from ssh_config, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric_tools.errors import UsageError
from fabric_tools.transport.ssh_config import Hop, SshConfig, split_target


def resolve(tmp_path: Path, text: str, target: str = "node") -> Hop:
    path = tmp_path / "c"
    path.write_text(text)
    return SshConfig(path).resolve(target)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Ciphers aes128-ctr", "ciphers"),
        ("MACs hmac-sha2-256", "macs"),
        ("KexAlgorithms curve25519-sha256", "kexalgorithms"),
        ("HostKeyAlgorithms ssh-ed25519", "hostkeyalgorithms"),
        ("PubkeyAcceptedAlgorithms +ssh-rsa", "pubkeyacceptedalgorithms"),
        ("PubkeyAcceptedKeyTypes +ssh-rsa", "pubkeyacceptedkeytypes"),
        ("BindAddress 10.0.0.1", "bindaddress"),
        ("BindInterface eth1", "bindinterface"),
        ("AddressFamily inet6", "addressfamily"),
        ("UserKnownHostsFile ~/.ssh/known_%h", "userknownhostsfile"),
        ("GlobalKnownHostsFile ${HOME}/known", "globalknownhostsfile"),
        ("Match user root\n User x", "Match user"),
        ("Match host node !user root\n User x", "Match user"),
        ("Match tagged prod\n User x", "Match tagged"),
        ("Match localnetwork 10.0.0.0/8\n User x", "Match localnetwork"),
        ('Match host "node" exec "true"', "Match exec"),
    ],
)
def test_what_would_differ_is_refused_by_name(tmp_path: Path, line: str, named: str) -> None:
    with pytest.raises(UsageError, match=rf"(?s){named}.*--transport openssh"):
        resolve(tmp_path, f"Host node\n {line}\n")


def test_what_changes_nothing_is_not_refused(tmp_path: Path) -> None:
    hop = resolve(
        tmp_path,
        "Host node\n AddressFamily any\n ProxyCommand none\n CanonicalizeHostname no\n"
        "Match host user.example.org originalhost exec\n User x\n"
        "Match all\n User right\n Port 2222\n",
    )
    assert (hop.user, hop.port) == ("right", 2222)


@pytest.mark.parametrize("port", ["abc", "0", "65536", "99999999", "-1", "22x", "²"])
def test_a_port_that_is_none(tmp_path: Path, port: str) -> None:
    with pytest.raises(UsageError, match="not a port"):
        resolve(tmp_path, f"Host node\n Port {port}\n")


@pytest.mark.parametrize("target", ["h:0", "h:65536", "h:123456789"])
def test_a_port_that_is_none_on_the_command_line(target: str) -> None:
    with pytest.raises(UsageError, match="not a port"):
        split_target(target)


@pytest.mark.parametrize("host", ["a" * 64, "x." + "b" * 64 + ".org", "a..b"])
def test_a_host_that_no_resolver_takes(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="not a host name"):
        split_target(host)
    with pytest.raises(UsageError, match="not a host name"):
        resolve(tmp_path, f"Host node\n HostName {host}\n")


def test_targets() -> None:
    assert split_target("u@h.example:22") == ("u", "h.example", 22)
    assert split_target("[fe80::1%eth0]:65535") == (None, "fe80::1%eth0", 65535)


def test_a_huge_file_is_not_cut(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than 1 MiB"):
        resolve(tmp_path, "#" * 1024 * 1024 + "\nProxyCommand x\n")


def test_include_with_blanks_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("User inner\n")
    assert resolve(tmp_path, f'Include "{tmp_path}/a b"\n').user == "inner"
    with pytest.raises(UsageError, match="Include"):
        resolve(tmp_path, 'Include "a b\n')
