"""What the role node_base computes."""

from __future__ import annotations

import json

import pytest

from fabric_tools.ansible.node_base import (
    array_plan,
    kernel_held,
    mount_unit,
    node_settings,
    too_low,
)
from fabric_tools.errors import UsageError

HOST = {
    "schema_version": 1,
    "profile": {"proxy": "http://proxy.example:3128", "no_proxy": ["mirror.example", ".example"]},
}


FSTAB = "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\n\n#/dev/sdb1 /var/lib/fabric xfs\n"


def drive(path: str, serial: str, **more: object) -> dict[str, object]:
    plain = {"name": path[5:], "kname": path[5:], "path": path, "type": "disk", "size": 10**12,
             "serial": serial, "fstype": None, "pttype": None, "mountpoints": [None]}  # fmt: skip
    return plain | more


def plan(*drives: dict[str, object], **declared: object) -> dict[str, object]:
    links = [*(str(one["path"]) for one in drives), "/dev/md127"]
    devices = [f"/dev/disk/by-id/{one['serial']}" for one in drives]
    here = json.dumps({"blockdevices": drives})
    return array_plan({"devices": devices} | declared, here, links, FSTAB)


def test_what_bypasses_the_proxy() -> None:
    found = node_settings(HOST, ["10.0.0.5"])
    assert found["no_proxy"][:3] == ["localhost", "127.0.0.1", "10.0.0.5"]
    assert {"mirror.example", ".example", ".svc", "10.42.0.0/16"} <= set(found["no_proxy"])
    assert found["direct_hosts"] == ["localhost", "127.0.0.1", "10.0.0.5", "mirror.example"]


def test_no_proxy_no_bypass() -> None:
    found = node_settings({"schema_version": 1}, ["10.0.0.5"])
    assert (found["proxy"], found["no_proxy"], found["ca"], found["mirror"]) == (
        "",
        [],
        False,
        False,
    )


def test_a_wrong_declaration_is_one_line() -> None:
    with pytest.raises(UsageError, match="profile.fabric"):
        node_settings({"profile": {"fabric": "token ring"}}, [])


@pytest.mark.parametrize(
    ("lines", "low"), [(["8192"], False), (["128"], True), ([], False), (["max"], False)]
)
def test_too_low(lines: list[str], low: bool) -> None:
    assert too_low(lines, {"fs.inotify.max_user_instances": 8192}) is low


def test_new_drives_make_an_array() -> None:
    found = plan(drive("/dev/nvme1n1", "A"), drive("/dev/nvme2n1", "B"))
    assert found["refusal"] == "" and found["wipe"] == []
    assert found["create"][:4] == ["mdadm", "--create", "/dev/md/fabric", "--run"]
    assert found["create"][-2:] == ["/dev/nvme1n1", "/dev/nvme2n1"]
    assert found["unit"] == "var-lib-fabric.mount"


def test_an_array_that_stands_is_left_alone() -> None:
    child = {"path": "/dev/md127", "type": "raid0", "mountpoints": ["/var/lib/fabric"]}
    found = plan(part("A", children=[child]), wipe_consent=["A"])
    assert found["refusal"] == ""
    assert (found["create"], found["wipe"], found["format"]) == ([], [], [])


def part(serial: str, **more: object) -> dict[str, object]:
    """A drive of the declared array."""
    member = {"fstype": "linux_raid_member", "label": "node1:fabric"}
    return drive(f"/dev/nvme{ord(serial) - 64}n1", serial, **(member | more))


def test_a_run_that_was_cut_off_before_the_filesystem_is_finished() -> None:
    child = {"path": "/dev/md127", "type": "raid0", "fstype": None, "mountpoints": [None]}
    found = plan(part("A", children=[child]), part("B", children=[child]))
    assert (found["refusal"], found["create"]) == ("", [])
    assert found["format"] == ["mkfs.xfs", "/dev/md/fabric"], "not by force"
    full = child | {"fstype": "xfs"}
    assert plan(part("A", children=[full]), part("B", children=[full]))["format"] == []


def test_another_array_of_these_drives_is_not_the_declared_one() -> None:
    for paths in (["/dev/md5", "/dev/md5"], ["/dev/md127", "/dev/md5"]):
        drives = [
            part(serial, children=[{"path": path, "type": "raid0", "mountpoints": [None]}])
            for serial, path in zip("AB", paths, strict=True)
        ]
        found = plan(*drives, wipe_consent=["A", "B"])
        assert "the drives are in" in str(found["refusal"]) and "/dev/md5" in str(found["refusal"])
        assert (found["create"], found["wipe"], found["format"]) == ([], [], [])


