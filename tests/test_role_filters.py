"""What roles ask of the package: versions, keys, drivers to load again, who may be rebooted."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fabric_tools.ansible import filters, openpgp, reload, versions
from fabric_tools.ansible.driver_set import driver_set
from fabric_tools.errors import UsageError
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.rpm_locks import parse_rpm_locks
from tests.cases_runner import ROOT

KEYS = Path(__file__).parent / "fixtures/keys"
ED25519 = "7A4F1E9601763AEF869FCC884CD29974261605AB"  # gpg --list-keys of a key made for this test
RSA = "A5CF113F0B91879CF600F20F6A3BD04E0D3056C3"  # the same
V6 = "CB186C4F0609A697E4D52DFA6C722B0C1F1E27C18A56708F6525EC27BAD9ACC9"  # RFC 9580, A.3


def key(name: str) -> str:
    return (KEYS / f"{name}.asc").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "fingerprint"), [("ed25519", ED25519), ("rsa2048", RSA), ("rfc9580_v6", V6)]
)
def test_the_declared_key_is_passed_on_with_all_its_packets(name: str, fingerprint: str) -> None:
    found = openpgp.checked_key(key(name), fingerprint, "here")
    assert packets(found) == packets(key(name))
    assert openpgp.checked_key(found, fingerprint, "here") == found
    if name != "rfc9580_v6":  # written without a checksum, as version 6 is
        assert found.split() == key(name).split()


def packets(armoured: str) -> bytes:
    body = armoured.partition("\n\n")[2].split("\n")
    return base64.b64decode("".join(line for line in body if line[:1] not in ("=", "-")))


@pytest.mark.parametrize("kind", ["MESSAGE", "PUBLIC KEY BLOCK OF NOBODY"])
def test_what_stands_beside_the_key_is_not_passed_on(kind: str) -> None:
    """apt (apt-key's awk) takes the first block of a file that begins with five dashes."""
    other = key("ed25519").replace("PUBLIC KEY BLOCK", kind)
    found = openpgp.checked_key(other + key("rsa2048"), RSA, "here")
    assert found == openpgp.checked_key(key("rsa2048"), RSA, "here")


def test_a_secret_key_is_no_public_key() -> None:
    secret = base64.b64encode(b"\xc5\x01\x04").decode()
    text = key("rsa2048").replace("\n\n", f"\n\n{secret}", 1)
    with pytest.raises(UsageError, match="packet of type 5"):
        openpgp.checked_key(text, RSA, "here")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (key("ed25519"), f"fingerprint is {ED25519}, the inventory declares {RSA}"),
        (key("two"), "2 keys where one is wanted"),
        (key("rsa2048") + key("ed25519"), "2 keys where one is wanted"),
        ("<html>404</html>", "no armoured OpenPGP public key"),
        (key("rsa2048").replace("\n\n", "\n\nAAAA", 1), "the key is cut off"),
        ("x" * 300_000, "too large"),
    ],
)
def test_any_other_key_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        openpgp.checked_key(text, RSA, "http://mirror/keys/fabric.asc")


MADISON = """\
nvidia-open-580 | 580.173.02-1 | http://mirror/apt/nvidia ./ Packages
nvidia-open-580 | 580.173.02-1 | http://other/apt/nvidia ./ Packages
nvidia-open-580 | 580.126.09-1 | http://mirror/apt/nvidia ./ Packages
nvidia-open-580 | 580.173.021-1 | http://mirror/apt/nvidia ./ Packages
     nvlsm | 2025.10.14-1 | http://mirror/apt/nvidia ./ Packages
     nvlsm | 2025.06.1-1 | http://mirror/apt/nvidia ./ Packages
     nvlsm | 2025.06.1-1 | http://mirror/apt/nvidia ./ Sources
"""
OPEN = {"name": "nvidia-open-580", "version": "580.173.02", "version_min": None}
NVLSM = {"name": "nvlsm", "version": None, "version_min": "2025.10.12"}


def test_one_revision_of_exactly_this_version() -> None:
    offered = versions.madison(MADISON)
    assert offered["nvlsm"] == ("2025.10.14-1", "2025.06.1-1")
    chosen = versions.resolve([OPEN, NVLSM], offered, {})
    assert chosen == {"nvidia-open-580": "580.173.02-1", "nvlsm": "2025.10.14-1"}


