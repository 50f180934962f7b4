"""The controller dies (SIGKILL) in every phase, and the node's power goes in the middle of dpkg.

One bare node, brought to the driver through one death after the other. After each the same command
is given again; the last one opens the gate. What the ledger held before stays, byte for byte.
"""

from __future__ import annotations

import pytest

from tests.lab import dpkg_stop
from tests.lab.conftest import Labs
from tests.lab.rig import Rig

pytestmark = pytest.mark.lab

BASE, DRIVER = "10-base.yml", "20-driver.yml"
#: Where a run takes up what an earlier one left half done.
REPAIR = {
    playbook: f"TASK [{role} : Configure what was unpacked"
    for playbook, role in ((BASE, "node_base"), (DRIVER, "nvidia_driver"))
}


@pytest.fixture(scope="module")
def rig(labs: Labs) -> Rig:
    return labs("killed")


def killed(rig: Rig, playbook: str, moment: str) -> None:
    """Start it, kill the controller as soon as ``moment`` is on the screen."""
    before = rig.ledger_bytes()
    with rig.started(playbook) as run:
        run.until(moment)
        run.kill()
    # An entry is there whole, or not at all.
    assert rig.ledger_bytes().startswith(before)


def finishes(rig: Rig, playbook: str, phase: str) -> None:
    """The same command again: the gate opens, what was proved before stands unchanged."""
    before = rig.ledger_bytes()
    done = rig.proved(playbook)
    assert f"{phase} exit: OPEN (exit 0)" in done.gates()
    assert rig.ledger_bytes().startswith(before)
    assert rig.entries()[-1] == (phase, True)
    assert rig.tool("ledger", "verify").code == 0
    assert dpkg_stop.half_done(rig) == ""


def controller_dies_in_dpkg(rig: Rig, playbook: str, then: str) -> None:
    """The node's dpkg outlives the controller; the next run meets it, waits for its lock, and goes
    on to its own death at the moment ``then``."""
    dpkg_stop.arm(rig)
    before = rig.ledger_bytes()
    with rig.started(playbook) as run:
        dpkg_stop.wait(rig, run)
        run.kill()
    assert dpkg_stop.half_done(rig)
    with rig.started(playbook) as run:
        run.until(REPAIR[playbook])
        dpkg_stop.go_on(rig)
        run.until(then)
        run.kill()
    assert rig.ledger_bytes() == before
    assert dpkg_stop.half_done(rig) == ""


def power_goes_in_dpkg(rig: Rig, playbook: str) -> None:
    """The controller says that the node is gone; the node boots later, with half a package."""
    dpkg_stop.arm(rig)
    before = rig.ledger_bytes()
    with rig.started(playbook) as run:
        dpkg_stop.wait(rig, run)
        rig.cut_power()
        done = run.end()
    rig.boot()
    assert done.code == 4 and "UNREACHABLE" in done.gates(), done.text[-3000:]
    assert rig.ledger_bytes() == before
    assert dpkg_stop.half_done(rig), "nothing was half done: the power went too late"


def test_preflight(rig: Rig) -> None:
    killed(rig, "00-preflight.yml", "TASK [Preflight has proved itself]")
    finishes(rig, "00-preflight.yml", "preflight")


def test_base_early_and_when_the_power_goes_in_dpkg(rig: Rig) -> None:
    killed(rig, BASE, "TASK [Base may begin]")
    killed(rig, BASE, "TASK [node_base : Name the mirror as source]")
    power_goes_in_dpkg(rig, BASE)


def test_base_in_dpkg_after_its_packages_and_at_its_gate(rig: Rig) -> None:
    controller_dies_in_dpkg(rig, BASE, then="TASK [node_base : Hold the kernel")
    killed(rig, BASE, "TASK [Base has proved itself]")
    finishes(rig, BASE, "base")


def test_driver_early_and_when_the_power_goes_in_dpkg(rig: Rig) -> None:
    killed(rig, DRIVER, "TASK [Driver may begin]")
    killed(rig, DRIVER, "TASK [nvidia_driver : Keep nouveau from loading]")
    power_goes_in_dpkg(rig, DRIVER)


def test_driver_in_dpkg_before_the_reload_and_at_its_gate(rig: Rig) -> None:
    controller_dies_in_dpkg(rig, DRIVER, then="TASK [nvidia_driver : Load what is on disk]")
    assert "580" not in rig.inside("cat /sys/module/nvidia/version 2>/dev/null || true")
    killed(rig, DRIVER, "TASK [Driver has proved itself]")
    finishes(rig, DRIVER, "driver")
