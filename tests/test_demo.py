"""``make demo``: what it says before it acts, where it cannot run, and the recorded half of it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import demo, demo_host, stage
from lab.demo import _gates, _without_passed
from lab.stage import Done, Stage, StepFailed
from tests.cases_runner import ROOT

_STATUS = "Name:\tpython\nCapEff:\t{}\n"


def _make(tmp_path: Path, *args: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """A copy of what `make demo` starts, where nothing of this checkout can be changed."""
    for name in ("tools", "requirements.lock", "requirements-build.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    env = {"PATH": path or os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["make", "-s", "-f", str(ROOT / "Makefile"), *args], cwd=tmp_path, env=env, text=True,
        capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip


def _tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.cli
def test_dry_only_says(tmp_path: Path) -> None:
    _make(tmp_path, "help")
    before = _tree(tmp_path)
    here = subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, check=True)
    done = _make(tmp_path, "demo", "DRY=1")
    assert done.returncode == 0, done.stderr
    for word in ("install", "containers", "bridge", "make lab-down", "nothing was done"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert _tree(tmp_path) == before
    after = subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, check=True)
    assert after.stdout == here.stdout
