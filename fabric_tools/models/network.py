"""Facts about network interfaces: links, bonds, quality of service, neighbours.

``None`` means that the text prints N/A or nothing for the field. It never means zero.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class TrafficClass(Model):
    """One ``tc:`` block of ``mlnx_qos``."""

    line: int
    tc: int
    tsa: str
    ratelimit: str
    bw_percent: int | None = None
    priorities: tuple[int, ...] = ()


class MlnxQos(Fact):
    """``mlnx_qos -i IFACE``. ``pfc`` has one entry a priority; None where the table is missing.

    ``complete``: trust, PFC table and all eight priorities under the traffic classes.
    """

    interface: str | None = None
    dcbx_mode: str | None = None
    trust: str | None = None
    trust_line: int | None = None
    dscp_prio: dict[int, int] | None = None
    buffers_bytes: tuple[int, ...] | None = None
    max_buffer_bytes: int | None = None
    cable_len_m: int | None = None
    pfc: tuple[bool, ...] | None = None
    pfc_enabled: tuple[int, ...] | None = None
    pfc_line: int | None = None
    pfc_buffer: tuple[int, ...] | None = None
    traffic_classes: tuple[TrafficClass, ...] = ()
    complete: bool


class Dcb(Fact):
    """``dcb pfc|ets|app|apptrust|buffer show``: only what the text holds, the rest is None.

    ``dscp_prio`` has DSCP numbers (AF31 is 26); ``dscp_names`` the same as printed.
    """

    pfc_cap: int | None = None
    pfc: tuple[bool, ...] | None = None
    pfc_enabled: tuple[int, ...] | None = None
    pfc_line: int | None = None
    macsec_bypass: bool | None = None
    delay: int | None = None
    prio_tc: dict[int, int] | None = None
    tc_tsa: dict[int, str] | None = None
    tc_bw_percent: dict[int, int] | None = None
    dscp_prio: dict[int, int] | None = None
    dscp_names: dict[str, int] | None = None
    app_line: int | None = None
    trust_order: tuple[str, ...] | None = None
    prio_buffer: dict[int, int] | None = None


class Bond(Model):
    """A bond. Without ``miimon`` (0) its own state and ``mii_status`` are no evidence."""

    mode: str
    miimon_ms: int | None = None


class BondSlave(Model):
    """What the bond says of one of its ports."""

    state: str | None = None
    mii_status: str | None = None
    ad_actor_oper_port_state: int | None = None
    ad_partner_oper_port_state: int | None = None


class LinkErrors(Model):
    """Counters of ``ip -s`` (``-s -s`` for the lengths)."""

    rx_errors: int | None = None
    rx_dropped: int | None = None
    rx_length_errors: int | None = None
    rx_crc_errors: int | None = None
    tx_errors: int | None = None
    tx_dropped: int | None = None


class IpLink(Model):
    """One interface. ``carrier`` from the flags LOWER_UP and NO-CARRIER; ``admin_up`` from UP."""

    line: int
    index: int
    name: str
    link: str | None = None  # behind "@": another interface or ifN of another namespace
    flags: tuple[str, ...] = ()
    mtu_bytes: int
    min_mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    state: str | None = None
    carrier: bool
    admin_up: bool
    master: str | None = None
    mac: str | None = None
    link_type: str | None = None
    kind: str | None = None
    parentdev: str | None = None
    altnames: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # ip addr only, with prefix length
    vfs: int = 0
    bond: Bond | None = None
    bond_slave: BondSlave | None = None
    errors: LinkErrors | None = None


class IpLinks(Fact):
    """``ip link`` or ``ip addr``, JSON or text. ``complete`` is False where parts are elided."""

    links: tuple[IpLink, ...]
    complete: bool


class EthtoolLink(Model):
    """``ethtool IFACE``. ``speed_mbits_s`` is None for ``Unknown!``; ``interface`` is None where
    only some lines were kept.
    """

    line: int
    interface: str | None
    speed_mbits_s: int | None = None
    lanes: int | None = None
    duplex: str | None = None
    autoneg: bool | None = None
    autoneg_supported: bool | None = None
    port: str | None = None
    link_detected: bool | None = None
    supported_modes: tuple[str, ...] = ()
    max_supported_mbits_s: int | None = None
    fec_supported: tuple[str, ...] = ()
    complete: bool = False


class EthtoolLinks(Fact):
    """``ethtool IFACE`` for one or more interfaces."""

    links: tuple[EthtoolLink, ...]


class EthtoolDriver(Model):
    """``ethtool -i IFACE``. ``origin``: what the form of mlx5_core's version says, None if neither
    form. ``psid`` is the board id behind the firmware version.
    """

    line: int
    driver: str
    version: str | None = None
    firmware: str | None = None
    psid: str | None = None
    bus_id: str | None = None
    origin: Literal["ofed", "inbox"] | None = None


class EthtoolDrivers(Fact):
    """``ethtool -i`` for one or more interfaces."""

    drivers: tuple[EthtoolDriver, ...]


class LldpNeighbour(Model):
    """One neighbour. ``capabilities`` are the enabled ones; a server has Station, no Bridge."""

    line: int
    interface: str
    via: str | None = None
    system_name: str | None = None
    system_descr: str | None = None
    chassis_id: str | None = None
    chassis_id_type: str | None = None
    port_id: str | None = None
    port_id_type: str | None = None
    port_descr: str | None = None
    management_addresses: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


class LldpNeighbours(Fact):
    """``lldpcli show neighbors``, also ``-f json`` or ``-f json0``. No neighbour is an answer.

    ``complete`` is False for text that is not closed by its last rule.
    """

    format: Literal["json", "json0", "text"]
    neighbours: tuple[LldpNeighbour, ...]
    complete: bool = True


class BondPort(Model):
    """One ``Slave Interface`` block. States of LACP only where root read the file."""

    line: int
    name: str
    mii_status: str | None = None
    speed_mbits_s: int | None = None
    duplex: str | None = None
    link_failures: int | None = None
    permanent_mac: str | None = None
    aggregator_id: int | None = None
    actor_churn: str | None = None
    partner_churn: str | None = None
    actor_port_state: int | None = None
    partner_port_state: int | None = None


class BondStatus(Model):
    """One file of ``/proc/net/bonding``. It does not print the bond's name: ``interface`` is from
    the path before it, if any. Without ``miimon_ms`` (0) ``mii_status`` is no evidence.

    ``no_aggregator``: LACP found no partner. ``complete``: every port has all its lines.
    """

    line: int
    interface: str | None = None
    mode: str
    hash_policy: str | None = None
    mii_status: str | None = None
    miimon_ms: int | None = None
    active_port: str | None = None
    lacp_rate: str | None = None
    aggregator_id: int | None = None
    aggregator_ports: int | None = None
    partner_mac: str | None = None
    no_aggregator: bool = False
    ports: tuple[BondPort, ...] = ()
    complete: bool = False


class Bonds(Fact):
    """``/proc/net/bonding/*``, one or more files."""

    bonds: tuple[BondStatus, ...]
