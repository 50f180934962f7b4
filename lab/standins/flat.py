"""What the C doubles read: the state of the node as flat lines, so that its JSON is read in Python
alone.

``status N`` comes first: 0, or what ``nvmlInit`` must answer (nvml.h: 9 driver not loaded, 18
library and module of two versions, 999 unknown), ``hang`` where the library must not answer at all.
Then ``driver VERSION``, ``fabric STATE`` (nvml.h: NVML_GPU_FABRIC_STATE_*), ``switches N``, and for
each GPU ``gpu N KEY VALUE``.
"""

from __future__ import annotations

from pathlib import Path

from .state import Gpu, Node, StateError, load

_FABRIC = {"Not Started": 1, "In Progress": 2, "Completed": 3}


def lines(version: str, root: Path) -> list[str]:
    """The lines for a library of ``version``."""
    try:
        node = load(root)
    except StateError:
        return ["status 999", "driver -", "fabric 0", "switches 0"]
    status = "0"
    if node.smi_hang:
        status = "hang"
    elif node.driver is None:
        status = "9"
    elif node.driver != version:
        status = "18"
    head = [
        f"status {status}",
        f"driver {node.driver or '-'}",
        f"fabric {_FABRIC.get(node.fabric.state, 0)}",
        f"switches {len(node.nvswitches)}",
        f"clique {node.fabric.clique if node.fabric.clique.isdigit() else 0}",
    ]
    if status != "0":
        return head
    return head + [line for number, gpu in enumerate(node.gpus) for line in _gpu(number, gpu, node)]


def _gpu(number: int, gpu: Gpu, node: Node) -> list[str]:
    vendor, _, device = gpu.pci_id.partition(":")
    facts: dict[str, object] = {
        "uuid": gpu.uuid,
        "bus": gpu.bus_id.upper(),
        "device": f"{device}{vendor}",
        "numa": gpu.numa,
        "ecc": int(gpu.ecc_current),
        "ecc_pending": int(gpu.ecc_pending),
        "ecc_errors": gpu.ecc_uncorrectable_volatile,
        "remap_corr": gpu.remap_correctable,
        "remap_unc": gpu.remap_uncorrectable,
        "remap_pending": int(gpu.remap_pending),
        "remap_failed": int(gpu.remap_failed),
        "gen": gpu.pcie_gen_current,
        "gen_max": gpu.pcie_gen_max,
        "width": gpu.pcie_width_current,
        "temperature": gpu.temperature_c,
        "power_limit": gpu.power_limit_w,
        "links": "".join("1" if up else "0" for up in gpu.nvlinks) or "-",
        "p2p": "".join(_linked(node, gpu, other) for other in node.gpus),
        "name": gpu.product,
    }
    return [f"gpu {number} {key} {value}" for key, value in facts.items()]


def _linked(node: Node, one: Gpu, other: Gpu) -> str:
    return "1" if one is other or node.pair(one, other).startswith("NV") else "0"
