"""`nvidia-smi nvlink -e`: error counters of every NVLink.

Evidence: one real, elided capture of H100; the longer lists of B-series drivers follow public
reports (format unverified).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from fabric_tools.models.smi import NvlinkCounters, NvlinkErrorGpu, NvlinkErrors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note

PROBE = "nvidia_smi_nvlink_errors"

State = Literal["links", "unsupported", "inactive", "mig"]

_GPU = re.compile(r"GPU (\d{1,4}): (.{1,100}?)(?: \(UUID: ([^)]{1,80})\))?$", re.ASCII)
_COUNTER = re.compile(
    r"\s+Link (\d{1,4}): ([A-Za-z][^:]{0,60}(?:: [A-Za-z][^:]{0,40})?): ?(\S{1,40})(?: [KM]iB)?$",
    re.ASCII,
)
_SPEED = re.compile(r"\s+Link \d{1,4}: (?:<inactive>$|[\d.]{1,12} GB/s$)", re.ASCII)
_COUNT = re.compile(r"\d{1,20}", re.ASCII)
_RATE = re.compile(r"\d{1,6}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?", re.ASCII)
_ELIDED = re.compile(r"\[?\.\.\.|\[?\u2026|<snip>")
_STATES: tuple[tuple[str, State], ...] = (
    ("device does not have or support nvlink", "unsupported"),
    ("unable to retrieve nvlink information as all links are inactive", "inactive"),
    ("nvlink queries are not supported for devices in mig mode", "mig"),
)


@dataclass
class _Link:
    index: int
    line: int
    counts: dict[str, int | None] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)

    def closed(self) -> NvlinkCounters:
        return NvlinkCounters(
            index=self.index, line=self.line, counts=self.counts, rates=self.rates
        )


@dataclass
class _Gpu:
    index: int
    line: int
    name: str
    uuid: str | None
    state: State | None = None
    links: dict[int, _Link] = field(default_factory=dict)

    def whole(self) -> bool:
        if self.state is not None:
            return not self.links
        names = {frozenset(link.counts) | frozenset(link.rates) for link in self.links.values()}
        return list(self.links) == list(range(len(self.links))) and len(names) == 1

    def closed(self) -> NvlinkErrorGpu:
        return NvlinkErrorGpu(
            index=self.index,
            line=self.line,
            name=self.name,
            uuid=self.uuid,
            state=self.state or "links",
            links=tuple(link.closed() for link in self.links.values()),
        )


def _counter(gpu: _Gpu, match: re.Match[str], number: int) -> None:
    index, name, value = int(match[1]), match[2], match[3]
    last = next(reversed(gpu.links), None)
    link = gpu.links.setdefault(index, _Link(index, number))
    if (last is not None and index < last) or name in link.counts or name in link.rates:
        raise ParseError(PROBE, number, f"GPU {gpu.index} link {index}: {name} twice or disordered")
    if _COUNT.fullmatch(value):
        link.counts[name] = int(value)
    elif value in ("N/A", "[N/A]"):
        link.counts[name] = None
    elif _RATE.fullmatch(value) and float(value) < 1e300:
        link.rates[name] = float(value)
    else:
        raise ParseError(PROBE, number, f"{name}: not a count: {value!r}")


def _below(gpu: _Gpu, line: str, number: int) -> None:
    lowered = line.lower()
    state = next((state for words, state in _STATES if words in lowered), None)
    if state is not None:
        if gpu.links or gpu.state is not None:
            raise ParseError(PROBE, number, f"GPU {gpu.index}: {state} after another answer")
        gpu.state = state
        return
    if _SPEED.match(line):
        raise ParseError(PROBE, number, "speeds of `nvlink -s`, not `nvlink -e`")
    match = _COUNTER.match(line)
    if match is None or gpu.state is not None:
        raise ParseError(PROBE, number, f"not a line of nvlink -e: {line.strip()[:60]!r}")
    _counter(gpu, match, number)


def _same(gpus: list[_Gpu]) -> bool:
    lengths: dict[str, set[int]] = {}
    for gpu in gpus:
        if gpu.state is None:
            lengths.setdefault(gpu.name, set()).add(len(gpu.links))
    return all(len(found) == 1 for found in lengths.values())


def _is_cut(line: str) -> bool:
    """The last line, without its newline, that says nothing by itself."""
    lowered = line.lower()
    told = _COUNTER.match(line) or _SPEED.match(line)
    return told is None and not any(words in lowered for words, _ in _STATES)


def parse_nvlink_errors(text: str) -> NvlinkErrors:
    """Counters of each link. A last line without its newline may be cut, so it is dropped."""
    lines = read_lines(PROBE, bare(text), max_line=300)
    gpus: list[_Gpu] = []
    whole = True
    for number, line in numbered(lines):
        if match := _GPU.match(line):
            gpus.append(_Gpu(int(match[1]), number, match[2], match[3]))
        elif _ELIDED.match(line.strip()) or (number == len(lines) and gpus and _is_cut(line)):
            whole = False
        elif gpus:
            _below(gpus[-1], line, number)
        elif "nvidia-smi nvlink" not in line:
            why = f"no GPU line before {line.strip()[:60]!r}"
            raise ParseError(PROBE, number, why + error_note(lines))
    if not gpus or not any(gpu.links or gpu.state for gpu in gpus):
        raise ParseError(PROBE, 0, "no counters" + error_note(lines))
    if len({gpu.index for gpu in gpus}) != len(gpus):
        raise ParseError(PROBE, 0, "a GPU stands there twice")
    complete = whole and all(gpu.whole() for gpu in gpus) and _same(gpus)
    return NvlinkErrors(gpus=tuple(gpu.closed() for gpu in gpus), complete=complete)
