"""`/proc/driver/nvidia/version`: the kernel module that runs now, whatever is on disk.

Evidence: real captures of the open module (580, 615); the proprietary form is re-rendered from a
kernel log line.
"""

from __future__ import annotations

import re
from typing import Literal

from fabric_tools.models.facts import LoadedModule
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines

PROBE = "nvidia_module"

_NVRM = re.compile(r"\s*NVRM version:")
# The open module names the architecture after "for", the proprietary one before "Kernel".
_MODULE = re.compile(
    r"\s*NVRM version: NVIDIA UNIX (?:(Open Kernel Module for \w+)|\w+ Kernel Module)"
    r"\s{1,8}(\d{3,4}(?:\.\d{1,6}){1,3})\s",
    re.ASCII,
)


def parse_loaded_module(text: str) -> LoadedModule:
    """The one NVRM line; the date behind the version shows that the version is not cut."""
    found: list[LoadedModule] = []
    for number, line in enumerate(bare_lines(PROBE, text), start=1):
        if not _NVRM.match(line):
            continue
        match = _MODULE.match(line)
        if match is None:
            raise ParseError(PROBE, number, f"cannot read {line.strip()[:80]!r}")
        flavour: Literal["open", "proprietary"] = "open" if match[1] else "proprietary"
        found.append(LoadedModule(version=match[2], flavour=flavour, line=number))
    if not found:
        raise ParseError(PROBE, 0, "no line 'NVRM version:' (module not loaded?)")
    if len(found) > 1:
        raise ParseError(PROBE, found[1].line, "two NVRM lines")
    return found[0]
