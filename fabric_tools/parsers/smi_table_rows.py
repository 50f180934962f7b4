"""Rows of the plain `nvidia-smi` table, cell by cell.

Evidence: see ``smi_table``.
"""

from __future__ import annotations

import re

from fabric_tools.models.smi import SmiMigDevice, SmiProcess, SmiTableGpu
from fabric_tools.parsers.base import ParseError

_NAME = re.compile(
    r"\s*(\d{1,4})\s+(\S.*?)\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM|\[[\w ]{1,40}\])\s*$", re.ASCII
)
_BUS = re.compile(
    r"\s*((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+(?:On|Off|N/A|ERR!)\s*$"
)
_BAD = r"ERR!|\[[A-Za-z ]{1,40}\]|Unknown Error"
_SENSORS = (
    rf"\s*(?P<fan>\d{{1,3}}%|N/A|{_BAD})\s+(?P<temp>\d{{1,3}}C|N/A|{_BAD})"
    rf"\s+(?P<perf>P\d{{1,2}}|N/A|{_BAD})"
    rf"\s+(?P<draw>\d{{1,5}}W|N/A|{_BAD}) / +(?P<cap>\d{{1,5}}W|N/A|{_BAD})\s*"
)
_MEMORY = rf"\s*(?P<used>\d{{1,9}}MiB|N/A|{_BAD}) / +(?P<total>\d{{1,9}}MiB|N/A|{_BAD})\s*"
_SENSOR_CELL = re.compile(_SENSORS + "$", re.ASCII)
_MEMORY_CELL = re.compile(_MEMORY + "$", re.ASCII)
# A GPU that shares the memory of its CPU (GB10) has one word in the place of both numbers.
_SHARED_MEMORY = re.compile(r"\s*(?:Not Supported|N/A)\s*$")
_LOOSE = re.compile(_SENSORS + r"\|?" + _MEMORY + r"(?:\||$)", re.ASCII)
_USE = re.compile(rf"\s*(\d{{1,3}}%|N/A|{_BAD})\s+(\S.{{0,30}}?)\s*$", re.ASCII)
_MIG_MODE = re.compile(r"(?:Enabled|Disabled)\*?|N/A|ERR!")
MIG_ROW = re.compile(
    r"\|\s+(\d{1,4})\s+(\d{1,4}|N/A)\s+(\d{1,4}|N/A)\s+(\d{1,4})\s*"
    r"\|\s*(\d{1,9})MiB / +(\d{1,9})MiB",
    re.ASCII,
)
PROCESS = re.compile(
    r"\|\s+(\d{1,4})\s+(?:(?:N/A|\d{1,4})\s+(?:N/A|\d{1,4})\s+)?(\d{1,10})\s+([CGM](?:\+[CGM])?)"
    r"\s+(\S.*?)\s+(\d{1,9}MiB|N/A)\s*\|$",
    re.ASCII,
)


