"""The node through testinfra's own eyes, which share no parser with the checks of the registry."""

from __future__ import annotations

import pytest
from testinfra.host import Host


@pytest.mark.parametrize("name", ["chrony", "mdadm", "lsof", "nvme-cli"])
def test_package(host: Host, name: str) -> None:
    assert host.package(name).is_installed


def test_clock(host: Host) -> None:
    service = host.service("chrony")
    assert service.is_running and service.is_enabled


def test_kernel_is_held(host: Host) -> None:
    kernel = host.check_output("uname -r")
    assert f"linux-image-{kernel}" in host.check_output("apt-mark showhold").split()


def test_only_the_mirror_is_a_source(host: Host) -> None:
    mirror = host.ansible.get_variables()["fabric_host"]["mirror"]["url"]
    sources = host.check_output("apt-get indextargets --format '$(SITE)' 'Created-By: Packages'")
    assert sources.split() and all(site.startswith(f"{mirror}/") for site in sources.split())


def test_proxy_is_not_for_the_cluster(host: Host) -> None:
    environment = host.file("/etc/environment")
    assert environment.contains("^no_proxy=.*10.42.0.0/16")
    assert environment.mode == 0o644
