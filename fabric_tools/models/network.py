"""Facts about network ports: RDMA devices, their interfaces, their quality of service, neighbours.

``None`` means that the text prints N/A or nothing for the field. It never means zero.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model
from fabric_tools.models.nccl import TextNote


class BwRow(Model):
    """One size of a perftest bandwidth table. ``peak`` and ``average`` as printed; the unit is the
    test's. ``average_gbits_s`` is None where the unit is not known. Perftest prints a peak of 0.00
    where it measures none (``-D``).
    """

    line: int
    size_bytes: int
    iterations: int
    peak: float
    average: float
    average_gbits_s: float | None = None
    msg_rate_mpps: float | None = None


class BwTest(Model):
    """One bandwidth test. Perftest's MB is 2**20 bytes. ``complete``: rows, no error, and the
    closing rule (or brace) below them.
    """

    line: int
    test: str | None = None
    devices: tuple[str, ...] = ()  # two where both sides wrote into one text
    transport: str | None = None
    connection: str | None = None
    qps: int | None = None
    mtu_bytes: int | None = None
    link_type: str | None = None
    gid_index: int | None = None
    unit: Literal["Gb/sec", "MB/sec"] | None = None
    rows: tuple[BwRow, ...] = ()
    errors: tuple[TextNote, ...] = ()
    complete: bool = False


class BwTests(Fact):
    """Every ``ib_write_bw`` (or read, send) test in the text, in order."""

    tests: tuple[BwTest, ...]


class RdmaPort(Model):
    """One port of an RDMA device; states as printed (``PORT_ACTIVE``, ``Active``, ``ACTIVE``)."""

    line: int
    port: int
    state: str | None = None
    physical_state: str | None = None
    link_layer: str | None = None
    rate_gbits_s: float | None = None
    max_mtu_bytes: int | None = None
    active_mtu_bytes: int | None = None
    lid: int | None = None
    width: str | None = None
    speed: str | None = None
    counters: dict[str, int] = {}


class RdmaDevice(Model):
    """One RDMA device with the ports that were printed; ``port_count`` is its own count."""

    line: int
    name: str
    type: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    vendor_part_id: int | None = None
    node_guid: str | None = None
    port_count: int | None = None
    ports: tuple[RdmaPort, ...] = ()


class RdmaDevices(Fact):
    """``ibv_devinfo``, ``ibstat``, ``ibstatus`` or a dump of ``/sys/class/infiniband``.

    ``complete``: every device has all its ports, each with its state and link layer.
    """

    devices: tuple[RdmaDevice, ...]
    complete: bool


class NetdevMapping(Model):
    """One line of ``ibdev2netdev``."""

    line: int
    device: str
    port: int
    netdev: str | None
    up: bool | None
    bus_id: str | None = None


class IbdevNetdevs(Fact):
    """``ibdev2netdev``. ``complete`` is False where lines are elided."""

    mappings: tuple[NetdevMapping, ...]
    complete: bool = True


class Gid(Model):
    """One GID. ``device`` is None where the dump does not name it. ``version``: v1 or v2 (RoCE)."""

    line: int
    device: str | None
    port: int | None
    index: int
    gid: str
    ipv4: str | None = None
    version: Literal["v1", "v2"] | None = None
    ndev: str | None = None


class GidTable(Fact):
    """``show_gids`` or a dump of sysfs. ``empty`` are the indexes whose GID is all zeros.

    ``complete``: as many as the tool counted, or (sysfs) each with its type.
    """

    gids: tuple[Gid, ...]
    empty: tuple[int, ...] = ()
    complete: bool


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
    """``lldpcli show neighbors -f json`` or ``-f json0``. No neighbour is an answer, not a gap."""

    format: Literal["json", "json0"]
    neighbours: tuple[LldpNeighbour, ...]


class RdmaLink(Model):
    """One line of ``rdma link``."""

    line: int
    device: str
    port: int
    state: str
    physical_state: str | None = None
    netdev: str | None = None


class RdmaLinks(Fact):
    """``rdma link show`` (JSON or text)."""

    links: tuple[RdmaLink, ...]


class RdmaDevInfo(Model):
    """One line of ``rdma dev``."""

    line: int
    device: str
    node_type: str | None = None
    firmware: str | None = None
    node_guid: str | None = None


class RdmaDevs(Fact):
    """``rdma dev show`` (JSON or text)."""

    devices: tuple[RdmaDevInfo, ...]


class SysfsInfiniband(Fact):
    """A dump of ``/sys/class/infiniband``, one line a file: devices, ports, counters, GIDs."""

    devices: tuple[RdmaDevice, ...]
    gids: tuple[Gid, ...] = ()
    empty_gids: tuple[int, ...] = ()
