"""A CUDA error as programs print it.

Evidence: one line of PyTorch re-rendered from facts; the forms of NCCL, nccl-tests and deviceQuery
follow public reports (format unverified); names and numbers are those of the CUDA headers.
"""

from __future__ import annotations

import re

from fabric_tools.models.system import CudaError
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "cuda_error"

_NUMBERED = re.compile(r"\b[Ee]rror (\d{1,4}): (\S.{0,300})", re.ASCII)
# NCCL: Cuda failure 802 'system not yet initialized'; nccl-tests: Test CUDA failure file:1 'words'.
_QUOTED = re.compile(
    r"\bCuda (?:failure|error)(?: (\d{1,4}))?(?: [\w./-]{1,80}:\d{1,6})? '([^']{1,200})'",
    re.IGNORECASE | re.ASCII,
)
#: Programs of the CUDA samples name no CUDA: Error (file.cpp:298): system not yet initialized
_SAMPLE = re.compile(r"\bError \([\w./-]{1,80}:\d{1,6}\): (\S.{0,300})", re.ASCII)
_RETURNED = re.compile(r"\bcuda[A-Z]\w{2,60} returned (\d{1,4})$", re.ASCII)
_WORDED = re.compile(r"CUDA(?: driver| runtime)? error:? (\S.{0,300})", re.IGNORECASE)
_NAME = re.compile(r"\b(?:cudaError[A-Z]\w{2,60}|CUDA_ERROR_[A-Z_]{3,60})\b", re.ASCII)
_CODES = {
    "system not yet initialized": 802,
    "system has unsupported display driver / cuda driver combination": 803,
    "forward compatibility was attempted on non supported hw": 804,
    "no cuda-capable device is detected": 100,
    "invalid device ordinal": 101,
    "cuda driver version is insufficient for cuda runtime version": 35,
    "all cuda-capable devices are busy or unavailable": 46,
    "initialization error": 3,
    "out of memory": 2,
    "uncorrectable ecc error encountered": 214,
    "uncorrectable nvlink error detected during the execution": 220,
    "an illegal memory access was encountered": 700,
    "unspecified launch failure": 719,
    "unknown error": 999,
    "cudaerrorsystemnotready": 802,
    "cuda_error_system_not_ready": 802,
    "cudaerrorsystemdrivermismatch": 803,
    "cuda_error_system_driver_mismatch": 803,
    "cudaerrornodevice": 100,
    "cuda_error_no_device": 100,
}


def _code(words: str) -> int | None:
    lowered = words.lower().strip(" .\"'()")
    if lowered.isascii() and lowered.isdigit() and len(lowered) <= 4:
        return int(lowered)  # CUDA error 802
    return next((code for text, code in _CODES.items() if lowered.startswith(text)), None)


def parse_cuda_error(text: str) -> CudaError:
    """The first error; the number that is printed wins over the one of its words."""
    for number, line in numbered(read_lines(PROBE, text, max_chars=1024 * 1024)):
        if (match := _SAMPLE.search(line)) and (code := _code(match[1])) is not None:
            return CudaError(code=code, text=match[1].strip(), line=number)
        if "cuda" not in line.lower():
            continue
        if match := _NUMBERED.search(line):
            known = _code(match[2])
            if known is not None and known != int(match[1]):
                raise ParseError(
                    PROBE, number, f"error {match[1]} has other words: {match[2][:60]!r}"
                )
            return CudaError(code=int(match[1]), text=match[2].strip(), line=number)
        if match := _QUOTED.search(line):
            code = int(match[1]) if match[1] else _code(match[2])
            return CudaError(code=code, text=match[2].strip(), line=number)
        if (match := _RETURNED.search(line)) and int(match[1]):
            return CudaError(code=int(match[1]), text=match[0], line=number)
        if match := _WORDED.search(line):
            return CudaError(code=_code(match[1]), text=match[1].strip(), line=number)
        if match := _NAME.search(line):
            return CudaError(code=_code(match[0]), text=match[0], line=number)
    raise ParseError(PROBE, 0, "no CUDA error")
