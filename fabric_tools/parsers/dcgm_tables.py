"""`dcgmi health -c` and `dcgmi discovery -l`.

Evidence: one discovery of B300 re-rendered from facts, the message of unset watches verbatim; the
health table is schema-derived, the one before DCGM 2 as documented then (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import DcgmDiscovery, DcgmGpu, DcgmHealth
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    as_dict,
    as_str,
    json_start,
    load_json,
    numbered,
    read_lines,
)
from fabric_tools.parsers.saved import bare

PROBE_HEALTH = "dcgmi_health"
PROBE_DISCOVERY = "dcgmi_discovery"

_OVERALL = re.compile(r"\| Overall Health(?:: GPU Count \d{1,4})?\s*\| (\w[\w ]{0,30}?)\s*\|$")
# The tables of DCGM before 2.
_OVERALL_OLD = re.compile(r"\| (?:.{1,60}? \| )?Overall Health: (\w[\w ]{0,30}?)\s*\|$")
_ROW = re.compile(r"\| (.{0,80}?)\s*\| (.{1,120}?)\s*\|$")
_RULE = re.compile(r"\+-{5,60}\+-{5,100}\+$")
_STATES = ("Healthy", "Warning", "Failure", "Internal error")
_COUNT = re.compile(r"(\d{1,4}) (GPU|NvSwitch|NVSwitch|CPU)(?:s|es|\(s\))? found\.?$", re.ASCII)
_GPU = re.compile(r"\| (\d{1,4})\s*\| Name: (\S.{0,100}?)\s*\|$", re.ASCII)
_BUS = re.compile(r"\|\s+\| PCI Bus ID: ([0-9A-Fa-f:]{7,14}\.[0-7])\s*\|$")
_UUID = re.compile(r"\|\s+\| Device UUID: (GPU-[0-9A-Za-z-]{1,64})\s*\|$")


def _health_json(lines: list[str], start: int) -> DcgmHealth:
    root = as_dict(load_json(PROBE_HEALTH, "\n".join(lines[start:])))
    overall = as_dict(as_dict(root.get("body")).get("Overall Health"))
    state = as_str(overall.get("value"))
    if state not in _STATES:
        raise ParseError(PROBE_HEALTH, start + 1, "no overall health")
    return DcgmHealth(overall=state, complete=True, line=start + 1)


def parse_dcgm_health(text: str) -> DcgmHealth:
    """The overall line, or that no watch was set."""
    lines = read_lines(PROBE_HEALTH, bare(text), max_lines=20_000, max_line=100_000)
    start = json_start(lines)
    if start is not None:
        return _health_json(lines, start)
    overall: tuple[str, int] | None = None
    details: list[str] = []
    closed = False
    for number, line in numbered(lines):
        stripped = line.strip()
        if "Health watches not enabled" in line:
            return DcgmHealth(error=stripped.removeprefix("Error: "), complete=True, line=number)
        if match := _OVERALL_OLD.match(stripped) or _OVERALL.match(stripped):
            if overall is not None or match[1] not in _STATES:
                raise ParseError(PROBE_HEALTH, number, f"overall health {match[1][:40]!r}")
            overall = (match[1], number)
        elif overall is not None and (row := _ROW.match(stripped)):
            details.append(f"{row[1].strip()}: {row[2]}".removeprefix(": "))
        closed = _RULE.match(stripped) is not None
    if overall is None:
        raise ParseError(PROBE_HEALTH, 0, "no line 'Overall Health'")
    return DcgmHealth(overall=overall[0], details=tuple(details), complete=closed, line=overall[1])


def parse_dcgm_discovery(text: str) -> DcgmDiscovery:
    """Counts as the tool gives them and the GPUs it lists; they must agree where both are whole."""
    lines = read_lines(PROBE_DISCOVERY, bare(text), max_lines=20_000, max_line=400)
    counts: dict[str, int] = {}
    gpus: list[DcgmGpu] = []
    heads: list[tuple[int, int, str]] = []
    for number, line in numbered(lines):
        stripped = line.strip()
        if match := _COUNT.match(stripped):
            kind = match[2].lower()
            if kind in counts:
                raise ParseError(PROBE_DISCOVERY, number, f"{match[2]}s are counted twice")
            counts[kind] = int(match[1])
        elif gpu := _GPU.match(stripped):
            heads.append((int(gpu[1]), number, gpu[2]))
        elif heads and (bus := _BUS.match(stripped)):
            if len(gpus) == len(heads):
                raise ParseError(PROBE_DISCOVERY, number, "a bus id without a GPU")
            index, at, name = heads[-1]
            gpus.append(DcgmGpu(id=index, line=at, name=name, bus_id=bus[1]))
        elif gpus and (uuid := _UUID.match(stripped)):
            gpus[-1] = gpus[-1].model_copy(update={"uuid": uuid[1]})
    if "gpu" not in counts:
        raise ParseError(PROBE_DISCOVERY, 0, "no line 'N GPUs found.'")
    listed = len(gpus) == len(heads) == counts["gpu"]
    if len({gpu.id for gpu in gpus}) != len(gpus) or len(gpus) > counts["gpu"]:
        raise ParseError(PROBE_DISCOVERY, 0, "a GPU stands there twice, or more than were found")
    return DcgmDiscovery(
        gpu_count=counts["gpu"],
        gpus=tuple(gpus),
        nvswitch_count=counts.get("nvswitch"),
        cpu_count=counts.get("cpu"),
        complete=listed and "nvswitch" in counts,
    )
