"""The hardware of a lab node, as ``node.json`` describes it.

PCI addresses, ids and device names of the boards follow an ``lspci -nn`` of an HGX H100 host; the
rest of the values are those of an idle 8x H100 node (``nvidia-smi -q``, driver 565.57.01). Serial
numbers and UUIDs are made up.
"""

from __future__ import annotations

import hashlib
from typing import Any

_GPU_BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
_NIC_BUSES = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
_SWITCH_BUSES = ("07", "08", "09", "0a")

#: Kind and DMI product name of each platform that the lab knows. The HGX board sits in a chassis
#: of whatever maker; the name is one that no platform file claims.
PLATFORMS = {"hgx-h100": ("stock", "LAB HGX H100"), "dgx-h100": ("dgx-os", "DGXH100")}


def make(platform: str, name: str = "node1") -> dict[str, Any]:
    """A healthy ``node.json``. ``name`` makes serials and UUIDs differ between nodes.

    Raises ``ValueError`` for a platform that the lab does not know.
    """
    if platform not in PLATFORMS:
        raise ValueError(f"platform {platform!r}: the lab knows {', '.join(PLATFORMS)}")
    kind, product = PLATFORMS[platform]
    return {
        "schema": 1,
        "source": "lab",
        "kind": kind,
        "platform": platform,
        "product_name": product,
        "secure_boot": False,
        "efi": True,
        "mok_enrolled": [],
        "smi_hang": False,
        "gpus": [_gpu(index, name) for index in range(8)],
        "nvswitches": [
            {"bus_id": f"0000:{bus}:00.0", "pci_id": "10de:22a3"} for bus in _SWITCH_BUSES
        ],
        "nics": [_nic(index) for index in range(8)],
        "topology": {},
    }


def _gpu(index: int, name: str) -> dict[str, Any]:
    seed = hashlib.sha256(f"{name} GPU {index}".encode()).hexdigest()
    return {
        "index": index,
        "present": True,
        "product": "NVIDIA H100 80GB HBM3",
        "pci_id": "10de:2330",
        "bus_id": f"00000000:{_GPU_BUSES[index]}:00.0",
        "uuid": f"GPU-{seed[:8]}-{seed[8:12]}-4{seed[12:15]}-8{seed[15:18]}-{seed[18:30]}",
        "serial": str(1650000000000 + int(seed[30:38], 16) % 10**9),
        "numa": index // 4,
        "ecc_current": True,
        "ecc_pending": True,
        "ecc_uncorrectable_volatile": 0,
        "remap_pending": False,
        "remap_failed": False,
        "remap_correctable": 0,
        "remap_uncorrectable": 0,
        "pcie_gen_max": 5,
        "pcie_gen_current": 5,
        "pcie_width_max": 16,
        "pcie_width_current": 16,
        "temperature_c": 30,
        "power_limit_w": 700,
        "nvlinks": [True] * 18,
    }


def _nic(index: int) -> dict[str, Any]:
    return {
        "rdma": f"mlx5_{index}",
        "netdev": f"rail{index}",
        "bus_id": f"0000:{_NIC_BUSES[index]}:00.0",
        "pci_id": "15b3:1021",
        "numa": index // 4,
    }
