"""`nvidia-smi --version`: the userspace that is installed.

Evidence: lines quoted in public documents (550 to 590). Driver 610 prints "Deprecated, see ..."
under "DRIVER version" and the value under "KMD version": quoted in public tests, format
unverified (no capture in the corpus).
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import SmiVersion
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines
from fabric_tools.parsers.smi_answer import error_note

PROBE = "nvidia_smi_version"

_VERSION = re.compile(r"\d{2,4}(?:\.\d{1,6}){1,3}", re.ASCII)
_READ = ("nvidia-smi version", "nvml version", "driver version", "kmd version")


def parse_smi_version(text: str) -> SmiVersion:
    """The labelled lines; labels are compared without case, values are kept as printed."""
    lines = bare_lines(PROBE, text, 10_000, 4096)
    found: dict[str, tuple[str, int]] = {}
    labels: set[str] = set()
    for number, line in enumerate(lines, start=1):
        label, separator, value = line.partition(":")
        label, value = " ".join(label.split()).lower(), value.strip()
        if separator:
            labels.add(label)
        if not separator or label not in _READ or value.lower().startswith("deprecated"):
            continue
        if label in found:
            raise ParseError(PROBE, number, f"{label!r} stands there twice")
        if value != "N/A" and not _VERSION.fullmatch(value):
            raise ParseError(PROBE, number, f"{label!r} is not a version: {value[:40]!r}")
        found[label] = (value, number)

    def get(label: str) -> str | None:
        value = found.get(label, ("N/A", 0))[0]
        return None if value == "N/A" else value

    smi = get("nvidia-smi version")
    if smi is None:
        raise ParseError(PROBE, 0, "no line 'NVIDIA-SMI version'" + error_note(lines))
    if "nvml version" not in labels or not labels & {"driver version", "kmd version"}:
        raise ParseError(PROBE, 0, "cut: no line for NVML or driver" + error_note(lines))
    return SmiVersion(
        smi_version=smi,
        nvml_version=get("nvml version"),
        driver_version=get("driver version") or get("kmd version"),
        line=found["nvidia-smi version"][1],
    )
