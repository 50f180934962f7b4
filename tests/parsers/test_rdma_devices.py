"""ibv_devinfo, ibstat, ibdev2netdev, GIDs, sysfs, rdma, ib_write_bw: samples against labels."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.models.rdma import GidTable, RdmaLinks
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.gids import parse_gids
from fabric_tools.parsers.ib_write_bw import parse_ib_write_bw
from fabric_tools.parsers.ibdev2netdev import parse_ibdev2netdev
from fabric_tools.parsers.ibstat import parse_ibstat
from fabric_tools.parsers.ibv_devinfo import parse_ibv_devinfo
from fabric_tools.parsers.rdma import parse_rdma, parse_rdma_dev, parse_rdma_link
from fabric_tools.parsers.sysfs_infiniband import parse_sysfs_infiniband


def _by(*kinds: str) -> Any:
    return pytest.mark.parametrize("sample", of_kind(*kinds), ids=lambda s: s.file)


@_by("ib_write_bw")
def test_ib_write_bw(sample: Sample) -> None:
    label, (test,) = sample.label, parse_ib_write_bw(sample.text).tests
    assert len(test.rows) == label["rows"]
    assert bool(test.errors) is label.get("failed", False)
    assert test.complete is not label.get("failed", False)
    best = max(test.rows, key=lambda row: row.average)
    if "max_avg_gbps" in label:
        assert best.average_gbits_s == label["max_avg_gbps"]
    if "avg_gbps" in label:
        assert test.rows[-1].average_gbits_s == label["avg_gbps"]
    if "peak_gbps" in label:
        assert test.rows[-1].peak == label["peak_gbps"]
    if "unit" in label:
        assert test.unit == label["unit"]
    if "max_avg" in label:
        assert (best.average, best.size_bytes) == (label["max_avg"], label["max_avg_size"])
        assert test.rows[-1].average == label["last_avg"]
        assert round(test.rows[-1].average_gbits_s or 0) == label["last_avg_gbps"]
    lines = sample.text.split("\n")
    assert all(str(row.size_bytes) in lines[row.line - 1] for row in test.rows)


def test_ib_write_bw_details() -> None:
    (test,) = parse_ib_write_bw(text_of("bw02")).tests
    assert (test.devices, test.qps, test.mtu_bytes) == (("mlx5_5",), 4, 4096)
    assert (test.link_type, test.gid_index, test.connection) == ("Ethernet", 3, "RC")
    failed = parse_ib_write_bw(text_of("bw01")).tests[0].errors
    assert "Completion with error" in failed[0].text
    good = text_of("bw02")
    assert len(parse_ib_write_bw(good + good.replace("mlx5_5", "mlx5_6")).tests) == 2
    (given_up,) = parse_ib_write_bw("$ ib_write_bw x\nCouldn't connect to x:18515\n").tests
    assert (len(given_up.errors), given_up.complete) == (1, False)
    cut = good[: good.rindex("-" * 20) - 90]
    assert not parse_ib_write_bw(cut).tests[0].complete


@_by("ibv_devinfo")
def test_ibv_devinfo(sample: Sample) -> None:
    label, fact = sample.label, parse_ibv_devinfo(sample.text)
    ports = [port for device in fact.devices for port in device.ports]
    assert fact.complete
    assert len(fact.devices) == label["hcas"]
    assert [port.state for port in ports] == label.get("states", [label.get("state")])
    mtu = label["active_mtu"]
    wanted = list(map(int, mtu)) if isinstance(mtu, list) else [mtu]
    assert [port.active_mtu_bytes for port in ports] == wanted
    assert {port.max_mtu_bytes for port in ports} == {label.get("max_mtu", 4096)}
    assert {port.link_layer for port in ports} == {label.get("link_layer", "Ethernet")}


def test_ibv_devinfo_details() -> None:
    device = parse_ibv_devinfo(text_of("ibv01")).devices[0]
    assert (device.board_id, device.firmware) == ("MT_0000000834", "28.43.2566")
    assert device.vendor_part_id == 4129
    verbose = parse_ibv_devinfo(text_of("ibv_devinfo-v")).devices[0].ports[0]
    assert (verbose.width, verbose.speed) == ("1X", "2.5 Gbps")
    assert verbose.physical_state == "LINK_UP"
    assert parse_ibv_devinfo("No IB devices found\n").devices == ()
    down = parse_ibv_devinfo(text_of("ibv01").replace("4096 (5)", "invalid MTU (0)"))
    assert down.devices[0].ports[0].active_mtu_bytes is None
    assert not parse_ibv_devinfo(text_of("ibv01") + "...\n").complete
    cut = parse_ibv_devinfo(text_of("ibv03").rsplit("\thca_id", 1)[0][:-60])
    assert not cut.complete


@_by("ibstat", "ibstatus")
def test_ibstat(sample: Sample) -> None:
    label, fact = sample.label, parse_ibstat(sample.text)
    ports = [port for device in fact.devices for port in device.ports]
    assert len(fact.devices) == label["cas"]
    assert fact.complete is (label["active"] is not None)
    if label["active"] is not None:
        up = [port for port in ports if (port.state or "").lower() == "active"]
        assert len(up) == label["active"]
    if "ports" in label:
        assert len(ports) == label["ports"]
    if "link_layer" in label:
        assert {port.link_layer for port in ports} == {label["link_layer"]}
    if "rate" in label:
        assert [port.rate_gbits_s for port in ports] == [label["rate"]]
    if "nvlink_management" in label:
        managed = [d.name for d in fact.devices if d.type == "MT4129"]
        assert managed == label["nvlink_management"]
        down = {d.name for d in fact.devices if d.ports[0].state == "Down"}
        assert down == set(label["network_ports_down"])


@_by("ibdev2netdev")
def test_ibdev2netdev(sample: Sample) -> None:
    label, found = sample.label, parse_ibdev2netdev(sample.text).mappings
    assert len({mapping.device for mapping in found}) == label["devices"]
    assert len([mapping for mapping in found if mapping.up]) == label["up"]


def test_ibdev2netdev_verbose() -> None:
    text = (
        "0000:18:00.0 mlx5_0 (MT4129 - MCX75310AAS-NEAT) NVIDIA ConnectX-7 HHHL (400Gb/s)"
        " fw 28.39.1002 port 1 (ACTIVE) ==> ibs1 (Up)\n"
        "0000:9a:00.0 mlx5_bond_0 (MT4125 - MCX623106AN-CDAT) ConnectX-6 Dx"
        " fw 22.39.1002 port 1 (DOWN  ) ==> bond0 (Down)\n"
    )
    first, second = parse_ibdev2netdev(text).mappings
    assert (first.bus_id, first.device, first.netdev, first.up) == (
        "0000:18:00.0", "mlx5_0", "ibs1", True,
    )  # fmt: skip
    assert (second.device, second.up) == ("mlx5_bond_0", False)


def _index(fact: GidTable) -> int | None:
    found = [gid.index for gid in fact.gids if gid.version == "v2" and gid.ipv4]
    return found[0] if found else None


@_by("show_gids", "gids")
def test_gids(sample: Sample) -> None:
    label, fact = sample.label, parse_gids(sample.text)
    assert fact.complete
    assert len(fact.gids) == label["count"]
    assert _index(fact) == label["rocev2_ipv4_index"]
    lines = sample.text.split("\n")
    assert all(gid.gid in lines[gid.line - 1] for gid in fact.gids)


def test_gids_of_sysfs() -> None:
    (sample,) = [s for s in of_kind("sysfs_ib") if "gids" in s.label]
    for fact in (parse_gids(sample.text), parse_sysfs_infiniband(sample.text)):
        assert {
            str(gid.index): {
                "gid": gid.gid,
                "type": {"v1": "IB/RoCE v1", "v2": "RoCE v2"}[gid.version or ""],
                "ndev": gid.ndev,
            }
            for gid in fact.gids
        } == sample.label["gids"]
    table = parse_gids(sample.text)
    assert [str(index) for index in table.empty] == sample.label["empty"]
    assert _index(table) == sample.label["ipv4_rocev2_index"]
    assert {gid.ipv4 for gid in table.gids} == {None, "192.0.2.1"}
    untyped = "\n".join(x for x in sample.text.split("\n") if "types/3" not in x)
    assert not parse_gids(untyped).complete


def test_gid_details() -> None:
    last = parse_gids(text_of("gid03")).gids[-1]
    assert (last.device, last.ipv4, last.version, last.ndev) == ("mlx5_1", None, "v1", None)
    assert not parse_gids(text_of("gid01").replace("found=4", "found=5")).complete


def test_sysfs() -> None:
    (sample,) = [s for s in of_kind("sysfs_ib") if "devices" in s.label]
    label, devices = sample.label, parse_sysfs_infiniband(sample.text).devices
    assert {
        device.name: {
            "fw_ver": device.firmware,
            "hca_type": device.type,
            "link_layer": device.ports[0].link_layer,
            "rate": f"{device.ports[0].rate_gbits_s:g} Gb/sec ({device.ports[0].width})",
            "state": f"4: {device.ports[0].state}",
        }
        for device in devices
    } == label["devices"]
    assert {
        device.name: downed
        for device in devices
        if (downed := device.ports[0].counters["link_downed"])
    } == label["link_downed"]


@_by("rdma")
def test_rdma_link(sample: Sample) -> None:
    fact = parse_rdma(sample.text)
    assert isinstance(fact, RdmaLinks)
    assert {
        link.device: {"state": link.state, "phys": link.physical_state, "netdev": link.netdev}
        for link in fact.links
    } == sample.label["devices"]


def test_rdma_text() -> None:
    text = (
        "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0 \n"
        "1/1: mlx5_1/1: subnet_prefix fe80:0000:0000:0000 lid 1 state DOWN physical_state POLLING\n"
    )
    first, second = parse_rdma_link(text).links
    assert (first.device, first.netdev) == ("mlx5_0", "ens1f0np0")
    assert (second.device, second.state, second.netdev) == ("mlx5_1", "DOWN", None)
    (device,) = parse_rdma_dev("0: mlx5_0: node_type ca fw 28.39.3560 node_guid 0:0:0:1\n").devices
    assert (device.node_type, device.firmware) == ("ca", "28.39.3560")
    (real,) = parse_rdma_dev(text_of("rdma-dev")).devices
    assert (real.device, real.node_type, real.firmware) == ("rxe0", "ca", None)
    assert parse_rdma_link("[]").links == ()


BW, IBV, IBSTAT = text_of("bw02"), text_of("ibv01"), text_of("ib03")
GIDS = text_of("gid01")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_ib_write_bw, ""),
        (parse_ib_write_bw, "bash: ib_write_bw: command not found\n"),
        (parse_ib_write_bw, BW.replace("98.01              98.01", "98.01")),
        (parse_ib_write_bw, BW.replace("BW average[Gb/sec]", "BW average[MB/sec]")),
        (parse_ib_write_bw, " #bytes #iterations    t_min[usec]    t_max[usec]\n"),
        (parse_ib_write_bw, text_of("bw.json").replace("0.19", "19.0")),
        (parse_ib_write_bw, text_of("bw.json").replace("MsgRate: 0.000371,\n},", "")),
        (parse_ibv_devinfo, "Failed to get IB devices list: Function not implemented\n"),
        (parse_ibv_devinfo, IBV + IBV),
        (parse_ibv_devinfo, IBV.replace("active_mtu:             4096", "active_mtu:  none")),
        (parse_ibv_devinfo, IBV.replace("4096 (5)", "4097 (5)")),
        (parse_ibstat, "ibpanic: stat of IB device failed\n"),
        (parse_ibstat, IBSTAT + IBSTAT),
        (parse_ibstat, IBSTAT.replace("Rate: 40", "Rate: fast")),
        (parse_ibdev2netdev, ""),
        (parse_ibdev2netdev, "mlx5_0 port 1 ==> eth0 (Maybe)\n"),
        (parse_ibdev2netdev, "mlx5_0 port 1 ==> eth0 (Up)\nmlx5_0 port 1 ==> eth1 (Up)\n"),
        (parse_gids, "bash: show_gids: command not found\n"),
        (parse_gids, GIDS + GIDS),
        (parse_gids, GIDS.replace("v2\trdma0", "v3\trdma0 extra")),
        (parse_gids, "4 0000:0000:0000:0000:0000:ffff:0a09:0001 what\n"),
        (parse_rdma_link, '[{"ifname":"mlx5_0","port":1}]'),
        (parse_rdma_link, '[{"ifname":"mlx5_0","port":1,"port":2,"state":"DOWN"}]'),
        (parse_rdma_link, "[" * 100000),
        (parse_rdma_dev, '{"ifname":"mlx5_0"}'),
        (parse_sysfs_infiniband, ""),
        (parse_sysfs_infiniband, "eth0/address: 1\n"),
        (parse_sysfs_infiniband, "mlx5_0/ports/1/rate: fast\n"),
    ],
)
def test_refused(parse: Any, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
