"""From the facts of one node to the map that a report draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import NvlinkGpu, NvlinkStatus, PciDevices, Topology
from fabric_tools.models.nodemap import GpuLinks, NodeMap, Wanted
from fabric_tools.models.platform import Target
from fabric_tools.parsers.reader import Facts, Missing

F = TypeVar("F", bound=Fact)

_NOTES = {
    "unsupported": "no NVLink",
    "inactive": "all links inactive",
    "mig": "not told in MIG mode",
}


def map_node(texts: Sequence[Facts], target: Target | None) -> NodeMap:
    """The map, of the first of several saved texts that can be read. Never raises for a lost one:
    what could not be had is named in ``lacking``.
    """
    lacking: list[str] = []
    matrices = _all(texts, Topology, lacking)
    links = _all(texts, NvlinkStatus, lacking)
    return NodeMap(
        topology=matrices[0] if matrices else None,
        texts=len(matrices),
        links=tuple(_links(gpu) for gpu in links[0].gpus) if links else (),
        links_whole=links[0].complete if links else True,
        switches=_switches(texts, target, lacking),
        lacking=tuple(dict.fromkeys(lacking)),
        wanted=_wanted(target),
    )


def _all(texts: Sequence[Facts], kind: type[F], lacking: list[str]) -> list[F]:
    """What could be read, each once; the reason goes to ``lacking`` where nothing could."""
    read: list[F] = []
    why = ""
    for facts in texts:
        found = facts.get(kind)
        if isinstance(found, Missing):
            why = why or found.reason
        elif found not in read:
            read.append(found)
    if not read:
        lacking.append(why)
    return read


def _links(gpu: NvlinkGpu) -> GpuLinks:
    down = tuple(link.index for link in gpu.links if link.gbytes_s is None)
    note = _NOTES.get(gpu.state, "")
    return GpuLinks(gpu=gpu.index, listed=len(gpu.links), down=down, note=note)


def _switches(
    texts: Sequence[Facts], target: Target | None, lacking: list[str]
) -> tuple[str, ...] | None:
    wanted = target.fabric.nvswitch_pci_id.value if target else None
    if wanted is None:
        return None
    found = _all(texts, PciDevices, lacking)
    if not found:
        return None
    return tuple(d.bus_id for d in found[0].devices if d.vendor_device == wanted and d.answers)


def _wanted(target: Target | None) -> Wanted | None:
    if target is None:
        return None
    return Wanted(
        gpus=target.gpu.number,
        mesh=target.nvlink.mesh.value,
        links_per_gpu=target.nvlink.links_per_gpu.value,
        switches=target.fabric.nvswitch_count.value,
    )
