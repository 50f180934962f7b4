"""What labs share on one host: packages that are served, the list of what they need."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import lifecycle, mirror, needs
from lab.errors import LabError
from lab.places import REPOSITORY, container
from tests.cases_runner import ROOT


class Engine:
    """Two containers, one of which serves the packages of this checkout."""

    name = "podman"

    def __init__(self, served: Path) -> None:
        self.served = served

    def running(self, label: str) -> dict[str, str]:
        assert label == "fabric-lab"
        return {container(machine, "night"): "Up" for machine in ("node1", "mirror")}

    def __call__(self, *argv: str, check: bool = True) -> str:
        return f"{self.served} " if argv[-1].endswith("mirror") else ""


def test_packages_are_not_replaced_under_a_lab_that_serves_them() -> None:
    with pytest.raises(LabError, match="while the lab night serves them.*FABRIC_LAB=night"):
        mirror._refuse_while_served(Engine(REPOSITORY.resolve()))  # type: ignore[arg-type]
    mirror._refuse_while_served(Engine(Path("/elsewhere/repository")))  # type: ignore[arg-type]


def test_bootstrap_and_the_lab_read_one_list(tmp_path: Path) -> None:
    """The shell's reading of the list, on a host that has nothing, is all of it."""
    text = (ROOT / "tools/bootstrap").read_text()
    function = text[text.index("lab_missing() (") : text.index("plan=\nif")]
    (tmp_path / "docker").symlink_to("/bin/false")
    script = function.replace("$PATH:/usr/sbin:/sbin", str(tmp_path)) + "lab_missing\n"
    done = subprocess.run(
        ["/bin/sh", "-euc", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    bare = {package for program, package in needs.needs() if not program.startswith("/")}
    assert set(done.stdout.split()) - {"libc6-dev"} == bare, "the client of a Docker is no engine"
    assert len(bare) > 8


def test_a_docker_without_a_daemon_is_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(needs, "_PATH", str(tmp_path))
    for code, lacks in ((1, {"podman", "runc"}), (0, set())):
        docker.write_text(f"#!/bin/sh\nexit {code}\n")
        docker.chmod(0o755)
        assert {name for name, _ in needs.missing()} & {"podman", "runc"} == lacks


def test_two_labs_do_not_take_one_subnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the look at the routes until the bridge is there, no other lab looks."""
    held: list[str] = []

    def seen(name: str) -> lifecycle.network.Plan:
        lock = os.open(tmp_path / "run", os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(name)
        finally:
            os.close(lock)
        if name == "make_bridge":
            raise LabError("far enough", "")
        return lifecycle.network.Plan(ipaddress.IPv4Network("10.89.80.0/24"))

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(lifecycle, "ROUTES", tmp_path / "run")
    monkeypatch.setattr(lifecycle, "CACHE", tmp_path)
    monkeypatch.setattr(lifecycle, "STATE", tmp_path / "state")
    monkeypatch.setattr(lifecycle, "KEY", tmp_path / "state" / "key")
    monkeypatch.setattr(lifecycle, "find_engine", lambda: Engine(tmp_path))
    monkeypatch.setattr(Engine, "running", lambda self, label: {})
    monkeypatch.setattr(lifecycle, "build_image", lambda engine, progress: "image")
    monkeypatch.setattr(lifecycle, "run", lambda argv: None)
    for name in ("remove_bridge", "free_plan", "make_bridge"):
        monkeypatch.setattr(lifecycle.network, name, lambda *_, name=name: seen(name))
    with pytest.raises(LabError, match="far enough"):
        lifecycle.up(1, "stock", lambda line: None)
    assert held == ["remove_bridge", "free_plan", "make_bridge"]


def test_labs_are_taken_down_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has nothing but its state, or its containers."""
    mine = {container("node1", "test-a"): "Up", container("mirror", "demo"): "Up"}
    monkeypatch.setattr(lifecycle, "CACHE", tmp_path)
    monkeypatch.setattr(lifecycle, "find_engine", lambda: Engine(tmp_path))
    monkeypatch.setattr(Engine, "running", lambda self, label: {**mine, "fabric-x-0000-net1": "Up"})
    (tmp_path / "state-test-b").mkdir()
    down: list[str] = []
    monkeypatch.setattr(lifecycle, "run", lambda argv, cwd: down.append(argv[1]))
    lifecycle.down_named("test-*", lambda line: None)
    assert down == ["FABRIC_LAB=test-a", "FABRIC_LAB=test-b"]
    with pytest.raises(LabError, match="another checkout is up: fabric-x-0000-net1"):
        lifecycle.clean(lambda line: None)
    monkeypatch.setattr(Engine, "running", lambda self, label: mine)
    with pytest.raises(LabError, match="a lab is up: fabric-demo-.*-mirror, fabric-test-a"):
        lifecycle.clean(lambda line: None)


def test_two_checkouts_keep_labs_of_one_name_apart(tmp_path: Path) -> None:
    """The engine is one for the host: a lab that another checkout left is not ours to use."""
    ask = "from lab import machines as m, network; print(m.MIRROR, m.LABEL, network.BRIDGE)"
    told = []
    for cache in ("one", "two"):
        env = os.environ | {"FABRIC_LAB_CACHE": str(tmp_path / cache), "FABRIC_LAB": "night"}
        argv = [sys.executable, "-c", ask]
        told.append(subprocess.check_output(argv, env=env, cwd=ROOT, text=True).split())
    assert all(a != b for a, b in zip(*told, strict=True))
    assert told[0][0].startswith("fabric-night-")
