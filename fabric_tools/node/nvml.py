"""Ask the NVML library through nvidia-ml-py's ``pynvml``. Runs in a child: a hung driver hangs it.

Prints one JSON object. A call that fails is listed under ``errors`` and its field is null; a GPU
whose handle cannot be had stays in the list with its error, so that a lost GPU is never skipped.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Callable, Dict, List, Optional

EXIT_ABSENT = 69
EXIT_DENIED = 77
EXIT_FAILED = 70

# nvml.h: NVML_GPU_FABRIC_STATE_*
_FABRIC_STATES = {0: "Not Supported", 1: "Not Started", 2: "In Progress", 3: "Completed"}


class _Reader:
    """Calls NVML and keeps a list of what refused."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.errors: List[Dict[str, object]] = []

    def get(self, gpu: Optional[int], name: str, call: Callable[[], Any]) -> Any:
        try:
            value = call()
        except self.nvml.NVMLError as error:
            self.errors.append({"gpu": gpu, "field": name, "error": str(error)})
            return None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def system(self) -> Dict[str, object]:
        nvml = self.nvml
        count = self.get(None, "count", nvml.nvmlDeviceGetCount)
        return {
            "driver_version": self.get(None, "driver_version", nvml.nvmlSystemGetDriverVersion),
            "nvml_version": self.get(None, "nvml_version", nvml.nvmlSystemGetNVMLVersion),
            "count": count,
            "gpus": [self.gpu(index) for index in range(count or 0)],
            "errors": self.errors,
        }

    def gpu(self, index: int) -> Dict[str, object]:
        nvml, facts = self.nvml, {"index": index}  # type: Any, Dict[str, object]
        handle = self.get(index, "handle", lambda: nvml.nvmlDeviceGetHandleByIndex(index))
        facts["reachable"] = handle is not None
        if handle is None:
            return facts

        def ask(name: str, call: Callable[[], Any]) -> Any:
            return self.get(index, name, call)

        facts["product"] = ask("product", lambda: nvml.nvmlDeviceGetName(handle))
        facts["uuid"] = ask("uuid", lambda: nvml.nvmlDeviceGetUUID(handle))
        pci = ask("pci", lambda: nvml.nvmlDeviceGetPciInfo(handle))
        if pci is not None:
            facts["bus_id"] = _text(pci.busId)
            facts["pci_device_id"] = _pci_id(pci.pciDeviceId)
        ecc = ask("ecc_mode", lambda: nvml.nvmlDeviceGetEccMode(handle))
        facts["ecc_mode"] = None if ecc is None else [bool(ecc[0]), bool(ecc[1])]
        facts["ecc_volatile_uncorrectable"] = ask(
            "ecc_volatile_uncorrectable",
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
        )
        rows = ask("remapped_rows", lambda: nvml.nvmlDeviceGetRemappedRows(handle))
        facts["remapped_rows"] = None if rows is None else [int(value) for value in rows]
        facts["pcie_width_current"] = ask(
            "pcie_width_current", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
        )
        facts["fabric_state"] = self._fabric(index, handle)
        facts["nvlinks_active"] = self._nvlinks(index, handle)
        return facts

    def _fabric(self, index: int, handle: Any) -> Optional[str]:
        nvml = self.nvml

        def call() -> Any:
            info = nvml.c_nvmlGpuFabricInfo_t()
            nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
            return info

        info = self.get(index, "fabric_state", call)
        return None if info is None else _FABRIC_STATES.get(int(info.state), str(info.state))

    def _nvlinks(self, index: int, handle: Any) -> Optional[List[bool]]:
        """State of each link, up to the first number the driver does not know."""
        states: List[bool] = []
        for link in range(self.nvml.NVML_NVLINK_MAX_LINKS):
            try:
                states.append(bool(self.nvml.nvmlDeviceGetNvLinkState(handle, link)))
            except (
                self.nvml.NVMLError_InvalidArgument,
                self.nvml.NVMLError_NotSupported,
            ):
                break
            except self.nvml.NVMLError as error:
                self.errors.append({"gpu": index, "field": "nvlink", "error": str(error)})
                return None
        return states


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _pci_id(value: int) -> str:
    """NVML packs the device in the high and the vendor in the low half: 0x233010DE."""
    return "%04x:%04x" % (value & 0xFFFF, value >> 16)


def main() -> int:
    """Print the JSON; exit 69 where there is no NVML library, 77 where it refuses this user."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_ABSENT
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        print(error, file=sys.stderr)
        denied = isinstance(error, nvml.NVMLError_NoPermission)
        return EXIT_DENIED if denied else EXIT_FAILED
    print(json.dumps(_Reader(nvml).system()))
    return 0