class _Cells:
    """Numbers out of cells; what the driver could not read is remembered by its name."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []

    def word(self, name: str, cell: str) -> str | None:
        if cell.startswith("[") or cell in ("ERR!", "Unknown Error"):
            if cell.strip("[]") not in ("N/A", "Not Supported"):
                self.unreadable.append(name)
            return None
        return None if cell == "N/A" else cell

    def number(self, name: str, cell: str, unit: str) -> int | None:
        word = self.word(name, cell)
        return None if word is None else int(word.removesuffix(unit))


def _sensors(cells: _Cells, match: re.Match[str]) -> dict[str, int | str | None]:
    return {
        "fan_percent": cells.number("fan_percent", match["fan"], "%"),
        "temperature_c": cells.number("temperature_c", match["temp"], "C"),
        "pstate": cells.word("pstate", match["perf"]),
        "power_draw_w": cells.number("power_draw_w", match["draw"], "W"),
        "power_cap_w": cells.number("power_cap_w", match["cap"], "W"),
    }


def _memory(cells: _Cells, match: re.Match[str]) -> dict[str, int | str | None]:
    return {
        "memory_used_mib": cells.number("memory_used_mib", match["used"], "MiB"),
        "memory_total_mib": cells.number("memory_total_mib", match["total"], "MiB"),
    }


def _first(cells: _Cells, row: list[str]) -> dict[str, int | str | bool | None] | None:
    name, bus, ecc = _NAME.match(row[0]), _BUS.match(row[1]), row[2].strip()
    if name is None or bus is None:
        return None
    if not re.fullmatch(rf"N/A|On|Off|\d{{1,18}}|{_BAD}", ecc, re.ASCII):
        return None
    windows = name[3] in ("WDDM", "TCC", "MCDM")
    return {
        "index": int(name[1]),
        "name": name[2],
        "persistence": None if windows else cells.word("persistence", name[3]),
        "driver_model": name[3] if windows else None,
        "bus_id": bus[1],
        "ecc_off": ecc == "Off",
        "ecc_uncorrectable_volatile": None
        if ecc in ("On", "Off")  # "On" is what a GPU in MIG mode shows: no count
        else cells.number("ecc_uncorrectable_volatile", ecc, ""),
    }


def _second(cells: _Cells, row: list[str]) -> dict[str, int | str | None] | None:
    sensors, memory = _SENSOR_CELL.match(row[0]), _MEMORY_CELL.match(row[1])
    shared = _SHARED_MEMORY.match(row[1])
    use = _USE.match(row[2])
    if sensors is None or (memory is None and shared is None) or use is None:
        return None
    return {
        **_sensors(cells, sensors),
        **(_memory(cells, memory) if memory else {}),
        "utilization_percent": cells.number("utilization_percent", use[1], "%"),
        "compute_mode": use[2],
    }


def read_gpu(probe: str, block: list[tuple[int, str]]) -> SmiTableGpu:
    """The two or three rows of one GPU."""
    rows = [line.strip("|").split("|") for _, line in block]
    start = block[0][0]
    if len(rows) not in (2, 3) or any(len(row) != 3 for row in rows):
        raise ParseError(probe, start, "a GPU has two or three rows of three cells")
    cells = _Cells()
    first, second = _first(cells, rows[0]), _second(cells, rows[1])
    if first is None or second is None:
        at = block[0] if first is None else block[1]
        raise ParseError(probe, at[0], f"cannot read the row {at[1].strip()[:90]!r}")
    mig = rows[2][2].strip() if len(rows) == 3 else "N/A"
    if not _MIG_MODE.fullmatch(mig):
        raise ParseError(probe, block[2][0], f"MIG mode {mig[:40]!r}")
    return SmiTableGpu.model_validate(
        {
            "line": start,
            **first,
            **second,
            "mig_mode": cells.word("mig_mode", mig),
            "unreadable": tuple(cells.unreadable),
        }
    )


def read_loose_row(probe: str, line: str, number: int) -> SmiTableGpu | None:
    """A second row without its frame."""
    match = _LOOSE.match(line)
    if match is None:
        return None
    cells = _Cells()
    values = {**_sensors(cells, match), **_memory(cells, match)}
    return SmiTableGpu.model_validate(
        {
            "line": number,
            "index": None,
            "name": None,
            **values,
            "unreadable": tuple(cells.unreadable),
        }
    )


def mig_device(probe: str, line: str, number: int) -> SmiMigDevice:
    """A row that ``MIG_ROW`` matches."""
    match = MIG_ROW.match(line)
    if match is None:
        raise ParseError(probe, number, "not a MIG device")
    ids = [int(part) if part != "N/A" else None for part in match.group(2, 3)]
    return SmiMigDevice(
        line=number,
        gpu=int(match[1]),
        gpu_instance=ids[0],
        compute_instance=ids[1],
        device=int(match[4]),
        memory_used_mib=int(match[5]),
        memory_total_mib=int(match[6]),
    )


def process(line: str, number: int) -> SmiProcess:
    """A row that ``PROCESS`` matches."""
    match = PROCESS.match(line)
    assert match is not None
    memory = None if match[5] == "N/A" else int(match[5].removesuffix("MiB"))
    return SmiProcess(
        line=number, gpu=int(match[1]), pid=int(match[2]), kind=match[3], name=match[4],
        memory_mib=memory,
    )  # fmt: skip