def test_a_consent_that_was_used_once_does_not_clear_the_array_it_made() -> None:
    """A drive is lost, or mdadm.conf: the array is down and its parts hold the weights."""
    drives = (part("A"), part("B"), drive("/dev/nvme3n1", "C"))
    found = plan(*drives, wipe_consent=["A", "B", "C"])
    assert "/dev/nvme1n1, /dev/nvme2n1: part of /dev/md/fabric" in str(found["refusal"])
    assert (found["create"], found["wipe"], found["format"]) == ([], [], [])
    other = plan(part("A", label="node1:old"), wipe_consent=["A"])
    assert other["refusal"] == "" and other["wipe"] == ["/dev/nvme1n1"]


def test_a_filesystem_is_forced_only_where_all_drives_were_named() -> None:
    drives = (drive("/dev/nvme1n1", "A", fstype="ext4"), drive("/dev/nvme2n1", "B"))
    assert plan(*drives, wipe_consent=["A"])["format"] == ["mkfs.xfs", "/dev/md/fabric"]
    assert plan(*drives, wipe_consent=["A", "B"])["format"][1] == "-f"


@pytest.mark.parametrize(
    "holds",
    [
        {"fstype": "ext4"},
        {"pttype": "gpt"},
        {"children": [{"path": "/dev/nvme1n1p1", "type": "part", "mountpoints": [None]}]},
        {"fstype": "linux_raid_member", "children": [{"path": "/dev/md5", "type": "raid1"}]},
    ],
)
def test_data_needs_its_own_consent(holds: dict[str, object]) -> None:
    full, empty = drive("/dev/nvme1n1", "A", **holds), drive("/dev/nvme2n1", "B")
    for consent in ([], ["B"]):
        found = plan(full, empty, wipe_consent=consent)
        assert "/dev/nvme1n1 (serial A)" in str(found["refusal"])
        assert found["create"] == [] and found["wipe"] == []
    found = plan(full, empty, wipe_consent=["A"])
    assert found["refusal"] == "" and found["wipe"] == ["/dev/nvme1n1"]


def test_a_mounted_drive_is_never_cleared() -> None:
    found = plan(drive("/dev/nvme0n1", "A", mountpoints=["/"]), wipe_consent=["A"])
    assert "mounted on /" in str(found["refusal"])


def test_drives_that_are_not_there() -> None:
    here = {"blockdevices": [drive("/dev/nvme0n1", "A")]}
    declared = {"devices": ["/dev/disk/by-id/a", "/dev/disk/by-id/b"]}
    found = array_plan(
        declared, json.dumps(here), ["/dev/nvme0n1", "/dev/disk/by-id/b", "/dev/md/x"], FSTAB
    )
    assert found["refusal"] == "no such drive: /dev/disk/by-id/b"
    links = ["/dev/nvme0n1", "/dev/nvme0n1", "/dev/md/x"]
    twice = array_plan(declared, json.dumps(here), links, FSTAB)
    assert "lead to one drive" in str(twice["refusal"])


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("/dev/sdb1 /var/lib/fabric xfs defaults 0 0", True),
        ("LABEL=models  /var/lib/fabric/  xfs", True),
        ("/dev/md/fabric /var/lib/fabric xfs noatime,nofail 0 0", False),
        ("/dev/sdb1 /var/lib/fabric2 xfs defaults 0 0", False),
    ],
)
def test_what_a_site_mounts_there_is_not_replaced(line: str, refused: bool) -> None:
    declared = {"devices": ["/dev/disk/by-id/A"]}
    here = json.dumps({"blockdevices": [drive("/dev/nvme0n1", "A")]})
    found = array_plan(declared, here, ["/dev/nvme0n1", "/dev/md127"], f"{FSTAB}{line}\n")
    assert bool(found["refusal"]) == refused, found
    if refused:
        assert f"/etc/fstab mounts {line.split()[0]} on /var/lib/fabric" in str(found["refusal"])
        assert found["create"] == found["wipe"] == found["format"] == []


@pytest.mark.parametrize(
    ("place", "unit"),
    [
        ("/var/lib/fabric", "var-lib-fabric.mount"),
        ("/", "-.mount"),
        ("/srv/a-b", r"srv-a\x2db.mount"),
    ],
)
def test_mount_unit(place: str, unit: str) -> None:
    assert mount_unit(place) == unit


def test_the_metapackages_that_bring_kernels_are_held_too() -> None:
    """As the gate wants it: an Ubuntu server has linux-generic, which moves all the others."""
    have = [
        "linux-image-6.8.0-40-generic", "linux-modules-extra-6.8.0-40-generic", "linux-generic",
        "linux-headers-generic-hwe-24.04", "linux-libc-dev", "linux-base", "linux-firmware", "vim",
        "linux-modules-nvidia-580-server-open-generic",
    ]  # fmt: skip
    assert kernel_held(have, "6.8.0-40-generic") == [
        "linux-generic", "linux-headers-generic-hwe-24.04", "linux-image-6.8.0-40-generic",
        "linux-modules-extra-6.8.0-40-generic",
    ]  # fmt: skip
