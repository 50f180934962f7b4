"""The node through testinfra's own eyes, which share no parser with the checks of the registry."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from fabric_tools.stacks import load_stacks


def wanted(host: Host) -> str:
    """The driver's version in the stack lock that the inventory names."""
    stack = host.ansible.get_variables()["fabric_host"]["stack"]
    return str(load_stacks()[stack].driver.version)


def test_loaded_module(host: Host) -> None:
    version = host.file("/sys/module/nvidia/version").content_string.strip()
    assert version == wanted(host)


def test_userspace(host: Host) -> None:
    said = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert said.split() == [wanted(host)] * 8


@pytest.mark.parametrize("name", ["nvidia-fabricmanager", "nvidia-persistenced"])
def test_service(host: Host, name: str) -> None:
    service = host.service(name)
    assert service.is_running and service.is_enabled


def test_nouveau_is_away_and_stays_away(host: Host) -> None:
    assert not host.file("/sys/module/nouveau").exists
    assert host.run("grep -rqs '^blacklist nouveau' /etc/modprobe.d").rc == 0


def test_fabric_manager_does_not_move_alone(host: Host) -> None:
    said = host.check_output("apt-cache policy nvidia-fabricmanager")
    lines = dict(line.strip().split(": ", 1) for line in said.splitlines() if ": " in line)
    assert lines["Installed"] == lines["Candidate"]
    assert lines["Installed"].startswith(wanted(host))
