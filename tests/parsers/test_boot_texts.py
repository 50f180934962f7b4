"""Texts of holds, pins, simulated upgrades, repositories and keys: read whole or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import written

from fabric_tools.models.boot import AptPin
from fabric_tools.parsers.apt_policy import parse_apt_policy
from fabric_tools.parsers.apt_preferences import parse_apt_preferences
from fabric_tools.parsers.apt_releases import parse_apt_releases
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dgx_release import parse_dgx_release
from fabric_tools.parsers.dkms import parse_dkms
from fabric_tools.parsers.dpkg import kernel_packages, parse_dpkg
from fabric_tools.parsers.mok_enrolled import parse_mok_enrolled
from fabric_tools.parsers.next_boot import parse_next_boot
from fabric_tools.parsers.rpm_locks import parse_rpm_locks
from fabric_tools.parsers.upgrade_simulated import parse_upgrade_simulated
from tests.cases_runner import HEALTHY

#: Lines of a Debian 12 host, and one removal in apt's form.
UPGRADE = """Reading package lists...
The following packages will be upgraded:
  bash libgcrypt20-dev
2 upgraded, 1 newly installed, 1 to remove and 3 not upgraded.
Inst bash [5.2.15-2+b8] (5.2.15-2+b13 Debian:12.15/oldstable [amd64])
Remv old-tool [1.0-1]
Inst libgcrypt20-dev [1.10.1-3] (1.10.1-3+deb12u1 Debian:12.15/oldstable, Debian-Security:12/x [amd64]) []
Inst linux-image-6.1.0-50-amd64 (6.1.187-1 Debian-Security:12/oldstable-security [amd64])
Conf bash (5.2.15-2+b13 Debian:12.15/oldstable [amd64])
"""  # noqa: E501 - a line as apt prints it
#: Of the same host.
POLICY = """openssl:
  Installed: 3.0.19-1~deb12u2
  Candidate: 3.0.22-1~deb12u2
  Version table:
     3.0.22-1~deb12u2 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
 *** 3.0.19-1~deb12u2 100
        100 /var/lib/dpkg/status
"""
RELEASES = """Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 http://deb.debian.org/debian bookworm/main amd64 Packages
     release v=12.15,o=Debian,a=oldstable,n=bookworm,l=Debian,c=main,b=amd64
     origin deb.debian.org
Pinned packages:
     nodejs -> 22.1 with priority 600
"""


def healthy(name: str) -> str:
    return (HEALTHY / name).read_text()


def test_upgrade() -> None:
    plan = parse_upgrade_simulated(UPGRADE)
    assert [(m.name, m.old, m.new) for m in plan.moves] == [
        ("bash", "5.2.15-2+b8", "5.2.15-2+b13"),
        ("old-tool", "1.0-1", None),
        ("libgcrypt20-dev", "1.10.1-3", "1.10.1-3+deb12u1"),
        ("linux-image-6.1.0-50-amd64", None, "6.1.187-1"),
    ]
    assert plan.kept_back == 3
    down = UPGRADE.replace(
        "2 upgraded, 1 newly installed,", "1 upgraded, 1 newly installed, 1 downgraded,"
    )
    assert len(parse_upgrade_simulated(down).moves) == 4


@pytest.mark.parametrize("at", range(len(UPGRADE.split("\n")) - 2))
def test_an_upgrade_that_lost_a_line_is_refused(at: int) -> None:
    lines = UPGRADE.split("\n")
    less = "\n".join(lines[:at] + lines[at + 1 :])
    if lines[at].startswith(("Inst ", "Remv ")) or "to remove" in lines[at]:
        with pytest.raises(ParseError):
            parse_upgrade_simulated(less)
    else:
        assert parse_upgrade_simulated(less).kept_back == 3


def test_policy_and_releases() -> None:
    (package,) = parse_apt_policy(POLICY).packages
    assert package.sources_of(package.installed) == ()
    source = "http://deb.debian.org/debian-security bookworm-security/main"
    assert package.sources_of(package.candidate) == (source,)
    origins = parse_apt_releases(RELEASES).origins
    assert origins["http://deb.debian.org/debian bookworm/main"] == "Debian"


def test_repositories_of_the_suite_slash() -> None:
    """As NVIDIA/apt-packaging-fabric-manager#3 shows the CUDA network repository: no suite."""
    cuda = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64"
    rows = f"     550.54.14-1 580\n        580 {cuda}  Packages\n"
    table = f"  Version table:\n *** 550.54.14-1 100\n        100 /var/lib/dpkg/status\n{rows}"
    policy = f"cuda-drivers:\n  Installed: 550.54.14-1\n  Candidate: 550.54.14-1\n{table}"
    (package,) = parse_apt_policy(policy).packages
    assert package.sources_installed == () and package.versions[1].sources == (cuda,)
    assert not package.versions[1].installed
    phased = policy.replace(" *** 550.54.14-1 100", " *** 550.54.14-1 100 (phased 20%)")
    assert parse_apt_policy(phased).packages[0].versions[0].installed
    head = f"Package files:\n 580 {cuda}  Packages\n     release o=NVIDIA,l=NVIDIA,c=\n"
    text = head + "     origin developer.download.nvidia.com\nPinned packages:\n"
    assert parse_apt_releases(text).origins == {cuda: "NVIDIA"}


