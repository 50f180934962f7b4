"""The operating system's state is read in bounds, and nothing on the node is changed by it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

import pytest

from fabric_tools.node import osstate, processes
from fabric_tools.node.run import never
from fabric_tools.parsers.apt_update import parse_apt_update
from fabric_tools.parsers.settings import parse_limits, parse_trust_store
from fabric_tools.probes import BY_ID

PEM = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
#: Of the bytes 0, 1, 2.
DIGEST = "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc"
needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt here")


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real apt-get with one source, an empty folder, and a hook that leaves a mark."""
    (tmp_path / "repo").mkdir()
    (tmp_path / "list").write_text(f"deb file:{tmp_path}/repo x main\n")
    hooks = "".join(
        f'APT::Update::{name} {{ "touch {tmp_path}/{name}"; }};\n'
        for name in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
    )
    own = f'Dir::Etc::sourcelist "{tmp_path}/list";\nDir::Etc::sourceparts "/dev/null";\n'
    monkeypatch.setattr(osstate, "_APT_CONF", hooks + osstate._APT_CONF + own)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@needs_apt
def test_apt_is_asked_in_a_folder_that_is_removed(apt: Path) -> None:
    before = os.stat("/var/lib/apt/lists").st_mtime
    found = osstate.ask_apt(BY_ID["apt_sources"], never)
    assert found.status == "ok", found.note
    (source,) = parse_apt_update(found.stdout.decode()).sources
    assert source.uri == f"file:{apt}/repo/dists/x"
    assert source.trouble == "not found"
    assert sorted(path.name for path in apt.iterdir()) == ["list", "repo"]
    assert os.stat("/var/lib/apt/lists").st_mtime == before


@needs_apt
def test_apt_that_hangs_costs_its_timeout_and_leaves_nothing(
    apt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (apt / "list").write_text(f"deb http://127.0.0.1:{port}/ x main\n")
        monkeypatch.setattr(
            osstate, "_APT_CONF", osstate._APT_CONF + 'Acquire::http::Proxy "DIRECT";\n'
        )
        began = time.monotonic()
        found = osstate.ask_apt(BY_ID["apt_sources"]._replace(timeout_s=1.5), never)
    assert time.monotonic() - began < 4
    assert found.status == "timeout"
    assert sorted(path.name for path in apt.iterdir()) == ["list", "repo"]


def test_a_tool_that_is_not_there_is_absent() -> None:
    probe = BY_ID["dnf_makecache"]._replace(argv=("no-such-dnf",))
    assert osstate.ask_dnf(probe, never).status == "absent"


def test_dnf_may_go_without_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is down and has skip_if_unavailable would else leave dnf with status 0."""
    (tmp_path / "dnf").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "dnf").chmod(0o755)
    path = f"{tmp_path}:{processes.CLEAN_ENV['PATH']}"
    monkeypatch.setitem(processes.CLEAN_ENV, "PATH", path)
    monkeypatch.setenv("PATH", path)
    found = osstate.ask_dnf(BY_ID["dnf_makecache"], never)
    assert b" --setopt=*.skip_if_unavailable=False makecache\n" in found.stdout


def test_without_room_for_its_folder_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    probe = BY_ID["dnf_makecache"]._replace(argv=("sh",))
    assert osstate.ask_dnf(probe, never).status == "error"


def files_of(*patterns: str, max_bytes: int = 10_000) -> osstate.Outcome:
    probe = BY_ID["limits"]._replace(argv=patterns, max_bytes=max_bytes)
    return osstate.read_files(probe, never)


def test_files_are_read_with_size_and_mode(tmp_path: Path) -> None:
    (tmp_path / "limits.d").mkdir()
    (tmp_path / "limits.conf").write_text("* soft memlock 1\n")
    (tmp_path / "limits.d" / "a.conf").write_text("* soft memlock 2\n")
    (tmp_path / "limits.d" / "gone.conf").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "limits.d" / "pipe.conf")
    os.chmod(tmp_path / "limits.conf", 0o640)
    found = files_of(f"{tmp_path}/limits.conf", f"{tmp_path}/limits.d/*.conf")
    assert found.status == "ok"
    held = json.loads(found.stdout)
    assert held[f"{tmp_path}/limits.conf"]["mode"] == "0640"
    assert held[f"{tmp_path}/limits.conf"]["size"] == 17
    assert len(held) == 2
    assert [line.value for line in parse_limits(found.stdout.decode()).lines] == ["1", "2"]


def test_no_file_is_absent_and_too_much_is_cut(tmp_path: Path) -> None:
    assert files_of(f"{tmp_path}/*.conf").status == "absent"
    for name in ("a", "b"):
        (tmp_path / f"{name}.conf").write_text("x" * 600)
    assert files_of(f"{tmp_path}/*.conf", max_bytes=1000).status == "cut"


def test_trust_is_the_digest_of_each_certificate(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# a name\n" + PEM + PEM.replace("AAEC", "AAED"))
    found = osstate.read_trust(BY_ID["trust_store"], never, ("/no/such", str(bundle)))
    assert found.status == "ok"
    read = parse_trust_store(found.stdout.decode())
    assert read.path == str(bundle)
    assert len(read.fingerprints) == 2 and DIGEST in read.fingerprints


@pytest.mark.parametrize("text", [PEM[:40], PEM.replace("AAEC", "A!EC")])
def test_a_bundle_that_is_cut_or_no_base64_failed(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.pem").write_text(text)
    found = osstate.read_trust(BY_ID["trust_store"], never, (str(tmp_path / "bundle.pem"),))
    assert found.status == "failed" and not found.stdout


def test_no_bundle_is_absent() -> None:
    assert osstate.read_trust(BY_ID["trust_store"], never, ("/no/such",)).status == "absent"
