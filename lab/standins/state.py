"""What the node is: its hardware, the loaded modules, the fabric. The stand-ins read nothing else.

Files, below ``root``: ``run/lab/node.json`` (the hardware), ``run/lab/modules/NAME`` (one JSON file
a loaded module), ``run/lab/fabric.json`` (what the fabric manager left in the GPUs).
A file that is absent means that there is no such thing; one that cannot be read is an error, never
healthy hardware.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

#: Where the node's files lie. Tests give another one to ``standin.main``.
ROOT = Path("/")
_MAX_BYTES = 1 << 20


class StateError(Exception):
    """A state file that cannot be read or does not say what it must."""


class Gpu(NamedTuple):
    """One GPU as the hardware is. ``place`` is its ``index`` on the board, not the number that
    nvidia-smi shows.

    ``bus_id`` has an 8-digit domain, as NVML prints it. ``nvlinks`` has one entry a link: up or
    down. Temperatures are degrees Celsius.
    """

    place: int
    present: bool
    product: str
    pci_id: str
    bus_id: str
    uuid: str
    serial: str
    numa: int
    ecc_current: bool
    ecc_pending: bool
    ecc_uncorrectable_volatile: int
    remap_pending: bool
    remap_failed: bool
    remap_correctable: int
    remap_uncorrectable: int
    pcie_gen_max: int
    pcie_gen_current: int
    pcie_width_max: int
    pcie_width_current: int
    temperature_c: int
    power_limit_w: int
    nvlinks: tuple[bool, ...]

    @property
    def bus(self) -> str:
        """The address as lspci and the kernel print it: ``0000:1b:00.0``."""
        return self.bus_id.lower()[-12:]


class PciFunction(NamedTuple):
    """An NVSwitch or a NIC on the bus. ``bus_id`` has a 4-digit domain."""

    bus_id: str
    pci_id: str
    rdma: str = ""
    netdev: str = ""
    numa: int = 0


class Fabric(NamedTuple):
    """What each GPU remembers of the fabric. ``state`` in the words of nvidia-smi."""

    state: str = "In Progress"
    status: str = "N/A"
    clique: str = "N/A"
    cluster_uuid: str = "N/A"


class Node(NamedTuple):
    """The node while one tool answers. ``gpus`` and ``shown`` are those on the bus, in bus order:
    the place in ``gpus`` is the number that nvidia-smi gives. ``modules`` by name: what the file
    of that loaded module says.
    """

    root: Path
    platform: str
    secure_boot: bool
    efi: bool
    mok_enrolled: tuple[str, ...]
    smi_hang: bool
    gpus: tuple[Gpu, ...]
    nvswitches: tuple[PciFunction, ...]
    nics: tuple[PciFunction, ...]
    topology: dict[str, str]
    modules: dict[str, dict[str, Any]]
    fabric: Fabric

    @property
    def driver(self) -> str | None:
        """Version of the loaded nvidia module, None where none is loaded."""
        module = self.modules.get("nvidia")
        return None if module is None else str(module.get("version", ""))

    def pair(self, one: Gpu, other: Gpu) -> str:
        """How two GPUs reach each other, as ``topo -m`` prints it.

        All links lead to the switches, so a pair has as many as the lesser of the two ever had: a
        link that is down is shown by ``nvlink -s``; no recording shows ``topo -m`` beside it.
        """
        for name in (f"GPU{one.place}-GPU{other.place}", f"GPU{other.place}-GPU{one.place}"):
            if name in self.topology:
                return self.topology[name]
        links = min(len(one.nvlinks), len(other.nvlinks))
        if links and self.nvswitches:
            return f"NV{links}"
        return "NODE" if one.numa == other.numa else "SYS"

    def beside(self, gpu: Gpu, nic: PciFunction) -> bool:
        """Whether the two hang on one PCIe switch: the n-th NIC beside the n-th GPU."""
        return self.nics.index(nic) == gpu.place and nic.numa == gpu.numa


def load(root: Path = ROOT) -> Node:
    """The node as it is now. Raises ``StateError`` on a file that is there and cannot be read."""
    run = root / "run/lab"
    data = _json(run / "node.json")
    if data is None:
        raise StateError(f"{run / 'node.json'}: no such file")
    try:
        gpus = tuple(_typed(Gpu, item) for item in data["gpus"])
        return Node(
            root=root,
            platform=str(data["platform"]),
            secure_boot=bool(data["secure_boot"]),
            efi=bool(data["efi"]),
            mok_enrolled=tuple(str(key) for key in data["mok_enrolled"]),
            smi_hang=bool(data["smi_hang"]),
            gpus=tuple(sorted((g for g in gpus if g.present), key=lambda g: g.bus_id.lower())),
            nvswitches=tuple(_typed(PciFunction, item) for item in data["nvswitches"]),
            nics=tuple(_typed(PciFunction, item) for item in data["nics"]),
            topology={str(pair): str(kind) for pair, kind in data["topology"].items()},
            modules=_modules(run / "modules"),
            fabric=_fabric(run / "fabric.json", bool(data["nvswitches"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"{run / 'node.json'}: {error!r}") from error


def _typed(kind: Any, item: dict[str, Any]) -> Any:
    item = {("place" if name == "index" else name): value for name, value in item.items()}
    values = {name: value for name, value in item.items() if name in kind._fields}
    if "nvlinks" in values:
        values["nvlinks"] = tuple(bool(link) for link in values["nvlinks"])
    return kind(**values)


def _modules(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    return {name: _json(folder / name) or {} for name in names if not name.startswith(".")}


def _fabric(path: Path, switches: bool) -> Fabric:
    """A board with NVSwitches waits for its manager until that has written the file."""
    data = _json(path)
    if data is None:
        return Fabric() if switches else Fabric("N/A", "N/A")
    state = str(data.get("state", "In Progress"))
    done = state == "Completed"
    zero = "00000000-0000-0000-0000-000000000000"
    return Fabric(
        state=state,
        status=str(data.get("status", "N/A")),
        clique=str(data.get("clique", "0")) if done else "N/A",
        cluster_uuid=str(data.get("cluster_uuid", zero)) if done else "N/A",
    )


def _json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open(encoding="utf-8") as handle:
            text = handle.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: {error}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise StateError(f"{path}: not an object")
    return data


def reset(root: Path = ROOT, indexes: set[int] | None = None) -> None:
    """Do to the hardware what a GPU reset (or a boot) does; ``indexes`` are places on the board.

    A pending row remap is carried out, pending ECC mode is taken over, volatile counters start
    anew. What only hands can mend (a missing GPU, a narrow link, a failed remap) stays.
    """
    for path in (root / "var/lib/lab/node.json", root / "run/lab/node.json"):
        data = _json(path)
        if data is None:
            continue
        for gpu in data.get("gpus", ()):
            if indexes is not None and gpu.get("index") not in indexes:
                continue
            if gpu.get("remap_pending"):
                gpu["remap_pending"] = False
            gpu["ecc_current"] = gpu.get("ecc_pending", True)
            gpu["ecc_uncorrectable_volatile"] = 0
        write_json(path, data)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace ``path`` whole, so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def cuda_version(driver: str) -> str:
    """The CUDA version that a driver reports (NVIDIA's lifecycle table; 590 from a recording;
    595 lies between 590's 13.1 and 610's 13.3: inferred).
    """
    known = {
        "535": "12.2", "565": "12.7", "570": "12.8", "575": "12.9", "580": "13.0", "590": "13.1",
        "595": "13.2", "610": "13.3", "620": "13.5",
    }  # fmt: skip
    return known.get(driver.partition(".")[0], "13.5")


def branch(driver: str) -> int:
    """The branch of a driver version: 580 of 580.173.02."""
    head = driver.partition(".")[0]
    return int(head) if head.isdigit() else 0
