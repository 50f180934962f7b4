"""Plain `nvidia-smi` (the table) and `nvidia-smi -L`.

Evidence: real captures of drivers 590 and 610 (server and Windows), ERR! cells and one author's
condensed line; B300 and the list are re-rendered from facts. The two-row table of drivers before
450, MIG rows and MIG lines of -L follow the documentation, "Not Supported" in the place of the
memory of a GB10 a public report (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.smi import SmiMigDevice, SmiNote, SmiProcess, SmiTable, SmiTableGpu
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note, find_smi_error
from fabric_tools.parsers.smi_table_rows import (
    MIG_ROW,
    PROCESS,
    mig_device,
    process,
    read_gpu,
    read_loose_row,
)

PROBE = "nvidia_smi"

_MAX_GPUS = 256
_RULE = re.compile(r"[+|][-=+]{8,}[+|]$")
_HEAD = re.compile(r"NVIDIA-SMI (\d{3,4}(?:\.\d{1,6}){1,3})\s", re.ASCII)
_DRIVER = re.compile(r"(?:Driver|KMD) Version: ([^\s|]+)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version: ([^\s|]+)")
_LIST = re.compile(r"GPU (\d{1,4}): (.+?) \(UUID: (GPU-[0-9A-Za-z-]{1,64})\)$", re.ASCII)
_LIST_MIG = re.compile(
    r"\s+MIG (\S{1,40})\s+Device\s+(\d{1,3}): \(UUID: (MIG-[0-9A-Za-z/-]{1,90})\)$", re.ASCII
)
_CONDENSED = re.compile(
    r"((?:NVIDIA|Tesla|Quadro) .{1,60}?) \| (\d{3}(?:\.\d{1,4}){1,2}) \| CUDA (\d{1,3}\.\d{1,3})"
    r" \| (\d{1,8})MiB / (\d{1,8})MiB$",
    re.ASCII,
)
_WARNING = re.compile(r"WARNING: ")


def _known(value: str | None) -> str | None:
    return None if value in (None, "N/A", "ERR!") else value


class _Table:
    """The table while its lines are read. ``section``: head, gpus, mig, processes."""

    def __init__(self) -> None:
        self.head: tuple[str, str | None, str | None] | None = None
        self.section = "head"
        self.below_rule = False
        self.head_rows = 0
        self.block: list[tuple[int, str]] = []
        self.gpus: list[SmiTableGpu] = []
        self.mig: list[SmiMigDevice] = []
        self.processes: list[SmiProcess] = []
        self.saw_processes = False
        self.no_processes = False

    def line(self, line: str, number: int) -> None:
        if _RULE.match(line):
            self._rule("=" in line, number)
        elif "NVIDIA-SMI" in line:
            self._head(line, number)
        elif self.section == "head" and not self.below_rule:
            self.head_rows += line.count("|") > 2
        elif line.startswith(("| MIG devices:", "| Processes:")):
            self._close(number)
            self.section = "mig" if "MIG" in line else "processes"
            self.below_rule = False
        elif self.below_rule:
            self._row(line, number)

    def _head(self, line: str, number: int) -> None:
        match = _HEAD.search(line)
        if match is None or self.head is not None:
            raise ParseError(PROBE, number, "two tables" if match else "no version in the heading")
        driver, cuda = _DRIVER.search(line), _CUDA.search(line)
        self.head = (match[1], driver[1] if driver else None, cuda[1] if cuda else None)

    def _rule(self, double: bool, number: int) -> None:
        self._close(number)
        if double:
            self.below_rule = True
            if self.section == "head":
                self.section = "gpus"
            elif self.section == "processes":
                self.saw_processes = True
        elif self.section == "processes" and self.below_rule:
            self.section = "end"

    def _row(self, line: str, number: int) -> None:
        if self.section == "gpus":
            self.block.append((number, line))
        elif self.section == "mig":
            if MIG_ROW.match(line):
                self.mig.append(mig_device(PROBE, line, number))
        elif self.section == "processes":
            if "No running processes found" in line:
                self.no_processes = True
            elif PROCESS.match(line):
                self.processes.append(process(line, number))
            else:
                raise ParseError(PROBE, number, f"not a process: {line[:80]!r}")

    def _close(self, number: int) -> None:
        if not self.block:
            return
        if len(self.block) != (self.head_rows or len(self.block)) or len(self.gpus) >= _MAX_GPUS:
            raise ParseError(PROBE, self.block[0][0], "a GPU with too few or too many rows")
        gpu = read_gpu(PROBE, self.block)
        if any(gpu.index == other.index or gpu.bus_id == other.bus_id for other in self.gpus):
            raise ParseError(PROBE, number, f"GPU {gpu.index} stands there twice")
        self.gpus.append(gpu)
        self.block = []

    def whole(self) -> bool:
        listed = self.no_processes or bool(self.processes)
        whole = not self.block and self.head is not None and self.section == "end"
        return whole and self.saw_processes and listed


def _from_list(lines: list[str]) -> SmiTable:
    gpus: list[SmiTableGpu] = []
    mig: list[SmiMigDevice] = []
    for number, line in numbered(lines):
        if match := _LIST.match(line):
            index = int(match[1])
            if any(gpu.index == index or gpu.uuid == match[3] for gpu in gpus):
                raise ParseError(PROBE, number, f"GPU {index} stands there twice")
            gpus.append(SmiTableGpu(line=number, index=index, name=match[2], uuid=match[3]))
        elif gpus and (device := _LIST_MIG.match(line)):
            mig.append(
                SmiMigDevice(
                    line=number, gpu=gpus[-1].index, device=int(device[2]), profile=device[1],
                    uuid=device[3],
                )
            )  # fmt: skip
        elif gpus:
            raise ParseError(PROBE, number, f"not a line of nvidia-smi -L: {line[:60]!r}")
        if len(gpus) > _MAX_GPUS:
            raise ParseError(PROBE, number, "too many GPUs")
    return SmiTable(form="list", gpus=tuple(gpus), mig_devices=tuple(mig), complete=True)


def _from_excerpt(lines: list[str]) -> SmiTable:
    """Rows without their frame, as people keep them: never complete."""
    for number, line in numbered(lines):
        match = _CONDENSED.match(line)
        if match is not None:
            gpu = SmiTableGpu(
                line=number, index=None, name=match[1],
                memory_used_mib=int(match[4]), memory_total_mib=int(match[5]),
            )  # fmt: skip
            return SmiTable(
                form="excerpt", driver_version=match[2], cuda_version=match[3], gpus=(gpu,),
                complete=False,
            )  # fmt: skip
    heading = any(re.match(r"\s*Fan\s+Temp\s+Perf\s+Pwr:Usage/Cap", line) for line in lines)
    found = [read_loose_row(PROBE, line, number) for number, line in numbered(lines)]
    gpus = tuple(gpu for gpu in found if gpu is not None)
    if not heading or not gpus:
        raise ParseError(PROBE, 0, "not the table of nvidia-smi" + error_note(lines))
    return SmiTable(form="excerpt", gpus=gpus, complete=False)


def parse_nvidia_smi(text: str) -> SmiTable:
    """The table or the list. A known error text wins over what else stands there."""
    lines = read_lines(PROBE, bare(text), max_chars=MIB, max_line=500)
    error = find_smi_error(lines)
    if error is not None:
        raise ParseError(PROBE, error.line, f"nvidia-smi said: {error.text[:200]}")
    if any(_LIST.match(line) for line in lines):
        return _from_list(lines)
    if not any("NVIDIA-SMI" in line and _HEAD.search(line) for line in lines):
        return _from_excerpt(lines)
    table = _Table()
    warnings: list[SmiNote] = []
    for number, line in numbered(lines):
        if line.lstrip()[0] in "|+":
            table.line(line.strip(), number)
        elif _WARNING.match(line):
            warnings.append(SmiNote(line=number, text=line.strip()[:300]))
    if table.head is None or not table.gpus:
        raise ParseError(PROBE, 0, "the table has no whole GPU")
    return SmiTable(
        form="table",
        smi_version=table.head[0],
        driver_version=_known(table.head[1]),
        cuda_version=_known(table.head[2]),
        gpus=tuple(table.gpus),
        mig_devices=tuple(table.mig),
        processes=tuple(table.processes) if table.section == "end" else None,
        warnings=tuple(warnings),
        complete=table.whole(),
    )
