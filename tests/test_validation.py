"""``validation/`` gives the verdicts of the command line, and the example inventory is valid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fabric_tools.checks import BY_ID, for_phase
from fabric_tools.checks.registry import Kind
from fabric_tools.models.inventory import HostVars
from fabric_tools.phases import Phase
from fabric_tools.yaml_file import load_model
from tests.cases_runner import HEALTHY, PLATFORMS, ROOT

#: Each starts the command as a process.
pytestmark = pytest.mark.cli

#: The healthy example says nothing of the network.
GATES = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)
FILES = [f"validation/test_{phase}.py" for phase in GATES]


def validation(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *FILES, "-p", "no:cacheprovider", *args],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip


def test_healthy_node() -> None:
    done = validation("--snapshot", str(HEALTHY))
    number = sum(1 for p in GATES for item in for_phase(p) if item.kind is Kind.NODE) + len(GATES)
    assert done.returncode == 0, done.stdout
    assert f"{number} passed" in done.stdout


def test_sick_node() -> None:
    done = validation("--snapshot", str(HEALTHY.parent / "sick-fabric-manager-dead"))
    assert done.returncode == 1
    assert "test_driver.py::test_check[fabric.manager]" in done.stdout
    assert "test_nvlink.py::test_gate" in done.stdout
    assert "node: FAIL: nvidia-fabricmanager.service failed (signal), enabled" in done.stdout
    assert "remedy: mend fabric.manager first" in done.stdout


def test_no_node_is_no_pass() -> None:
    done = validation()
    assert done.returncode == 4 and "give --snapshot FILE|DIR or" in done.stderr
    assert "passed" not in done.stdout


def test_every_phase_with_checks_has_its_file() -> None:
    files = {path.stem.removeprefix("test_") for path in (ROOT / "validation").glob("test_*.py")}
    assert files == {phase.value for phase in Phase if for_phase(phase)}


@pytest.mark.parametrize("path", sorted((ROOT / "inventory/example/host_vars").glob("*.yml")))
def test_example_inventory(path: Path) -> None:
    site = load_model(path, HostVars, key="fabric_host")
    assert site.platform in PLATFORMS
    for waiver in site.waivers:
        assert waiver.check in BY_ID and waiver.host == path.stem
