"""What network tools print on other nodes than the recorded ones: versions, states, hardware.

Each text has the form of the tool's source; the values are made up.
"""

from __future__ import annotations

import pytest
from written import LLDP_TEXT

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcb import parse_dcb
from fabric_tools.parsers.ethtool import parse_ethtool, parse_ethtool_driver
from fabric_tools.parsers.gids import parse_gids
from fabric_tools.parsers.ib_write_bw import parse_ib_write_bw
from fabric_tools.parsers.ibdev2netdev import parse_ibdev2netdev
from fabric_tools.parsers.ibstat import parse_ibstat
from fabric_tools.parsers.ibv_devinfo import parse_ibv_devinfo
from fabric_tools.parsers.ip_link import parse_ip_link
from fabric_tools.parsers.lldp import parse_lldp
from fabric_tools.parsers.mlnx_qos import parse_mlnx_qos
from fabric_tools.parsers.rdma import parse_rdma_dev, parse_rdma_link
from fabric_tools.parsers.sysfs_infiniband import parse_sysfs_infiniband

PORT = (
    "Port 1:\nState: ???\nPhysical state: Polling\nRate: 40 (FDR10)\nBase lid: 65535\nLMC: 0\n"
    "SM lid: 0\nCapability mask: 0x2651e848\nPort GUID: 0x1\nLink layer: InfiniBand\n"
)


def test_ibstat_of_one_port() -> None:
    fact = parse_ibstat("CA: 'mlx5_0'\n" + PORT)
    (port,) = fact.devices[0].ports
    assert (port.rate_gbits_s, port.state, port.lid) == (40.0, "???", 65535)
    assert not fact.complete  # how many ports there are is not told
    with pytest.raises(ParseError):
        parse_ibstat("CA: 'mlx5_0'\n" + PORT.replace("lid: 65535", "lid: 0xffff"))


def test_ibstatus_of_xdr() -> None:
    text = (
        "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80::\n\tbase lid:\t 0x12\n"
        "\tstate:\t\t 2: INIT\n\tphys state:\t 7: Phy Test\n\trate:\t\t 800 Gb/sec (4X XDR)\n"
        "\tlink_layer:\t InfiniBand\n"
    )
    (port,) = parse_ibstat(text).devices[0].ports
    assert (port.state, port.physical_state) == ("INIT", "Phy Test")
    assert (port.rate_gbits_s, port.width) == (800.0, "4X XDR")


def test_ibv_devinfo_behind_a_warning() -> None:
    text = (
        "libibverbs: Warning: couldn't load driver 'libx.so'\nhca_id:\trdmap0s6\n"
        "\ttransport:\t\t\tunspecified (4)\n\tfw_ver:\t\t\t\t0.0.0.0\n\tphys_port_cnt:\t\t\t1\n"
        "\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        "\t\t\tactive_mtu:\t\t1024 (3)\n\t\t\tport_lid:\t\t0\n\t\t\tlink_layer:\t\tUnspecified\n"
    )
    fact = parse_ibv_devinfo(text)
    assert fact.complete
    assert fact.devices[0].ports[0].active_mtu_bytes == 1024


def test_ibdev2netdev_without_interface_and_with_a_trade_mark() -> None:
    text = (
        "mlx5_4 port 1 ==>  (Down)\n0000:5e:00.0 mlx5_0 (MT4123 - MCX653105A-HDAT) ConnectX\u00ae-6"
        " VPI, HDR (200Gb/s), QSFP56            fw 20.28.2006 port 1 (ACTIVE) ==> ib0 (Up)\n"
        "0000:5e:00.1 mlx5_1 (MT4118 - NA)  fw 16.35.4506 port 1 (DOWN  ) ==> bond0 (Down)\n"
    )
    found = parse_ibdev2netdev(text).mappings
    assert [(m.device, m.netdev, m.up) for m in found] == [
        ("mlx5_4", None, False), ("mlx5_0", "ib0", True), ("mlx5_1", "bond0", False),
    ]  # fmt: skip


SYS = "/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0/infiniband/mlx5_0/ports/1"
GID = "fe80:0000:0000:0000:ba3f:d2ff:fee9:ef84"


