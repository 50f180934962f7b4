"""The CUDA reader with a library that answers in the ways that matter."""

from __future__ import annotations

import ctypes
import json

import pytest

from fabric_tools.node import cuda
from fabric_tools.node.nvml import EXIT_ABSENT
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.cuda_init import parse_cuda_init


class Library:
    """What the reader calls of libcuda.so.1."""

    def __init__(self, init: int, count: int = 8, result: int = 0, name: bytes = b"N") -> None:
        self._init, self._count, self._result, self._name = init, count, result, name

    def cuInit(self, flags: int) -> int:
        assert flags == 0
        return self._init

    def cuDeviceGetCount(self, pointer: object) -> int:
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int))[0] = self._count  # type: ignore[arg-type]
        return self._result

    def cuGetErrorName(self, result: int, pointer: object) -> int:
        if not self._name:
            return 1
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_char_p))[0] = self._name  # type: ignore[arg-type]
        return 0


def read(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, object]:
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda _: library)
    assert cuda.main() == 0
    text = capsys.readouterr().out
    fact = parse_cuda_init(text)
    answer: dict[str, object] = json.loads(text)
    assert (fact.code, fact.devices, fact.name) == tuple(
        answer[key] for key in ("code", "devices", "name")
    )
    return answer


def test_it_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = read(Library(0, 8), monkeypatch, capsys)
    assert found == {"code": 0, "devices": 8, "name": "N"}


@pytest.mark.parametrize("code", [802, 803, 100, 999])
def test_it_does_not_start(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read(Library(code, name=b"CUDA_ERROR_X"), monkeypatch, capsys)
    assert found == {"code": code, "devices": None, "name": "CUDA_ERROR_X"}


def test_no_count_and_no_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read(Library(0, 8, result=3, name=b""), monkeypatch, capsys)
    assert found == {"code": 3, "devices": None, "name": ""}


def test_no_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(cuda.ctypes, "CDLL", absent)
    assert cuda.main() == EXIT_ABSENT
    assert "libcuda.so.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"code": 0, "name": "", "devices": null}',
     '{"code": "0", "name": "", "devices": 8}', '{"code": 0, "name": "", "devices": 8',
     '{"code": 0, "name": "", "devices": 8, "x": 1}'],
)  # fmt: skip
def test_an_answer_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_cuda_init(text)