def test_what_is_installed_and_fits_stays() -> None:
    offered = {"nvidia-open-580": ("580.173.02-2", "580.173.02-1"), "nvlsm": ("2026.01.1-1",)}
    have = {"nvidia-open-580": "580.173.02-1", "nvlsm": "2025.10.14-1"}
    assert versions.resolve([OPEN, NVLSM], offered, have) == have


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (("580.173.02-2", "580.173.02-1"), "offered in 2 revisions: 580.173.02-2, 580.173.02-1"),
        (("595.91.07-1",), "580.173.02 is not offered; there is 595.91.07-1"),
        ((), "there is nothing of that name"),
    ],
)
def test_none_and_several_are_refused(offered: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        versions.resolve([OPEN], {"nvidia-open-580": offered}, {})


def test_an_installed_version_that_does_not_fit_decides_nothing() -> None:
    offered = {"nvidia-open-580": ("580.173.02-1",), "nvlsm": ("2025.10.14-1",)}
    have = {"nvidia-open-580": "595.91.07-1", "nvlsm": "2025.06.1-1"}
    assert versions.resolve([OPEN, NVLSM], offered, have)["nvlsm"] == "2025.10.14-1"
    with pytest.raises(UsageError, match="nvlsm at least 2025.10.12 is not offered"):
        versions.resolve([NVLSM], {"nvlsm": ("2025.06.1-1",)}, have)


def test_a_dry_run_leaves_out_what_is_not_there_but_not_what_is_ambiguous() -> None:
    assert versions.resolve([OPEN], {}, {}, partial=True) == {}
    two = {"nvidia-open-580": ("580.173.02-2", "580.173.02-1")}
    with pytest.raises(UsageError, match="2 revisions"):
        versions.resolve([OPEN], two, {}, partial=True)


def test_versions_of_dnf_keep_their_epoch() -> None:
    offered = versions.repoquery(
        "nvidia-open 3 580.173.02 1.el9 noarch\nnvlsm 0 2025.10.14 1 x86_64\nnvlsm 0 1 1 src\n"
    )
    assert offered == {"nvidia-open": ("3:580.173.02-1.el9",), "nvlsm": ("2025.10.14-1",)}
    assert versions.upstream("3:580.173.02-1.el9") == "580.173.02"
    assert versions.upstream("580.173.02") == "580.173.02"


def test_what_dpkg_left_half_done_is_still_there() -> None:
    text = "a\t1-1\tinstalled\nb\t2-1\thalf-installed\nc\t\tconfig-files\nd\t\tnot-installed\n"
    assert versions.installed(text) == {"a": "1-1", "b": "2-1"}


SIMULATED = """\
Inst nvidia-open-580 [580.173.02-1] (595.91.07-1 mirror:. [amd64])
Inst vim [2:9.0] (2:9.1 Debian:12 [amd64])
Inst libnvidia-cfg1-595 (595.91.07-1 mirror:. [amd64])
Remv libcuda1 [580.173.02-1]
Inst linux-image-amd64 [6.1.1] (6.1.2 Debian:12 [amd64])
Conf nvidia-open-580 (595.91.07-1 mirror:. [amd64])
"""


def whole(lines: str) -> str:
    """With apt's own total, without which the answer may be cut."""
    came = [line for line in lines.splitlines() if line.startswith("Inst ")]
    new = sum(line.split()[2].startswith("(") for line in came)
    gone = lines.count("Remv ")
    return (
        f"{len(came) - new} upgraded, {new} newly installed, {gone} to remove and 0 not upgraded.\n"
        + lines
    )


def test_an_answer_of_apt_that_is_cut_proves_nothing() -> None:
    for text in ("", SIMULATED, whole(SIMULATED).rpartition("Inst ")[0]):
        with pytest.raises(ParseError):
            versions.moving(text, ["*nvidia*"])
        with pytest.raises(ParseError):
            versions.dgx_objections(text, "580.173.02")


def test_packages_of_the_driver_and_the_kernel_that_would_move_are_told() -> None:
    assert versions.moving(whole(SIMULATED), ["*nvidia*", "libcuda*"]) == [
        "nvidia-open-580 580.173.02-1 -> 595.91.07-1",
        "libnvidia-cfg1-595 new -> 595.91.07-1",
        "libcuda1 580.173.02-1 -> removed",
        "linux-image-amd64 6.1.1 -> 6.1.2",
    ]
    assert versions.moving(whole("Inst vim [2:9.0] (2:9.1 Debian:12 [amd64])\n"), ["*n*"]) == []


def test_rows_of_dnf_that_would_move_are_told() -> None:
    text = (
        "Upgrading:\n vim-minimal  x86_64  2:9  baseos  1 M\n kernel  x86_64  5.14.0-9  b  1 k\n"
        " nvidia-open  noarch  3:595.91.07-1.el9  fabric-nvidia  1 k\nOperation aborted.\n"
    )
    assert versions.dnf_moving(text, ["nvlsm"]) == [
        "kernel -> 5.14.0-9",
        "nvidia-open -> 3:595.91.07-1.el9",
    ]


def test_the_container_toolkit_is_no_part_of_the_driver() -> None:
    have = {"nvidia-open-570": "570.86.15-1", "nvidia-container-toolkit": "1.20.0-1", "vim": "1-1"}
    assert versions.driver_parts(have, ["*nvidia*"]) == ["nvidia-open-570"]
    assert versions.vendor_names(have, ["*nvidia*"], "570.86.15") == ["nvidia-open-570"]
    assert versions.vendor_names(have, ["vim"]) == ["vim"]


def test_what_the_gate_wants_held_is_held() -> None:
    have = {
        "nvidia-utils-580-server": "580.173.02-0ubuntu0.24.04.1",
        "nvidia-settings": "510.47.03-0ubuntu1",
        "linux-modules-nvidia-580-server-open-6.8.0-40-generic": "6.8.0-40.40",
        "linux-objects-nvidia-580-server-open-6.8.0-40-generic": "6.8.0-40.40",
        "nvidia-container-toolkit": "1.20.0-1",
        "nvlsm": "2025.10.14-1",
        "vim": "2:9.0",
    }
    assert versions.held_names(have, ["*nvidia*"], "580.173.02") == [
        "linux-modules-nvidia-580-server-open-6.8.0-40-generic",
        "linux-objects-nvidia-580-server-open-6.8.0-40-generic",
        "nvidia-utils-580-server",
        "nvlsm",
    ]


def test_what_dnf_locks_is_what_the_gate_reads() -> None:
    """One line a package: versionlock takes a pattern without a dash for a name."""
    chosen = {"nvidia-open": "3:580.173.02-1.el9", "nvlsm": "2025.10.14-1"}
    have = {
        "nvidia-open": "580.126.09-1.el9",
        "nvidia-driver-libs": "580.173.02-1.el9",
        "nvidia-container-toolkit": "1.20.0-1",
        "libnvidia-ml": "580.126.09-1.el9",
    }
    lines = versions.dnf_locks(chosen, have, ["*nvidia*"], "580.173.02")
    assert lines == [
        "nvidia-driver-libs-580.173.02-1.el9.*",
        "nvidia-open-580.173.02-1.el9.*",
        "nvlsm-2025.10.14-1.*",
    ]
    read = parse_rpm_locks("\n".join(lines) + "\n")
    assert set(read.lines) == {"nvidia-driver-libs", "nvidia-open", "nvlsm"}
    after = {**have, "nvidia-open": "580.173.02-1.el9"}
    settled = {"nvidia-open": "580.173.02-1.el9", "nvlsm": "2025.10.14-1"}
    assert versions.dnf_locks(settled, after, ["*nvidia*"], "580.173.02") == lines


def test_packages_of_other_branches_go_and_those_of_the_same_name_are_upgraded() -> None:
    have = {
        "nvidia-open-570": "570.172.08-1",
        "libnvidia-compute-570": "570.172.08-1",
        "nvidia-driver-pinning-580.126.09": "580.126.09-1",
        "nvidia-fabricmanager": "570.172.08-1",
        "libnvidia-cfg1-580": "580.126.09-1",
        "nvidia-container-toolkit": "1.20.0-1",
        "vim": "570.1-1",
    }
    wanted = ["nvidia-open-580", "nvidia-fabricmanager", "nvidia-driver-pinning-580.173.02"]
    assert versions.other_branches(have, wanted, "580.173.02", ["*nvidia*"]) == [
        "libnvidia-compute-570", "nvidia-driver-pinning-580.126.09", "nvidia-open-570"
    ]  # fmt: skip


def test_an_upgrade_of_dgx_os_must_arrive_at_the_stack() -> None:
    text = whole(
        "Inst nvidia-driver-580-open [580.126.09-1] (580.173.02-1 DGX [amd64])\n"
        "Inst libnvidia-compute-580:i386 [580.126.09-1] (580.173.02-1 DGX [i386])\n"
        "Inst nvidia-acs-disable [22.1] (24.3 DGX [all])\n"
    )
    assert versions.dgx_objections(text, "580.173.02") == []
    assert versions.dgx_objections(text, "580.126.09") == [
        "nvidia-driver-580-open would become 580.173.02-1",
        "libnvidia-compute-580:i386 would become 580.173.02-1",
    ]
    gone = whole("Remv nvidia-fabricmanager [580.126.09-1]\n")
    assert versions.dgx_objections(gone, "580.173.02") == ["nvidia-fabricmanager would be removed"]


def manager(state: str, started: str = "123") -> dict[str, dict[str, str]]:
    return reload.units_of(
        f"Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState={state}\n"
        f"ExecMainStartTimestampMonotonic={started}\n\n"
        "Id=nvlsm.service\nLoadState=not-found\nActiveState=inactive\n"
    )


@pytest.mark.parametrize(
    ("loaded", "on_disk", "units", "settings", "said"),
    [
        ("580.1", "580.1", manager("active"), False, None),
        ("580.1", "580.1", manager("inactive", "0"), False, None),
        ("", "", {}, True, None),
        ("", "580.1", {}, False, "not loaded"),
        ("570.1", "580.1", {}, False, "nvidia 570.1 is loaded and 580.1 is on disk"),
        ("580.1", "580.1", manager("failed"), False, "ran since boot and is down"),
        ("580.1", "580.1", manager("active"), True, "settings of nvidia-fabricmanager"),
    ],
)
def test_when_the_module_is_loaded_again(
    loaded: str, on_disk: str, units: Any, settings: bool, said: str | None
) -> None:
    reasons = reload.reload_reasons(loaded, on_disk, units, settings=settings)
    assert len(reasons) == (said is not None)
    assert said is None or said in reasons[0]


def test_units_that_systemd_does_not_have_are_left_out() -> None:
    assert set(manager("active")) == {"nvidia-fabricmanager.service"}
    assert reload.active(manager("active"), ["nvlsm", "nvidia-fabricmanager"]) == [
        "nvidia-fabricmanager.service"
    ]
    assert reload.active(manager("failed"), ["nvidia-fabricmanager"]) == []


def test_strangers_are_named_and_our_own_services_are_not() -> None:
    def holder(command: str, unit: str) -> dict[str, Any]:
        return {"pid": 7, "uid": 0, "command": command, "unit": unit, "devices": ["nvidia0"]}

    found = reload.strangers(
        [holder("/usr/bin/nv-fabricmanager", "nvidia-fabricmanager.service"),
         holder("/usr/bin/dcgm-exporter", "cri-1.scope"),
         holder("python3", "session-3.scope"),
         holder("/tmp/x/k3s", "")],
        ["nvidia-fabricmanager", "k3s"],
        ["dcgm-exporter"],
    )  # fmt: skip
    assert found == [
        "python3 (pid 7, uid 0, session-3.scope: nvidia0)",
        "k3s (pid 7, uid 0: nvidia0)",
    ]


def test_failure_domains_in_the_order_of_the_inventory() -> None:
    variables: dict[str, dict[str, Any]] = {
        "a": {"fabric_failure_domain": "rack2"},
        "b": {},
        "c": {"fabric_failure_domain": "rack2"},
        "d": {"fabric_failure_domain": ""},
    }
    assert reload.failure_domains("abcd", variables) == ["rack2", "b", "d"]


def test_headers_are_for_the_running_and_the_newest_kernel() -> None:
    images = [
        "/boot/vmlinuz-5.15.0-91-generic", "/boot/vmlinuz-6.8.0-9-generic",
        "/boot/vmlinuz-6.8.0-40-generic", "/boot/vmlinuz-0-rescue-4711",
    ]  # fmt: skip
    kernels = reload.boot_kernels(images, "6.8.0-9-generic")
    assert kernels == ["6.8.0-9-generic", "6.8.0-40-generic"]
    assert reload.boot_kernels([], "6.1.0-50-amd64") == ["6.1.0-50-amd64"]
    assert reload.boot_kernels(["/boot/vmlinuz-1.2-a"], "1.2-a") == ["1.2-a"]
    assert reload.header_packages(["kernel-devel-{kernel}", "kernel-headers"], ["1", "2"]) == [
        "kernel-devel-1", "kernel-devel-2", "kernel-headers"
    ]  # fmt: skip


def test_the_compiler_of_the_kernel() -> None:
    ubuntu = (
        "Linux version 6.8.0-40-generic (buildd@lcy02-amd64-078) (x86_64-linux-gnu-gcc-12 "
        "(Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld (GNU Binutils for Ubuntu) 2.38)"
    )
    debian = "Linux version 6.1.0-50-amd64 (x@debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld"
    assert reload.compiler_major(ubuntu) == reload.compiler_major(debian) == "12"
    assert reload.compiler_major("Linux version 6.6 (clang version 17)") == ""


def test_a_key_is_enrolled_where_its_own_fingerprint_is_listed() -> None:
    sha1 = "0123456789abcdef0123456789abcdef01234567"
    line = ":".join(sha1[i : i + 2] for i in range(0, 40, 2))
    assert reload.enrolled(f"[key 1]\nSHA1 Fingerprint: {line}\n", sha1.upper())
    assert not reload.enrolled(f"[key 1]\nSHA1 Fingerprint: {line}\n", "f" * 40)
    assert not reload.enrolled("", sha1)


HOST = {"schema_version": 1, "platform": "hgx-h100"}
DEBIAN = {"os_id": "debian", "os_version": "12", "kernel": "6.1.0-50-amd64", "as_of": "2026-11-30"}


def test_the_board_decides_which_services_run() -> None:
    board = driver_set(HOST, **DEBIAN)
    assert board["services"] == ["nvidia-persistenced", "nvidia-fabricmanager"]
    assert board["services_off"] == ["nvidia-imex"] and board["fabric_state"] and board["dkms"]
    card = driver_set({"platform": "h100-pcie", "gpu_count": 2}, **DEBIAN)
    assert card["services"] == ["nvidia-persistenced"] and not card["fabric_state"]
    assert not [item for item in card["packages"] if "fabricmanager" in item["name"]]
    guest = driver_set({**HOST, "fabric_manager": "elsewhere"}, **DEBIAN)
    assert "nvidia-fabricmanager" in guest["services_off"]
    assert driver_set({"platform": "hgx-b200"}, **DEBIAN)["load_modules"] == ["ib_umad"]


def test_the_platform_is_declared_or_was_proved() -> None:
    found = driver_set({}, **DEBIAN, platform="hgx-h100")
    assert found == driver_set(HOST, **DEBIAN)
    with pytest.raises(UsageError, match="platform of this host is not known"):
        driver_set({}, **DEBIAN)
    with pytest.raises(UsageError, match="no platform 'x'; there are"):
        driver_set({"platform": "x"}, **DEBIAN)


def test_a_day_that_yaml_has_read_is_no_obstacle() -> None:
    """`expires: 2027-01-31` without quotes is a date when it comes here."""
    waiver = {
        "check": "host.time", "host": "n1", "reason": "no time server on this site yet",
        "owner": "ops", "expires": datetime(2027, 1, 31, tzinfo=UTC),
    }  # fmt: skip
    assert driver_set({**HOST, "waivers": [waiver]}, **DEBIAN)["stack"] == "r580-k3s136"


def test_a_stack_that_may_not_be_used_here_is_refused_with_its_reasons() -> None:
    with pytest.raises(UsageError, match="570"):
        driver_set({**HOST, "stack": "reference-001"}, **DEBIAN)
    with pytest.raises(UsageError, match="fabric_host: "):
        driver_set({**HOST, "stak": "x"}, **DEBIAN)


def test_dgx_os_belongs_to_its_vendor() -> None:
    board = driver_set(HOST, "dgx-os", "7.2.3", kernel="6.8.0-1032-nvidia", as_of="2026-11-30")
    assert board["owner"] == "vendor" and board["packages"] == [] and not board["dkms"]


def test_the_release_of_dgx_os() -> None:
    text = 'DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="5.1.0"\n\nDGX_OTA_VERSION="5.2.0"\n'
    assert filters.dgx_release(text) == "5.2.0"
    assert filters.dgx_release('DGX_SWBUILD_VERSION="7.2.3"\n') == "7.2.3"
    assert filters.dgx_release("") == ""
    with pytest.raises(ParseError, match="no DGX_SWBUILD_VERSION"):
        filters.dgx_release('DGX_NAME="DGX Server"\n')


def test_a_refusal_reaches_ansible_as_one_line() -> None:
    from ansible.errors import AnsibleFilterError

    table = filters.filters()
    with pytest.raises(AnsibleFilterError, match="is not offered"):
        table["fabric_resolve"]([OPEN], {}, {})
    with pytest.raises(AnsibleFilterError, match="ID or VERSION_ID"):
        table["fabric_os_release"]("NAME=x\n")
    assert table["fabric_secure_boot"]("SecureBoot enabled\n") is True


def test_roles_use_filters_that_exist_and_all_of_them() -> None:
    import re

    used: set[str] = set()
    for path in [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("roles/*/*/*.j2")]:
        used |= set(re.findall(r"\|\s*(fabric_\w+)", path.read_text(encoding="utf-8")))
    assert set(filters.filters()) <= used
