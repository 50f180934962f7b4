"""`nvidia-smi nvlink -s`: state and speed of every NVLink.

Evidence: real captures of H200, A100, L40S, H100 in MIG mode and a mixed workstation; B300 and
8x H100 are re-rendered from facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from fabric_tools.models.facts import NvlinkGpu, NvlinkLink, NvlinkStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines
from fabric_tools.parsers.smi_answer import error_note

PROBE = "nvidia_smi_nvlink"

State = Literal["links", "unsupported", "inactive", "mig"]

_GPU = re.compile(r"GPU (\d{1,4}): (.+?)(?: \(UUID: ([^)]*)\))?$", re.ASCII)
_LINK = re.compile(r"\s+Link (\d{1,4}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<inactive>)$", re.ASCII)
_COUNTER = re.compile(r"\s*Link \d+: .*(?:Errors|Data|Rx|Tx)", re.ASCII)
_STATES: tuple[tuple[str, State], ...] = (
    ("device does not have or support nvlink", "unsupported"),
    ("unable to retrieve nvlink information as all links are inactive", "inactive"),
    ("nvlink queries are not supported for devices in mig mode", "mig"),
)
_ELIDED = re.compile(r"\[?\.\.\.|\[?\u2026|<snip>")


@dataclass
class _Open:
    """A GPU whose lines are still being read."""

    index: int
    line: int
    name: str
    uuid: str | None
    state: State | None = None
    links: list[NvlinkLink] = field(default_factory=list)

    def whole(self) -> bool:
        if self.state is not None:
            return not self.links
        return bool(self.links) and [x.index for x in self.links] == list(range(len(self.links)))

    def closed(self) -> NvlinkGpu:
        return NvlinkGpu(
            index=self.index,
            line=self.line,
            name=self.name,
            uuid=self.uuid,
            state=self.state or "links",
            links=tuple(self.links),
        )


def _state(line: str) -> State | None:
    lowered = line.lower()
    return next((state for words, state in _STATES if words in lowered), None)


def _below_gpu(gpu: _Open, line: str, number: int) -> None:
    state = _state(line)
    if state is not None:
        if gpu.links or gpu.state is not None:
            raise ParseError(PROBE, number, f"GPU {gpu.index}: {state} after another answer")
        gpu.state = state
        return
    match = _LINK.match(line)
    if match is None:
        if _COUNTER.match(line):
            raise ParseError(PROBE, number, "counters of `nvlink -e` or `-g`, not `nvlink -s`")
        raise ParseError(PROBE, number, f"not a line of nvlink -s: {line.strip()[:60]!r}")
    index = int(match[1])
    if any(link.index == index for link in gpu.links):
        raise ParseError(PROBE, number, f"GPU {gpu.index}: link {index} stands there twice")
    speed = float(match[2]) if match[2] else None
    gpu.links.append(NvlinkLink(index=index, line=number, gbytes_s=speed))


def _is_prompt(line: str) -> bool:
    return "nvidia-smi nvlink" in line


def _read(lines: list[str]) -> tuple[list[_Open], bool]:
    gpus: list[_Open] = []
    whole = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        match = _GPU.match(line)
        if match is not None:
            gpus.append(_Open(int(match[1]), number, match[2], match[3]))
        elif _ELIDED.match(line.strip()):
            whole = False
        elif gpus:
            _below_gpu(gpus[-1], line, number)
        elif not _is_prompt(line):
            why = f"no GPU line before {line.strip()[:60]!r}"
            raise ParseError(PROBE, number, why + error_note(lines))
    return gpus, whole


def _same_length(gpus: list[_Open]) -> bool:
    """Every link is printed, up or not, so GPUs of one name show equally many unless cut."""
    counts: dict[str, set[int]] = {}
    for gpu in gpus:
        if gpu.state is None:
            counts.setdefault(gpu.name, set()).add(len(gpu.links))
    return all(len(lengths) == 1 for lengths in counts.values())


def parse_nvlink_status(text: str) -> NvlinkStatus:
    """Links of each GPU. A last line without its newline is cut unless it reads as a whole."""
    lines = bare_lines(PROBE, text, 50_000)
    last, cut = lines[-1], False
    if last.strip() and not (_LINK.match(last) or _state(last)):
        lines[-1], cut = "", True
    gpus, whole = _read(lines)
    if not gpus:
        raise ParseError(PROBE, 0, "no GPU line" + error_note(lines))
    indexes = [gpu.index for gpu in gpus]
    if len(set(indexes)) != len(indexes):
        raise ParseError(PROBE, 0, "a GPU stands there twice")
    complete = whole and not cut and all(gpu.whole() for gpu in gpus) and _same_length(gpus)
    return NvlinkStatus(gpus=tuple(gpu.closed() for gpu in gpus), complete=complete)
