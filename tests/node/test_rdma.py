"""What sysfs says of RDMA devices: read in bounds, and what the parser reads of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fabric_tools.node import rdma
from fabric_tools.node.redact import Redactor
from fabric_tools.node.run import never
from fabric_tools.parsers.ports import ports_of_sysfs
from fabric_tools.parsers.sysfs_infiniband import parse_sysfs_infiniband
from fabric_tools.probes import BY_ID, Probe

MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:000b"
ZERO = ":".join(["0000"] * 8)


def probe(timeout_s: float = 5.0, max_bytes: int = 100_000) -> Probe:
    return BY_ID["infiniband"]._replace(timeout_s=timeout_s, max_bytes=max_bytes)


def write(root: Path, files: dict[str, str]) -> None:
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One ConnectX-7 as the kernel shows it."""
    root = tmp_path / "infiniband"
    write(
        root,
        {
            "mlx5_0/fw_ver": "28.41.1000\n",
            "mlx5_0/hca_type": "MT4129\n",
            "mlx5_0/node_guid": "0200:0000:0000:0001\n",
            "mlx5_0/node_type": "1: CA\n",
            "mlx5_0/device/net/ens1f0np0/mtu": "9000\n",
            "mlx5_0/device/net/ens1f0np0/operstate": "up\n",
            "mlx5_0/device/net/ens1f0np0/speed": "400000\n",
            "mlx5_0/ports/1/state": "4: ACTIVE\n",
            "mlx5_0/ports/1/phys_state": "5: LinkUp\n",
            "mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
            "mlx5_0/ports/1/link_layer": "Ethernet\n",
            "mlx5_0/ports/1/lid": "0x0\n",
            "mlx5_0/ports/1/counters/symbol_error": "0\n",
            "mlx5_0/ports/1/counters/link_downed": "1\n",
            "mlx5_0/ports/1/hw_counters/out_of_sequence": "7\n",
            "mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0000:00ff:fe00:0001\n",
            "mlx5_0/ports/1/gids/1": MAPPED + "\n",
            "mlx5_0/ports/1/gids/2": ZERO + "\n",
            "mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
            "mlx5_0/ports/1/gid_attrs/types/1": "RoCE v2\n",
            "mlx5_0/ports/1/gid_attrs/ndevs/0": "ens1f0np0\n",
            "mlx5_0/ports/1/gid_attrs/ndevs/1": "ens1f0np0\n",
        },
    )
    return root


def test_what_is_printed_is_what_the_parser_reads(root: Path) -> None:
    outcome = rdma.read_infiniband(probe(), never, str(root))
    assert outcome.status == "ok"
    text = outcome.stdout.decode()
    assert str(root) not in text
    found = parse_sysfs_infiniband(text)
    assert [device.name for device in found.devices] == ["mlx5_0"]
    assert found.devices[0].ports[0].counters == {
        "symbol_error": 0,
        "link_downed": 1,
        "out_of_sequence": 7,
    }
    (port,) = ports_of_sysfs(text).ports
    assert (port.active, port.rate_gbits_s, port.link_layer) == (True, 400.0, "Ethernet")
    assert port.netdev == "ens1f0np0"
    assert [(gid.index, gid.version, gid.ipv4) for gid in port.gids or ()] == [
        (0, "v1", None),
        (1, "v2", "10.0.0.11"),
    ]


def test_a_port_without_any_gid_is_told_apart_from_a_text_without_gids(root: Path) -> None:
    for name in ("0", "1"):
        (root / "mlx5_0/ports/1/gids" / name).write_text(ZERO + "\n")
    text = rdma.read_infiniband(probe(), never, str(root)).stdout.decode()
    (port,) = ports_of_sysfs(text).ports
    assert port.gids == ()


def test_no_device_is_absent(tmp_path: Path) -> None:
    assert rdma.read_infiniband(probe(), never, str(tmp_path)).status == "absent"
    assert rdma.read_infiniband(probe(), never, str(tmp_path / "no")).status == "absent"


def test_a_file_that_cannot_be_read_is_left_out(root: Path) -> None:
    (root / "mlx5_0/board_id").mkdir()
    outcome = rdma.read_infiniband(probe(), never, str(root))
    assert outcome.status == "ok" and b"board_id" not in outcome.stdout


def test_a_read_that_hangs_costs_its_time_and_no_more(root: Path) -> None:
    rate = root / "mlx5_0/ports/1/rate"
    rate.unlink()
    os.mkfifo(rate)  # a read of it waits for ever, as one from dead firmware does
    began = time.monotonic()
    outcome = rdma.read_infiniband(probe(timeout_s=0.5), never, str(root))
    assert time.monotonic() - began < 1.5
    assert outcome.status == "timeout" and "mlx5_0" in outcome.note
    assert b"mlx5_0/fw_ver" in outcome.stdout


def test_an_endless_file_is_cut(root: Path) -> None:
    for place in ("fw_ver", "ports/1/rate"):
        (root / "mlx5_0" / place).unlink()
        (root / "mlx5_0" / place).symlink_to("/dev/zero")
    began = time.monotonic()
    outcome = rdma.read_infiniband(probe(), never, str(root))
    assert time.monotonic() - began < 2.0
    assert len(outcome.stdout) < 20_000


def test_more_than_the_bound_is_cut(root: Path) -> None:
    outcome = rdma.read_infiniband(probe(max_bytes=300), never, str(root))
    assert outcome.status == "cut" and len(outcome.stdout) <= 300


def test_stopped_in_the_middle(root: Path) -> None:
    rate = root / "mlx5_0/ports/1/rate"
    rate.unlink()
    os.mkfifo(rate)
    outcome = rdma.read_infiniband(probe(), lambda: True, str(root))
    assert outcome.status == "error"


def test_a_name_that_is_no_name_is_not_asked(root: Path) -> None:
    write(root, {"-x;rm/fw_ver": "1", "mlx5_0/ports/1/counters/a b": "1"})
    text = rdma.read_infiniband(probe(), never, str(root)).stdout
    assert b"rm/" not in text and b"a b" not in text


def test_many_gids_need_more_than_one_command(root: Path) -> None:
    for index in range(3, 1500):
        write(root, {f"mlx5_0/ports/1/gids/{index}": ZERO + "\n"})
    write(root, {"mlx5_0/ports/1/gids/1400": MAPPED + "\n"})
    text = rdma.read_infiniband(probe(), never, str(root)).stdout.decode()
    assert "gids/1400: " + MAPPED in text and ZERO not in text


def test_interfaces_of_all_devices_are_asked_once(root: Path) -> None:
    write(root, {"mlx5_1/device/net/ens1f0np0/mtu": "9000", "mlx5_1/device/net/ens2/mtu": "1"})
    asked = BY_ID["mlnx_qos"]._replace(argv=("echo", "of", "{}"))
    outcome = rdma.ask_interfaces(asked, never, str(root))
    assert outcome.stdout == b"==> ens1f0np0 <==\nof ens1f0np0\n==> ens2 <==\nof ens2\n"


def test_a_redacted_text_keeps_the_kind_of_each_gid(root: Path) -> None:
    text = rdma.read_infiniband(probe(), never, str(root)).stdout.decode()
    redacted = Redactor([], set()).text(text)
    assert MAPPED not in redacted and "0a00:000b" not in redacted
    (port,) = ports_of_sysfs(redacted).ports
    gids = [(gid.version, gid.ipv4, gid.gid[:4]) for gid in port.gids or ()]
    assert gids == [("v1", None, "fe80"), ("v2", "192.0.2.1", "0000")]
