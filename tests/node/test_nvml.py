"""The NVML reader with pynvml's own error classes and a library that answers in part."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from fabric_tools.node import nvml
from fabric_tools.parsers.nvml import parse_nvml


class Library:
    """pynvml with some answers; what is not given here is refused like a missing symbol."""

    NVMLError = pynvml.NVMLError
    NVMLError_InvalidArgument = pynvml.NVMLError_InvalidArgument
    NVMLError_NotSupported = pynvml.NVMLError_NotSupported
    NVML_NVLINK_MAX_LINKS = 18
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    NVML_VOLATILE_ECC = pynvml.NVML_VOLATILE_ECC
    c_nvmlGpuFabricInfo_t = pynvml.c_nvmlGpuFabricInfo_t

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            if name not in self._answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            answer = self._answers[name]
            return answer(*args) if callable(answer) else answer

        return call


def read(**answers: Any):  # type: ignore[no-untyped-def]
    reader = nvml._Reader(Library(**answers))
    return parse_nvml(json.dumps(reader.system()))


def whole(**changes: Any) -> dict[str, Any]:
    return {
        "nvmlDeviceGetCount": 2,
        "nvmlSystemGetDriverVersion": b"580.95.05",
        "nvmlSystemGetNVMLVersion": "13.580.95.05",
        "nvmlDeviceGetHandleByIndex": lambda index: f"handle{index}",
        "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:18:00.0", pciDeviceId=0x233010DE),
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetTotalEccErrors": 0,
        "nvmlDeviceGetRemappedRows": [0, 1, False, True],
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetNvLinkState": lambda handle, link: link != 3,
        **changes,
    }


def test_whole_answer() -> None:
    facts = read(**whole())
    assert facts.driver_version == "580.95.05" and facts.count == 2
    gpu = facts.gpus[1]
    assert gpu.reachable and gpu.pci_device_id == "10de:2330"
    assert gpu.remapped_rows == (0, 1, 0, 1)
    assert gpu.nvlinks_active is not None and gpu.nvlinks_active.count(False) == 1
    assert gpu.fabric_state is None
    assert {e.field for e in facts.errors} == {"fabric_state"}


def test_a_lost_gpu_stays_in_the_list() -> None:
    def handle(index: int) -> str:
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return "h"

    facts = read(**whole(nvmlDeviceGetHandleByIndex=handle))
    assert [gpu.reachable for gpu in facts.gpus] == [True, False]
    assert facts.errors[-1].gpu == 1 and facts.errors[-1].field == "handle"


def test_links_end_where_the_driver_ends_them() -> None:
    def state(_: str, link: int) -> bool:
        if link >= 12:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return True

    assert read(**whole(nvmlDeviceGetNvLinkState=state)).gpus[0].nvlinks_active == (True,) * 12


def test_no_count_is_no_gpus_and_says_so() -> None:
    facts = read()
    assert facts.count is None and facts.gpus == ()
    assert {e.field for e in facts.errors} == {"driver_version", "nvml_version", "count"}


def test_no_library_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(nvml.ctypes, "CDLL", refuse)
    assert nvml.main() == nvml.EXIT_ABSENT


@pytest.mark.parametrize(
    ("code", "status"),
    [(pynvml.NVML_ERROR_NO_PERMISSION, nvml.EXIT_DENIED),
     (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, nvml.EXIT_FAILED)],
)  # fmt: skip
def test_a_refusing_library(monkeypatch: pytest.MonkeyPatch, code: int, status: int) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: None)
    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert nvml.main() == status
