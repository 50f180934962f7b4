"""Which keys of a known_hosts file count for a host."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from fabric_tools.errors import UsageError
from fabric_tools.transport.known_hosts import fingerprint, known_name, read_known_hosts

# Well formed; nobody has their private halves.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH4dZGA2ZVdZ0Fqdm0bzKN2LJpU2mCuyL9UTLEjJgkAT"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHnR9VZ0LVJnbLM0kX1u0cVwqfGUZ0yAKpZVYjJ0fTtB"


def keys(path: Path, text: str, name: str = "node1") -> list[str]:
    path.write_text(text)
    known = read_known_hosts((path,), name)
    return sorted(fingerprint(key) for key in known.keys - known.revoked)


@pytest.mark.parametrize(
    ("patterns", "name", "counts"),
    [
        ("node1", "node1", True),
        ("NODE1", "node1", True),
        ("node1", "node12", False),
        ("node2,node1,10.0.0.1", "node1", True),
        ("node?", "node1", True),
        ("node?", "node12", False),
        ("*.example.org", "node1.example.org", True),
        ("*.example.org", "node1.example.com", False),
        ("*", "node1", True),
        ("*,!node1", "node1", False),
        ("!node1,*", "node1", False),
        ("!node2,node*", "node1", True),
        ("!node2", "node1", False),
        ("[node1]:2222", "[node1]:2222", True),
        ("[node*]:2222", "[node1]:2222", True),
        ("[node1]:2222", "node1", False),
        ("node1", "[node1]:2222", False),
        ("[nd]ode1", "node1", False),
        ("node1", "nodeX1", False),
        ("n.de1", "node1", False),
        ("|1|bad", "node1", False),
        ("*a" * 20, "a" * 30 + "b", False),
    ],
)
def test_patterns(tmp_path: Path, patterns: str, name: str, counts: bool) -> None:
    assert bool(keys(tmp_path / "k", f"{patterns} {KEY} comment\n", name)) is counts


def test_name() -> None:
    assert known_name("Node1", 22) == "node1"
    assert known_name("Node1", 2222) == "[node1]:2222"


def test_several_keys_of_one_type_all_count(tmp_path: Path) -> None:
    assert len(keys(tmp_path / "k", f"node1 {KEY}\nnode1 {OTHER}\n")) == 2


def test_lines_that_are_not_understood_trust_nobody(tmp_path: Path) -> None:
    text = f"node1\nnode1 ssh-rsa {KEY.split()[1]}\nnode1 ssh-ed25519 %%%\n# node1 {KEY}\n\n"
    assert keys(tmp_path / "k", text) == []


def test_revoked_counts_for_every_host(tmp_path: Path) -> None:
    assert keys(tmp_path / "k", f"node1 {KEY}\n@revoked other {KEY}\n") == []
    assert len(keys(tmp_path / "k", f"node1 {OTHER}\n@revoked * {KEY}\n")) == 1


@pytest.mark.parametrize("line", ["@revoked", "@revoked *", f"@revoked {KEY}", "@revoked * x y"])
def test_a_revocation_that_is_not_understood_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match="k:2: @revoked line without a key"):
        keys(tmp_path / "k", f"node1 {KEY}\n{line}\n")


def test_absent_is_empty_and_unreadable_is_an_error(tmp_path: Path) -> None:
    absent = (tmp_path / "none", Path("/dev/null"), Path("/dev/null/x"))
    assert not read_known_hosts(absent, "node1").keys
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="folder: cannot read"):
        read_known_hosts((tmp_path / "folder",), "node1")


def test_no_permission_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "k").write_text(KEY)
    (tmp_path / "k").chmod(0)
    me = os.geteuid()
    if me == 0:  # root reads everything
        os.seteuid(65534)
    try:
        with pytest.raises(UsageError, match="cannot read"):
            read_known_hosts((tmp_path / "k",), "node1")
    finally:
        os.seteuid(me)


@pytest.mark.ssh
def test_thousands_of_lines(tmp_path: Path) -> None:
    """Plain and hashed, as a site's file has them; the file of ssh-keygen is the measure."""
    path = tmp_path / "k"
    path.write_text("".join(f"node{n},10.1.{n // 250}.{n % 250} {KEY}\n" for n in range(5000)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    hashed = path.read_text()
    plain = "".join(f"other{n} {OTHER}\n" for n in range(20000))
    began = time.monotonic()
    assert len(keys(path, hashed + plain, "node4999")) == 1
    assert keys(path, hashed + plain, "node5001") == []
    assert time.monotonic() - began < 5
