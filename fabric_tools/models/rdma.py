"""Facts about RDMA devices: ports, interfaces, GIDs, counters, bandwidth.

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


class RdmaCounters(Model):
    """Hardware counters of one port, by the driver's names."""

    line: int
    device: str
    port: int
    counters: dict[str, int]


class RdmaStatistics(Fact):
    """``rdma statistic show`` (JSON or text)."""

    links: tuple[RdmaCounters, ...]