def test_sysfs_under_devices() -> None:
    text = (
        f"{SYS}/gids/0:{GID}\n{SYS}/gid_attrs/types/0:RoCE v2\n"
        f"grep: {SYS}/gid_attrs/types/9: Invalid argument\n"
    )
    fact = parse_gids(text)
    assert (fact.gids[0].device, fact.gids[0].version, fact.complete) == ("mlx5_0", "v2", True)
    with pytest.raises(ParseError):
        parse_gids(text + "something else\n")


def test_sysfs_counters_alone() -> None:
    text = f"{SYS}/hw_counters/out_of_sequence:12\n{SYS}/counters/symbol_error:0\n"
    (port,) = parse_sysfs_infiniband(text).devices[0].ports
    assert port.counters == {"out_of_sequence": 12, "symbol_error": 0}


def test_rdma_details_and_infiniband() -> None:
    text = (
        "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13399 sm_lid 49151 lmc 0 state ACTIVE"
        " physical_state LINK_UP \n    caps: <CM, AUTO_MIG>\n"
        "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1np1 netdev_index 5 \n"
    )
    first, second = parse_rdma_link(text).links
    assert (first.netdev, first.state, second.netdev) == (None, "ACTIVE", "ens1f1np1")
    (device,) = parse_rdma_dev(
        "0: mlx5_0: node_type ca fw 28.39.3560 node_guid 0:0:0:1 adaptive-moderation on \n"
    ).devices
    assert device.firmware == "28.39.3560"


PFC = (
    "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    "\tenabled     0   0   0   1   0   0   0   0   \n"
)


def test_mlnx_qos_of_mlx4() -> None:
    classes = "tc: 0 ratelimit: unlimited, tsa: strict\n" + "".join(
        f"\t up:  {n}\n\t\t skprio: {n}\n\t\t skprio: {n} (vlan 100 tos: 8)\n" for n in range(8)
    )
    fact = parse_mlnx_qos(PFC + classes)
    assert (fact.trust, fact.pfc_enabled, fact.complete) == (None, (3,), False)
    assert fact.traffic_classes[0].priorities == tuple(range(8))


def test_mlnx_qos_says_what_it_cannot_read() -> None:
    text = (
        "DCBX mode: OS controlled\nPriority trust state is not supported on your system\n"
        "Buffers commands are not supported on your system\n" + PFC
    )
    assert parse_mlnx_qos(text).trust is None
    with pytest.raises(ParseError):
        parse_mlnx_qos(
            "Priority trust state is not supported on your system\n"
            "ETS features are not supported on your system\n"
        )


def test_dcb_of_iproute2() -> None:
    buffers = parse_dcb(
        "prio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 \nbuffer-size 0:20016b 1:156096b \n"
        "total-size 262016b \n"
    )
    assert (buffers.prio_buffer or {})[3] == 1
    assert parse_dcb('{"prio_buffer":[0,0,0,1],"total_size":262016}').prio_buffer == {
        0: 0, 1: 0, 2: 0, 3: 1,
    }  # fmt: skip
    assert parse_dcb("default-prio 0 3 \ndscp-prio 26:3 48:6 \n").dscp_prio == {26: 3, 48: 6}
    assert parse_dcb('{"default_prio":[0],"dscp_prio":[["AF31",3]]}').dscp_prio == {26: 3}
    both = "host ieee \npfc-cap 8 macsec-bypass off delay 0 \nprio-pfc " + " ".join(
        f"{n}:{'on' if n == 3 else 'off'}" for n in range(8)
    )
    assert parse_dcb(both + "\n").pfc_enabled == (3,)
    with pytest.raises(ParseError):
        parse_dcb("tc-maxrate 0:100Gbit 1:100Gbit \n")


DOWN = """Settings for ens1f0np0:
\tSupported ports: [ FIBRE ]
\tSupported link modes:   10000baseT/Full
\t                        400000baseSR4_ER4_FR4/Full
\t                        800000baseDR8_2/Full
\tSupported FEC modes: None\t RS\t BASER
\tAdvertised FEC modes: Not reported
\tSpeed: Unknown!
\tDuplex: Unknown! (255)
\tAuto-negotiation: on
\tPort: Other
netlink error: Operation not permitted
        Current message level: 0x00000004 (4)
                               link
\tLink detected: no (No cable)
Settings for wg0:
No data available
"""


