"""Who stands where in the drawing of a node: GPUs in two rows, by NUMA node, NICs beside them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from itertools import groupby

from fabric_tools.models.facts import Topology
from fabric_tools.models.nodemap import NodeMap

#: Bridges only, no host bridge: the NIC of the GPU's own rail.
NEAR = ("PIX", "PXB")
#: NICs drawn at one GPU; more of them are counted in the last place.
MOST_NICS = 3
#: Within one NUMA node, as the legend of ``nvidia-smi topo -m`` defines them.
_SAME_NUMA = (*NEAR, "PHB", "NODE")


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC column: its heading, its device by the NIC legend, how near its GPU is (``PIX``)."""

    name: str
    device: str
    near: str


@dataclass(slots=True)
class Seat:
    """A GPU (None: one that the platform has and the node did not show) and NICs drawn at it."""

    gpu: int | None
    numa: str
    nics: list[Nic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Box:
    """Neighbours of one NUMA node."""

    title: str
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of GPUs."""

    seats: tuple[Seat, ...]

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The row cut where the NUMA node changes."""
        return tuple(
            Box(title, tuple(seats))
            for title, seats in groupby(self.seats, key=lambda seat: seat.numa)
        )

    @property
    def nic_rows(self) -> int:
        """How many NICs are drawn behind each other at most."""
        return max(min(len(seat.nics), MOST_NICS) for seat in self.seats)


def gpu_numbers(node: NodeMap) -> list[int]:
    """Numbers of the GPUs in the matrix or in the list of links."""
    found = {link.gpu for link in node.links}
    for name in node.topology.gpus if node.topology else ():
        number = re.fullmatch(r"GPU(\d+)", name, re.ASCII)
        if number:
            found.add(int(number[1]))
    return sorted(found)


def lanes(node: NodeMap) -> list[Lane]:
    """Two rows, or one for a single GPU, or none where no GPU is known."""
    seats = [Seat(number, _numa(node.topology, number)) for number in gpu_numbers(node)]
    if not seats:
        return []
    seats.sort(key=lambda seat: _order(seat.numa))
    if node.topology:
        _seat_nics(node.topology, seats)
    wanted = node.wanted.gpus if node.wanted else 0
    seats += [Seat(None, "not placed") for _ in range(wanted - len(seats))]
    half = (len(seats) + 1) // 2
    return [Lane(tuple(part)) for part in (seats[:half], seats[half:]) if part]


def _numa(topo: Topology | None, gpu: int) -> str:
    row = topo.row(f"GPU{gpu}") if topo else None
    told = row.numa_affinity if row else None
    return f"NUMA node {told}" if told else "NUMA node not told"


def _order(numa: str) -> int:
    number = re.search(r"\d+", numa, re.ASCII)
    return int(number[0]) if number else sys.maxsize


def far_nics(topo: Topology) -> list[str]:
    """NICs that share a NUMA node with no GPU, as far as the matrix tells: they have no seat."""
    return [nic for nic in topo.nics if not nearest(topo, nic)]


def nearest(topo: Topology, nic: str) -> str:
    """The value of a NIC at the GPU it is nearest to; "" where it is not seen to be near any."""
    values = [row.cells.get(nic, "") for name in topo.gpus if (row := topo.row(name))]
    return next((value for value in _SAME_NUMA if value in values), "")


def _seat_nics(topo: Topology, seats: list[Seat]) -> None:
    """Each NIC at a GPU it is nearest to, where the fewest NICs stand; the nearest first."""
    seated = [nic for nic in topo.nics if nic not in far_nics(topo)]
    for nic in sorted(seated, key=lambda name: _SAME_NUMA.index(nearest(topo, name))):
        best = nearest(topo, nic)
        close = [seat for seat in seats if _value(topo, seat, nic) == best]
        seat = min(close, key=lambda seat: len(seat.nics))
        near = best if best in NEAR else ""
        seat.nics.append(Nic(nic, topo.nic_names.get(nic, ""), near))


def _value(topo: Topology, seat: Seat, nic: str) -> str:
    row = topo.row(f"GPU{seat.gpu}")
    return row.cells.get(nic, "") if row else ""
