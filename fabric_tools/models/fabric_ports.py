"""Facts about the ports of RDMA devices and their lossless class, put together from several tools.

``None`` means that no tool said it. It never means zero or off.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class PortGid(Model):
    """One GID of a port; ``ipv4`` is the address inside it, ``ndev`` the interface it is of."""

    line: int
    probe: str = ""
    index: int
    gid: str
    ipv4: str | None = None
    version: Literal["v1", "v2"] | None = None
    ndev: str | None = None


class FabricPort(Model):
    """One port of an RDMA device.

    ``state`` and ``physical_state`` as printed; ``active`` is False where any tool called the port
    anything but active. ``netdev`` is its network interface. ``device_type`` is the chip
    (``MT4129``), ``node_guid`` its number as 16 hex digits.
    ``gids`` is None where no tool listed any; ``gids_whole``: the list is not cut.
    ``counters`` by the names of sysfs.
    """

    line: int
    probe: str = ""
    device: str
    port: int
    device_type: str | None = None
    node_guid: str | None = None
    firmware: str | None = None
    state: str | None = None
    physical_state: str | None = None
    active: bool | None = None
    link_layer: str | None = None
    rate_gbits_s: float | None = None
    active_mtu_bytes: int | None = None
    netdev: str | None = None
    gids: tuple[PortGid, ...] | None = None
    gids_whole: bool = False
    counters: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The device, with the port where it is not the first."""
        return self.device if self.port == 1 else f"{self.device} port {self.port}"


class RdmaPorts(Fact):
    """Every port that sysfs, ibstat, ibv_devinfo, ibdev2netdev or show_gids told of.

    ``complete``: at least one of them listed all devices. ``loose_gids`` are of a table that names
    no device.
    """

    ports: tuple[FabricPort, ...]
    loose_gids: tuple[PortGid, ...] = ()
    complete: bool = False


class PortQos(Model):
    """What one tool said of one interface. ``netdev`` is None where the text does not name it.

    ``trust``: dscp or pcp; ``pfc`` lists the priorities with PFC; ``dscp_prio`` maps DSCP numbers.
    ``willing``: DCBX in the firmware, where the switch may change all of this. ``whole``: all that
    this tool prints of an interface is there. ``refused``: why what it printed was not understood.
    """

    line: int
    probe: str = ""
    netdev: str | None = None
    trust: str | None = None
    pfc: tuple[int, ...] | None = None
    dscp_prio: dict[int, int] | None = None
    willing: bool | None = None
    whole: bool = True
    refused: str = ""


class QosByPort(Fact):
    """Trust, PFC and DSCP map of every interface, by every tool that was recorded."""

    settings: tuple[PortQos, ...]
