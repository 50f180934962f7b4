"""Facts about disks: software RAID and NVMe.

``None``: the text does not say. It never means zero.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class MdMember(Model):
    """One device of an array. ``slot`` is None for spares and for what was removed."""

    line: int
    device: str | None
    slot: int | None = None
    state: str


class MdArray(Model):
    """One software RAID. ``wanted`` and ``active`` devices are None where they are not told (RAID 0
    in ``/proc/mdstat``). ``size_kib`` is of the array.
    """

    line: int
    name: str
    state: str
    level: str | None = None
    size_kib: int | None = None
    wanted: int | None = None
    active: int | None = None
    failed: int
    members: tuple[MdMember, ...] = ()
    action: str | None = None  # resync, recovery, reshape, check
    percent: float | None = None

    @property
    def degraded(self) -> bool | None:
        """Fewer devices than wanted; None where that is not told."""
        if self.wanted is None or self.active is None:
            return None
        return self.active < self.wanted


class MdArrays(Fact):
    """``/proc/mdstat`` or ``mdadm --detail``. ``complete``: the closing line, or every member."""

    form: Literal["mdstat", "detail"]
    arrays: tuple[MdArray, ...]
    complete: bool


class NvmeNamespace(Model):
    """One namespace; ``address`` is None in the flat list of nvme-cli."""

    line: int
    path: str
    nsid: int | None = None
    serial: str | None = None
    model: str | None = None
    firmware: str | None = None
    transport: str | None = None
    address: str | None = None
    size_bytes: int | None = None
    used_bytes: int | None = None
    sector_bytes: int | None = None


class NvmeDevices(Fact):
    """``nvme list -o json``. ``bare``: controllers that offer neither namespace nor path."""

    namespaces: tuple[NvmeNamespace, ...]
    bare: tuple[str, ...] = ()
