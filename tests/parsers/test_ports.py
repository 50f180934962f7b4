"""Ports and lossless classes put together from several tools and several interfaces."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from fabric_tools.models.base import Fact
from fabric_tools.models.fabric_ports import RdmaPorts
from fabric_tools.parsers import port_qos, ports
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.sections import split_sections
from tests.parsers.corpus import of_kind, text_of

GOOD = text_of("qos01")


def test_a_text_without_marks_is_one_section() -> None:
    (section,) = split_sections("x", "a\nb\n")
    assert (section.name, section.offset, section.text) == (None, 0, "a\nb\n")


def test_sections_of_the_collector_keep_their_lines() -> None:
    first, second = split_sections("x", "==> eth0 <==\na\n\n==> ens1f0np0 <==\nb\n")
    assert (first.name, first.text.strip(), first.offset) == ("eth0", "a", 1)
    assert (second.name, second.text.strip(), second.offset) == ("ens1f0np0", "b", 4)


def test_sections_of_a_pasted_terminal() -> None:
    text = f"[root@n1 ~]# mlnx_qos -i ens1\n{GOOD}$ sudo mlnx_qos -i ens2\n{GOOD}"
    found = port_qos.qos_of_mlnx(text).settings
    assert [item.netdev for item in found] == ["ens1", "ens2"]
    assert [item.pfc for item in found] == [(3,), (3,)]


@pytest.mark.parametrize(
    "text",
    ["==> eth0 <==\n==> eth0 <==\n", "noise\n==> eth0 <==\n", "==> a b <==\n", "==> ../x <==\n"],
)
def test_sections_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        split_sections("x", text)


def test_a_block_that_names_another_interface_is_refused() -> None:
    with pytest.raises(ParseError, match="is of ens2"):
        port_qos.qos_of_mlnx(f"==> ens1 <==\n$ mlnx_qos -i ens2\n{GOOD}")


def test_the_line_of_an_error_is_that_of_the_whole_text() -> None:
    text = f"==> ens1 <==\n{GOOD}==> ens2 <==\n{GOOD.replace('enabled     0', 'enabled     9')}"
    good, bad = port_qos.qos_of_mlnx(text).settings
    assert "enabled     9" in text.split("\n")[bad.line - 1]
    assert bad.refused and bad.pfc is None and not bad.whole
    assert good.pfc == (3,) and not good.refused
    with pytest.raises(ParseError) as caught:
        port_qos.qos_of_mlnx(text.replace("enabled     0", "enabled     9"))
    assert caught.value.line < bad.line


def test_mlnx_qos_of_one_interface() -> None:
    (item,) = port_qos.qos_of_mlnx(GOOD).settings
    assert (item.netdev, item.trust, item.pfc, item.willing) == (None, "dscp", (3,), True)
    assert item.dscp_prio and item.dscp_prio[26] == 3
    assert GOOD.split("\n")[item.line - 1].strip().startswith("enabled")


def test_dcb_of_two_interfaces() -> None:
    pfc = text_of("dcb02")
    found = port_qos.qos_of_dcb_pfc(f"==> a0 <==\n{pfc}==> a1 <==\n{pfc}").settings
    assert [(item.netdev, item.pfc, item.trust) for item in found] == [
        ("a0", (3,), None),
        ("a1", (3,), None),
    ]
    app = port_qos.qos_of_dcb_app("==> a0 <==\ndscp-prio AF31:3 CS6:6\n==> a1 <==\n").settings
    assert [(item.netdev, item.trust, item.dscp_prio) for item in app] == [
        ("a0", "dscp", {26: 3, 48: 6}),
        ("a1", "pcp", {}),
    ]


def test_a_pfc_table_says_nothing_of_dscp() -> None:
    with pytest.raises(ParseError):
        port_qos.qos_of_dcb_app(text_of("dcb01"))


def test_an_empty_text_is_no_setting() -> None:
    for read in (port_qos.qos_of_mlnx, port_qos.qos_of_dcb_pfc, port_qos.qos_of_dcb_app):
        for text in ("", "\n", "==> eth0 <==\nError: bad\n"):
            with pytest.raises(ParseError):
                read(text)


def by_name(found: RdmaPorts) -> dict[str, object]:
    return {port.name: port.active for port in found.ports}


def test_states_of_ibstat() -> None:
    found = ports.ports_of_ibstat(text_of("ibstat.txt"))
    assert found.complete
    every = [s for s in of_kind("ibstat") if s.file.startswith("nodes/n01")]
    b300 = ports.ports_of_ibstat(every[0].text)
    assert sum(port.active is True for port in b300.ports) == 4
    assert {port.device_type for port in b300.ports if port.active} == {"MT4129"}


def test_states_of_ibv_devinfo() -> None:
    found = ports.ports_of_devinfo(text_of("ibv03"))
    assert set(by_name(found).values()) == {False}
    assert {port.active_mtu_bytes for port in found.ports} >= {1024}
    assert found.ports[0].device_type == "MT4129"


def test_the_rate_of_ibv_devinfo_is_lanes_times_speed() -> None:
    text = (
        text_of("ibv_devinfo-v").replace("1X (1)", "4X (2)").replace("2.5 Gbps (1)", "100.0 Gbps")
    )
    (port,) = ports.ports_of_devinfo(text).ports
    assert port.rate_gbits_s == 400.0


def test_gids_of_a_table_that_names_no_device_go_to_the_only_port() -> None:
    gids = ports.ports_of_gids(text_of("sysfs-gids")).model_copy(update={"probe": "show_gids"})
    port = ports.ports_of_devinfo(text_of("ibv_devinfo.txt"))
    merged = ports.merge_ports([port.model_copy(update={"probe": "ibv_devinfo"}), gids])
    (only,) = merged.ports
    assert only.gids and [gid.ipv4 for gid in only.gids] == [None, "10.9.0.1"]
    assert {gid.probe for gid in only.gids} == {"show_gids"}


def test_the_worse_state_wins_and_is_the_evidence() -> None:
    up = ports.ports_of_sysfs("a/ports/1/state: 4: ACTIVE\na/ports/1/link_layer: Ethernet\n")
    down = ports.ports_of_netdevs("a port 1 ==> eth0 (Down)\n")
    for facts in ([up, down], [down, up]):
        named = [fact.model_copy(update={"probe": f"p{fact is down}"}) for fact in facts]
        (port,) = ports.merge_ports(named).ports
        assert (port.active, port.state, port.probe) == (False, "Down", "pTrue")
        assert (port.netdev, port.link_layer) == ("eth0", "Ethernet")


@pytest.mark.parametrize(
    ("state", "physical", "active"),
    [
        ("PORT_ACTIVE", None, True),
        ("Active", "LinkUp", True),
        ("ACTIVE", "LINK_UP", True),
        ("Active", "Polling", False),
        ("Initializing", "LinkUp", False),
        ("INIT", "LinkUp", False),
        ("ACTIVE_DEFER", "LinkUp", False),
        ("Down", "Disabled", False),
        ("somehow", None, None),
        (None, "LinkUp", None),
    ],
)
def test_which_states_are_up(state: str | None, physical: str | None, active: bool | None) -> None:
    assert ports._is_active(state, physical) is active


def test_representors_do_not_hide_the_interface() -> None:
    text = (
        "m/ports/1/state: 4: ACTIVE\nm/ports/1/link_layer: Ethernet\n"
        "m/device/net/ens1f0np0/mtu: 9000\nm/device/net/ens1f0npf0vf0/mtu: 1500\n"
        "m/ports/1/gids/0: fe80:0000:0000:0000:0000:00ff:fe00:0001\n"
        "m/ports/1/gid_attrs/types/0: RoCE v2\nm/ports/1/gid_attrs/ndevs/0: ens1f0np0\n"
    )
    (port,) = ports.ports_of_sysfs(text).ports
    assert port.netdev == "ens1f0np0"


READERS: dict[str, Callable[[str], Fact]] = {
    "ibstat": ports.ports_of_ibstat,
    "ibv_devinfo": ports.ports_of_devinfo,
    "ibdev2netdev": ports.ports_of_netdevs,
    "show_gids": ports.ports_of_gids,
    "sysfs_ib": ports.ports_of_sysfs,
    "mlnx_qos": port_qos.qos_of_mlnx,
    "dcb": port_qos.qos_of_dcb_pfc,
    "dcb_app": port_qos.qos_of_dcb_app,
}


@pytest.mark.parametrize("kind", READERS)
def test_any_text_ends_in_a_fact_or_a_refusal(kind: str) -> None:
    for sample in of_kind(*READERS, "ip_link", "lspci", "topo", "nccl"):
        for text in (sample.text, sample.text[: len(sample.text) // 2], sample.text[::-1]):
            with contextlib.suppress(ParseError):
                assert isinstance(READERS[kind](text), Fact)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("unit", ["==> eth0 <==\n", "$ mlnx_qos -i e\n", "a/device/net/b/c:", "# "])
def test_big_text_ends_soon(kind: str, unit: str) -> None:
    text = unit * (10_000_000 // len(unit))
    began = time.process_time()
    with pytest.raises(ParseError):
        READERS[kind](text)
    assert time.process_time() - began < 2.0
