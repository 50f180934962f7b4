"""Whether nvidia-smi could talk to the driver: the error texts that any sub-command may print.

Evidence: real captures of the driver/library mismatch, "Unknown Error", "couldn't communicate"
and "No devices were found" texts; the lost-GPU, permission and missing-library texts are as
quoted in public reports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabric_tools.models.facts import SmiAnswer, SmiErrorKind
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines

PROBE = "nvidia_smi"

_ERRORS: tuple[tuple[SmiErrorKind, re.Pattern[str]], ...] = (
    (
        "driver_library_mismatch",
        re.compile(r"\s*Failed to initialize NVML: Driver/library version mismatch"),
    ),
    (
        "driver_not_loaded",
        re.compile(
            r"\s*(?:NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"
            r"|Failed to initialize NVML: Driver Not Loaded)",
            re.IGNORECASE,
        ),
    ),
    ("no_devices", re.compile(r"\s*No devices were found\s*$")),
    (
        "gpu_lost",
        # "Not Supported" after the same words is what a consumer GPU says to `nvidia-smi mig`.
        re.compile(
            r"\s*Unable to determine the device handle for (?:gpu|GPU)[^\n]*?"
            r"(?:Unknown Error|GPU is lost|Not Found)|.*\bGPU is lost\b"
        ),
    ),
    ("nvml_unknown_error", re.compile(r"\s*Failed to initialize NVML: Unknown Error")),
    (
        "insufficient_permissions",
        re.compile(r"\s*Failed to initialize NVML: Insufficient Permissions"),
    ),
    ("library_not_found", re.compile(r"\s*NVIDIA-SMI couldn't find libnvidia-ml\.so")),
)

#: Words of which one stands in every error text above: looked for first, because it is much faster.
_HINT = re.compile(
    r"initialize NVML|NVIDIA-SMI (?:has|couldn)|No devices|device handle|GPU is lost", re.IGNORECASE
)

#: Cells in an otherwise whole answer: that GPU can no longer be read, and wants a reset.
_UNREADABLE = re.compile(r"\bERR!|\bGPU requires reset", re.IGNORECASE)

_GOOD = re.compile(
    r"\s*<nvidia_smi_log[\s>]"
    r"|={5,}NVSMI LOG={5,}"
    r"|\s*GPU0(?:\s+(?:GPU|NIC|mlx|CPU)|\s*$)"
    r"|GPU \d+: .+ \(UUID: GPU-"
    r"|\| NVIDIA-SMI \d"
)


def find_smi_error(lines: Sequence[str]) -> SmiAnswer | None:
    """The first line that is a known error text of nvidia-smi, or None."""
    for number, line in enumerate(lines, start=1):
        if _HINT.search(line) is None:
            continue
        for kind, pattern in _ERRORS:
            if pattern.match(line):
                return SmiAnswer(error=kind, text=line.strip(), line=number)
    return None


def error_note(lines: Sequence[str]) -> str:
    """Words to append to a ParseError when the text is an error message, else nothing."""
    found = find_smi_error(lines)
    if found is not None:
        return f"; nvidia-smi said: {found.text}"
    said = next((line.strip() for line in lines if line.lstrip().startswith("ERROR:")), None)
    return f"; nvidia-smi said: {said}" if said else ""


def parse_smi_answer(text: str) -> SmiAnswer:
    """An error text anywhere wins over good output: a lost GPU is announced before the others."""
    lines = bare_lines(PROBE, text)
    found = find_smi_error(lines) if _HINT.search(text) else None
    if found is not None:
        return found
    for number, line in enumerate(lines, start=1):
        if _UNREADABLE.search(line):
            return SmiAnswer(error="gpu_unreadable", text=line.strip(), line=number)
    for number, line in enumerate(lines, start=1):
        if _GOOD.match(line):
            return SmiAnswer(error=None, text=line.strip(), line=number)
    raise ParseError(PROBE, 0, "neither a known answer nor a known error of nvidia-smi")
