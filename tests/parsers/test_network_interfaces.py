"""ip link, ethtool, lldp, mlnx_qos, dcb: samples against labels, further forms, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.models.network import IpLink
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcb import parse_dcb
from fabric_tools.parsers.ethtool import parse_ethtool, parse_ethtool_any, parse_ethtool_driver
from fabric_tools.parsers.ip_link import parse_ip_link
from fabric_tools.parsers.lldp import parse_lldp
from fabric_tools.parsers.mlnx_qos import parse_mlnx_qos


def _by(*kinds: str) -> Any:
    return pytest.mark.parametrize("sample", of_kind(*kinds), ids=lambda s: s.file)


def _as_label(link: IpLink) -> dict[str, Any]:
    errors = link.errors.model_dump() if link.errors else {}
    return {
        "state": link.state,
        "carrier": link.carrier,
        "mtu": link.mtu_bytes,
        "master": link.master,
        "parentdev": link.parentdev,
        "altname": link.altnames[0] if link.altnames else None,
        "vfs": link.vfs,
        "mode": link.bond.mode if link.bond else None,
        "miimon": link.bond.miimon_ms if link.bond else None,
        "mii_status": link.bond_slave.mii_status if link.bond_slave else None,
        "ad_partner_oper_port_state": link.bond_slave
        and link.bond_slave.ad_partner_oper_port_state,
        **errors,
    }


@_by("ip_link")
def test_ip_link(sample: Sample) -> None:
    links = parse_ip_link(sample.text).links
    assert {link.name for link in links} == set(sample.label["interfaces"])
    for link in links:
        seen, wanted = _as_label(link), sample.label["interfaces"][link.name]
        assert {key: seen[key] for key in wanted} == wanted
        assert link.name in sample.text.split("\n")[link.line - 1]
    assert parse_ip_link(text_of("ipl05")).complete is False
    assert parse_ip_link(text_of("ipl01")).complete is True


@_by("mtu")
def test_mtu(sample: Sample) -> None:
    label, links = sample.label, parse_ip_link(sample.text).links
    if "mtu" in label:
        (link,) = links
        assert (link.mtu_bytes, link.state) == (label["mtu"], label["state"])
        assert link.vfs == label.get("vfs", 0)
    else:
        assert [(link.name, link.link) for link in links] == [("lo", None), ("eth0", "if44")]
    assert parse_ip_link(text_of("mtu01")).links[0].addresses == ("10.0.0.11/16",)


def test_ip_link_json() -> None:
    data = [
        {
            "ifindex": 2, "ifname": "ens1np0", "flags": ["BROADCAST", "SLAVE", "UP", "LOWER_UP"],
            "mtu": 9000, "qdisc": "mq", "master": "bond0", "operstate": "UP",
            "link_type": "ether", "address": "02:00:00:00:00:01", "min_mtu": 68, "max_mtu": 9978,
            "linkinfo": {
                "info_slave_kind": "bond",
                "info_slave_data": {"state": "ACTIVE", "mii_status": "UP",
                                    "ad_partner_oper_port_state": 63},
            },
            "parentbus": "pci", "parentdev": "0000:18:00.0", "vfinfo_list": [{}, {}],
            "altnames": ["enp24s0np0"], "stats64": {"rx": {"errors": 3}, "tx": {"errors": 0}},
        },
        {
            "ifindex": 3, "ifname": "bond0", "flags": ["NO-CARRIER", "MASTER", "UP"], "mtu": 1500,
            "operstate": "DOWN",
            "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad", "miimon": 100}},
        },
    ]  # fmt: skip
    text = json.dumps(data, indent=1)
    port, bond = parse_ip_link(text).links
    assert (port.carrier, port.master, port.vfs, port.parentdev) == (
        True, "bond0", 2, "0000:18:00.0",
    )  # fmt: skip
    assert port.bond_slave
    assert port.bond_slave.ad_partner_oper_port_state == 63
    assert port.errors
    assert (port.errors.rx_errors, port.errors.rx_length_errors) == (3, None)
    assert (bond.carrier, bond.kind) == (False, "bond")
    assert '"ifname": "bond0"' in text.split("\n")[bond.line - 1]
    assert bond.bond
    assert bond.bond.miimon_ms == 100


@_by("ethtool")
def test_ethtool(sample: Sample) -> None:
    label = sample.label
    if "iface" in label:
        (link,) = parse_ethtool(sample.text).links
        assert link.interface == label["iface"]
        assert link.speed_mbits_s == label["speed_mbps"]
        assert link.max_supported_mbits_s == label["max_supported_mbps"]
        assert list(link.fec_supported) == label["fec"]
        for name in ("lanes", "duplex", "autoneg_supported", "link_detected", "complete"):
            assert getattr(link, name) == label[name]
    else:
        (driver,) = parse_ethtool_driver(sample.text).drivers
        for name in ("driver", "version", "origin", "firmware", "psid"):
            assert getattr(driver, name) == label[name]
        assert driver.bus_id == label["bus"]
    assert parse_ethtool_any(sample.text)


def test_ethtool_down() -> None:
    text = (
        "Settings for eth0:\n\tSupported link modes:   Not reported\n\tSpeed: Unknown!\n"
        "\tDuplex: Unknown! (255)\n\tAuto-negotiation: off\n\tPort: Other\n"
        "        Current message level: 0x00000004 (4)\n\t\t\t       link\n"
        "\tLink detected: no (No cable)\n"
    )
    (link,) = parse_ethtool(text).links
    assert (link.speed_mbits_s, link.duplex, link.autoneg) == (None, None, False)
    assert (link.link_detected, link.complete, link.supported_modes) == (False, True, ())
    (kept,) = parse_ethtool("$ ethtool eth0 | grep -i speed\n\tSpeed: 400000Mb/s\n").links
    assert (kept.interface, kept.speed_mbits_s, kept.complete) == (None, 400000, False)


@_by("lldp")
def test_lldp(sample: Sample) -> None:
    fact = parse_lldp(sample.text)
    assert fact.format == sample.label["format"]
    assert [
        {
            "iface": one.interface,
            "switch": one.system_name,
            "port": one.port_id,
            "port_id_type": one.port_id_type,
        }
        for one in fact.neighbours
    ] == sample.label["neighbours"]
    lines = sample.text.split("\n")
    assert all(f'"{one.interface}"' in lines[one.line - 1] for one in fact.neighbours)


def test_lldp_forms() -> None:
    first, second, _ = parse_lldp(text_of("lldp01")).neighbours
    assert "Bridge" in first.capabilities
    assert second.management_addresses[0] == "192.0.2.1"
    assert parse_lldp('{"lldp": {}}').neighbours == ()
    assert parse_lldp('{"lldp": [{}]}').neighbours == ()
    port = {"id": {"type": "ifname", "value": "swp1"}, "descr": "to node"}
    nameless = {"id": {"type": "mac", "value": "02:00:00:00:00:09"}, "mgmt-ip": ["1.2.3.4", "::1"]}
    data = {"lldp": {"interface": [
        {"eth0": {"via": "LLDP", "chassis": {"leaf1": nameless}, "port": port}},
        {"eth1": {"via": "LLDP", "chassis": nameless, "port": port}},
    ]}}  # fmt: skip
    named, bare = parse_lldp(json.dumps(data)).neighbours
    assert (named.interface, named.system_name) == ("eth0", "leaf1")
    assert (bare.interface, bare.system_name) == ("eth1", None)
    assert bare.management_addresses == ("1.2.3.4", "::1")


@_by("mlnx_qos")
def test_mlnx_qos(sample: Sample) -> None:
    label, qos = sample.label, parse_mlnx_qos(sample.text)
    assert qos.trust == label["trust"]
    wanted = label["pfc_enabled"]
    assert qos.pfc_enabled == (None if wanted is None else tuple(wanted))
    if "complete" in label:
        assert qos.complete is label["complete"]
    if "dcbx" in label:
        assert qos.dcbx_mode == label["dcbx"]
        assert [int(on) for on in qos.pfc or ()] == label["pfc"]
        assert list(qos.buffers_bytes or ()) == label["buffers"]
        assert qos.cable_len_m == label["cable_len"]
        shares = {str(c.tc): c.bw_percent for c in qos.traffic_classes if c.bw_percent is not None}
        assert shares == label["tc_bw"]


def test_mlnx_qos_details() -> None:
    good = parse_mlnx_qos(text_of("qos01"))
    assert good.complete
    assert good.dscp_prio
    assert (len(good.dscp_prio), good.dscp_prio[26], good.dscp_prio[48]) == (64, 3, 6)
    assert good.traffic_classes[0].priorities == (0, 1, 2, 4, 5, 7)
    assert good.max_buffer_bytes == 262016
    glued = parse_mlnx_qos(text_of("qos03"))
    assert (glued.pfc, glued.complete) == ((False,) * 8, False)
    assert glued.pfc_buffer == (1,) * 8
    assert glued.traffic_classes[0].priorities == (0,)
    assert parse_mlnx_qos(text_of("qos05")).interface == "rdma0"


@_by("dcb")
def test_dcb(sample: Sample) -> None:
    label, dcb = sample.label, parse_dcb(sample.text)
    if "pfc_enabled" in label:
        assert dcb.pfc_enabled == tuple(label["pfc_enabled"])
        assert dcb.pfc_cap == label["pfc_cap"]
    else:
        assert dcb.pfc is None
        for name, wanted in (("prio_tc", "prio_tc"), ("dscp_prio", "dscp_numeric")):
            assert getattr(dcb, name) == {int(k): v for k, v in label[wanted].items()}
        assert dcb.dscp_names == label["dscp_prio"]


def test_dcb_forms() -> None:
    pfc = [False, False, False, True, False, False, False, False]
    text = json.dumps({"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": pfc})
    assert parse_dcb(text).pfc_enabled == (3,)
    app = parse_dcb('{"dscp_prio":[["AF31",3],[48,6]]}')
    assert app.dscp_prio == {26: 3, 48: 6}
    ets = parse_dcb("willing off ets-cap 8 cbs off\ntc-bw 0:70 3:30\ntc-tsa 0:ets 3:ets 6:strict\n")
    assert (ets.tc_bw_percent, ets.tc_tsa) == ({0: 70, 3: 30}, {0: "ets", 3: "ets", 6: "strict"})
    assert parse_dcb("order: dscp pcp\n").trust_order == ("dscp", "pcp")
    assert parse_dcb("# dcb pfc show dev eth0\n" + text_of("dcb01")).pfc_enabled == (3,)


LINK, QOS, PFC = text_of("mtu01"), text_of("qos01"), text_of("dcb01")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_ip_link, 'Device "eth9" does not exist.\n'),
        (parse_ip_link, LINK + LINK),
        (parse_ip_link, LINK.replace("mtu 9000", "mtu many")),
        (parse_ip_link, LINK.replace(" mtu 9000", "")),
        (parse_ip_link, "[]"),
        (parse_ip_link, '[{"ifname":"eth0","ifindex":1,"mtu":"9000","flags":[]}]'),
        (parse_ethtool, "netlink error: No such device\n"),
        (parse_ethtool, "Settings for eth0:\n\tSpeed: fastMb/s\n"),
        (parse_ethtool, "Settings for eth0:\n\tLink detected: perhaps\n"),
        (parse_ethtool_driver, "Cannot get driver information: No such device\n"),
        (parse_ethtool_driver, "driver: a\nversion: 1\nversion: 2\n"),
        (parse_lldp, ""),
        (parse_lldp, '{"interface": {}}'),
        (parse_lldp, text_of("lldp03")[:-10]),
        (parse_lldp, '{"lldp": {"interface": {"eth0": {"via": "LLDP"}}}}'),
        (parse_mlnx_qos, "Netlink error: No such device\n"),
        (parse_mlnx_qos, QOS + QOS),
        (parse_mlnx_qos, QOS.replace("enabled     0   0   0   1", "enabled     0   0   1")),
        (parse_mlnx_qos, QOS.replace("enabled     0   0   0   1", "enabled     0   0   0   2")),
        (parse_dcb, ""),
        (parse_dcb, "RTNETLINK answers: Operation not supported\n"),
        (parse_dcb, PFC + PFC),
        (parse_dcb, PFC.replace(" 7:off", "")),
        (parse_dcb, PFC.replace("3:on", "3:yes")),
        (parse_dcb, "dscp-prio XX9:3\n"),
    ],
)
def test_refused(parse: Any, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