def test_ethtool_of_ports_down() -> None:
    down, none = parse_ethtool(DOWN).links
    assert (down.link_detected, down.speed_mbits_s, down.duplex) == (False, None, None)
    assert (down.max_supported_mbits_s, down.complete) == (800000, True)
    assert (none.interface, none.complete) == ("wg0", False)


@pytest.mark.parametrize(
    ("driver", "version", "origin"),
    [
        ("mlx5_core", "24.10-1.1.4", "ofed"),
        ("mlx5_core[ib_ipoib]", "5.8-2.0.3", "ofed"),
        ("mlx5_core", "5.14.0-427.el9.x86_64", "inbox"),
        ("mlx5_core", "6.8.0-1020-nvidia-64k", "inbox"),
        ("mlx5_core", "5.0-0", "inbox"),
        ("mlx5_core", "3.0-1 (January 2015)", "inbox"),
        ("bnxt_en", "6.8.0-71-generic", None),
    ],
)
def test_ethtool_driver_origin(driver: str, version: str, origin: str | None) -> None:
    text = f"driver: {driver}\nversion: {version}\nfirmware-version: 28.43.1014 (MT_0000000838)\n"
    assert parse_ethtool_driver(text).drivers[0].origin == origin


def test_ip_link_elsewhere() -> None:
    (link,) = parse_ip_link(
        '[{"ifindex":2,"link_index":44,"ifname":"eth0","flags":["UP","LOWER_UP"],"mtu":1460}]'
    ).links
    assert link.link == "if44"
    text = (
        "7: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP mode DEFAULT\n"
        "    link/infiniband 00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:e9:ef:84 brd 00\n"
        "    RX:  bytes packets errors dropped  missed   mcast           \n"
        "        12345     100      3       7       0       0 \n"
    )
    (port,) = parse_ip_link(text).links
    assert (port.link_type, port.errors and port.errors.rx_errors) == ("infiniband", 3)


BOND = (
    "11: bond1: <BROADCAST,MULTICAST,MASTER,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP\n"
    "    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff promiscuity 0 \n"
    "    bond mode 802.3ad miimon 100 lacp_rate slow ad_select stable ad_num_ports 2 \n"
)


def test_ip_link_cut_in_the_line_of_a_bond() -> None:
    assert parse_ip_link(BOND).complete
    assert not parse_ip_link(BOND.replace(" ad_select stable ad_num_ports 2", "")).complete
    assert not parse_ip_link(BOND.replace("ad_num_ports 2", "ad_num_ports")).complete


def test_lldp_text() -> None:
    fact = parse_lldp(LLDP_TEXT)
    (found,) = fact.neighbours
    assert (fact.format, fact.complete, found.line) == ("text", True, 4)
    assert (found.system_name, found.port_id, found.port_id_type) == (
        "leaf-1", "Ethernet4", "local",
    )  # fmt: skip
    assert found.system_descr == "Debian GNU/Linux 11 (bullseye) Linux 5.10 SONiC"
    assert found.management_addresses == ("10.0.0.1", "fe80::1")
    assert found.capabilities == ("Bridge",)
    assert not parse_lldp(LLDP_TEXT[:-80]).complete
    for text in (LLDP_TEXT.replace("PortID", "Port X"), LLDP_TEXT + "else\n", "hello\n"):
        with pytest.raises(ParseError):
            parse_lldp(text)


def test_rule_before_the_mappings() -> None:
    text = "$ ibdev2netdev\n------------------\nroceP2p1s0f1 port 1 ==> enP2p1s0f1np1 (Up)\n"
    assert parse_ibdev2netdev(text).mappings[0].device == "roceP2p1s0f1"


@pytest.mark.parametrize(
    "text",
    [
        "Port number 1 state is Down\n Couldn't set the link layer\n",
        " IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n",
        "Failed to modify QP 1 to RTR\n",
    ],
)
def test_ib_write_bw_gives_up_before_its_banner(text: str) -> None:
    (test,) = parse_ib_write_bw(text).tests
    assert (test.errors[0].line, test.complete) == (1, False)
