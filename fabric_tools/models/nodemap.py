"""How the parts of one node are joined, as far as it was read: what a report draws."""

from __future__ import annotations

from fabric_tools.models.base import Model
from fabric_tools.models.facts import Topology


class GpuLinks(Model):
    """NVLinks of one GPU: how many were listed, and the numbers of those that are down.

    ``note`` says why none were listed (``no NVLink``, ``not told in MIG mode``), else "".
    """

    gpu: int
    listed: int = 0
    down: tuple[int, ...] = ()
    note: str = ""

    @property
    def up(self) -> int | None:
        """How many are up; None where the tool did not list them."""
        return None if self.note else self.listed - len(self.down)


class Wanted(Model):
    """What the platform file says of the same parts. ``mesh`` is that of ``NvlinkSpec``."""

    gpus: int
    mesh: str
    links_per_gpu: int
    switches: int


class NodeMap(Model):
    """GPUs, NVSwitches, NICs and how they reach each other. It judges nothing: verdicts do.

    ``switches``: bus addresses of NVSwitches that answer; None where PCI could not be read or the
    platform has none to be seen. ``lacking``: what could not be had, and why. ``texts``: how many
    different matrices were saved, of which the first is shown. ``wanted``: None without a platform.
    """

    topology: Topology | None = None
    texts: int = 0
    links: tuple[GpuLinks, ...] = ()
    links_whole: bool = True
    switches: tuple[str, ...] | None = None
    lacking: tuple[str, ...] = ()
    wanted: Wanted | None = None