def test_preferences() -> None:
    assert parse_apt_preferences("").pins == ()
    first, second, last = parse_apt_preferences(written.APT_PREFERENCES).pins
    assert first.pin == "origin deb.nodesource.com" and last.packages == ("*",)
    assert second == AptPin(
        line=4, file="/etc/apt/preferences.d/nvidia.pref",
        packages=("*nvidia*", "libcuda1", "cuda-drivers*"), pin="version 580.173.02*",
        priority=1001,
    )  # fmt: skip
    # apt reads no file of another extension.
    ignored = written.APT_PREFERENCES.replace("nvidia.pref", "nvidia.bak")
    assert len(parse_apt_preferences(ignored).pins) == 1


def test_locks_keys_and_release_files() -> None:
    assert list(parse_rpm_locks(written.RPM_LOCKS).lines) == [
        "nvidia-driver",
        "nvidia-fabric-manager",
    ]
    assert parse_rpm_locks("").lines == {}
    key = "[key 1]\nCertificate:\n        Subject: C = GB, O = Site, CN = DKMS module signing key\n"
    assert list(parse_mok_enrolled(key).lines) == ["DKMS module signing key"]
    assert parse_mok_enrolled("MokListRT is empty\n").lines == {}
    assert not parse_dgx_release(healthy("dgx_release.txt")).present
    assert parse_dgx_release("/etc/os-release\n/etc/dgx-release\n").line == 2


def test_kernel_packages_of_a_real_host() -> None:
    """As ``dpkg-query -W -f`` of the probe prints them on Debian 12, blanks at the end and all."""
    text = (
        "un  linux-doc-6.1  \nii  linux-libc-dev:amd64 6.1.187-1 amd64\n"
        "ii  linux-perf 6.1.187-1 amd64\nun  linux-tools-6.1  \n"
    )
    found = parse_dpkg(text)
    assert [(p.name, p.state, p.installed, p.version) for p in found.packages] == [
        ("linux-doc-6.1", "un", False, None),
        ("linux-libc-dev", "ii", True, "6.1.187-1"),
        ("linux-perf", "ii", True, "6.1.187-1"),
        ("linux-tools-6.1", "un", False, None),
    ]
    assert len(kernel_packages(found).packages) == 2  # type: ignore[attr-defined]


NEXT = healthy("next_boot.json")
REFUSED: list[tuple[Callable[[str], Any], str]] = [
    (parse_upgrade_simulated, ""),
    (parse_upgrade_simulated, "E: Could not open lock file /var/lib/dpkg/lock-frontend\n"),
    (parse_upgrade_simulated, UPGRADE + UPGRADE.split("\n")[3] + "\n"),
    (parse_upgrade_simulated, UPGRADE.replace("[5.2.15-2+b8] ", "[5.2.15-2+b8")),
    (parse_apt_policy, POLICY.replace(" *** 3.0.19-1~deb12u2 100\n", "")),
    (parse_apt_policy, POLICY.replace(" /var/lib/dpkg/status", " /var/lib/dpkg/status of")),
    (parse_apt_releases, ""),
    (parse_apt_releases, RELEASES.replace("Pinned packages:\n", "")),
    (parse_apt_releases, POLICY),
    (parse_apt_preferences, "grep: /etc/apt/preferences: No such file or directory\n"),
    (parse_apt_preferences, "/etc/apt/preferences:Package: a\n"),
    (parse_apt_preferences, written.APT_PREFERENCES.replace("1001", "high")),
    (parse_rpm_locks, "bash: dnf: command not found\n"),
    (parse_rpm_locks, "!nvidia-driver-3:580.173.02-1.el9.*\n"),
    (parse_mok_enrolled, ""),
    (parse_mok_enrolled, "EFI variables are not supported on this system\n"),
    (parse_mok_enrolled, "[key 1]\nCertificate:\n[key 2]\n        Subject: CN=a\n"),
    (parse_dgx_release, ""),
    (parse_dgx_release, "/etc/dgx-release\n"),
    (parse_dgx_release, "/etc/os-release\n/etc/dgx-rel"),
    (parse_next_boot, "{}"),
    (parse_next_boot, NEXT.replace('"next": "5.15.0-124-generic"', '"next": "6.8.0-1-generic"')),
    (parse_next_boot, NEXT.replace('"efi": true', '"efi": "true?"')),
    (parse_next_boot, NEXT.replace('"efi"', '"more": 1,\n "efi"')),
    (parse_next_boot, NEXT.replace('"headers": true', '"headers": "yes"')),
    (parse_next_boot, NEXT.replace('"path": "/boot/initrd', '"path": "/boot/other')),
    (parse_next_boot, re.sub(r'"version": "\d[\d.]+"', '"version": ""', NEXT, count=1)),
    (parse_apt_policy, POLICY.rstrip("\n")),
    (parse_dkms, "nvidia/565.57.01, 6.8.0-101-generic, x86_64: installed (WARNING! Di"),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "text"), REFUSED)
def test_refused(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
