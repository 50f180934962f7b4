"""`nvidia-smi --gpu-reset`: which GPUs were reset, and why not.

Evidence: two texts of one H100 node, re-rendered from facts; other refusals as quoted in public
reports (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.smi import GpuReset, ResetGpu, SmiNote
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note, find_smi_error

PROBE = "nvidia_smi_gpu_reset"

_ADDRESS = r"((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_RESET = re.compile(rf"\s*GPU {_ADDRESS} was successfully reset\.?$")
_BUS = re.compile(_ADDRESS)
_REFUSED = re.compile(
    r"could not be reset|couldn't run|currently being used|in use by another|was not reset"
    r"|not supported|Insufficient Permissions|primary GPU|requires? a (?:full )?reboot"
    r"|Unable to reset|failed to reset|Reset failed",
    re.IGNORECASE,
)
# A GPU with its reason, below "The following GPUs could not be reset:".
_LISTED = re.compile(rf"\s+GPU {_ADDRESS}: \S")
_SUBJECT = re.compile(r"GPU|device|reset|Permissions", re.IGNORECASE)


def parse_gpu_reset(text: str) -> GpuReset:
    """Each GPU that was reset and each line that refuses one."""
    lines = read_lines(PROBE, bare(text), max_chars=MIB, max_lines=5000)
    error = find_smi_error(lines)
    if error is not None:
        raise ParseError(PROBE, error.line, f"nvidia-smi said: {error.text[:200]}")
    reset: list[ResetGpu] = []
    refused: list[SmiNote] = []
    done = False
    for number, line in numbered(lines):
        if match := _RESET.match(line):
            reset.append(ResetGpu(line=number, bus_id=match[1]))
        elif _LISTED.match(line) or (_REFUSED.search(line) and _SUBJECT.search(line)):
            bus = _BUS.search(line)
            note = SmiNote(line=number, text=line.strip()[:400], bus_id=bus[1] if bus else None)
            refused.append(note)
        elif line.strip() == "All done.":
            done = True
        elif line.startswith("Terminating early due to previous errors"):
            continue
        elif "nvidia-smi" not in line and not line.startswith((" ", "\t")):
            raise ParseError(PROBE, number, f"not an answer to a reset: {line[:80]!r}")
    if not reset and not refused:
        raise ParseError(PROBE, 0, "no GPU was reset or refused" + error_note(lines))
    if len({gpu.bus_id.lower() for gpu in reset}) != len(reset):
        raise ParseError(PROBE, 0, "a GPU stands there twice")
    return GpuReset(reset=tuple(reset), refused=tuple(refused), done=done)
