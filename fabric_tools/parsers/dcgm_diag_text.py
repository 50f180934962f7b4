"""`dcgmi diag -r N` as a table.

Evidence: real captures of DCGM 3.3 and an older one; the 4.x rows per GPU or CPU ("GPU0: Pass")
and the lists of GPUs follow the documentation (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import DcgmDiag, DcgmResult, DcgmStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines
from fabric_tools.parsers.saved import bare

PROBE = "dcgmi_diag"

STATUSES: dict[str, DcgmStatus] = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "warning": "warn",
    "skip": "skip",
    "skipped": "skip",
    "not run": "not_run",
}
_HEAD = re.compile(r"\| Diagnostic\s+\| Result\s")
_RULE = re.compile(r"\+[-=]{5,60}\+[-=]{5,100}\+$")
_SECTION = re.compile(r"[|+]-----  ?(\w[\w ]{0,40}?)\s+-{2,60}\+-{5,100}[|+]$")
_ROW = re.compile(r"\| (.{1,80}?)\s*\| (.{0,120}?)\s*\|$")
_STATUS = re.compile(
    r"(Pass|Fail|Warn|Warning|Skip|Skipped|Not Run)(?:\s*-\s*(All|GPUs?:?\s*\d[\d, ]*))?$"
)
# DCGM 4 has a row for each entity; beside GPUs these are CPUs.
_PER_ENTITY = re.compile(
    r"([A-Za-z]{2,12}) ?(\d{1,4}): (Pass|Fail|Warn|Warning|Skip|Skipped|Not Run)$", re.ASCII
)
_MESSAGE = re.compile(r"(?:Warning|Info|Error)(?:: ?GPU ?\d{1,4})?$", re.ASCII)
_ERROR = re.compile(r"\s*Error: (.{1,400})")


class _Open:
    """A test whose rows are still being read."""

    def __init__(self, line: int, section: str, test: str, cell: str) -> None:
        self.line, self.section, self.test, self.cell = line, section, test, cell
        self.more: list[DcgmResult] = []
        self.messages: list[str] = []

    def add(self, cell: str, number: int) -> None:
        """A row without a name: a message goes on, a list goes on, or the result of one GPU."""
        status = _STATUS.match(cell)
        if entity := _PER_ENTITY.match(cell):
            gpus = (int(entity[2]),) if entity[1] == "GPU" else None
            self.more.append(self._result(number, entity[3], gpus))
        elif status and (status[2] or not self.messages):
            self.more.append(self._result(number, status[1], _gpus(status[2])))
        elif self.messages:
            self.messages[-1] = (self.messages[-1] + cell)[:4000]
        elif self.cell.endswith(",") and re.match(r"\d[\d, ]*$", cell):
            self.cell = f"{self.cell} {cell}"
        elif cell:
            raise ParseError(PROBE, number, f"{self.test}: cannot read {cell[:60]!r}")

    def _result(self, number: int, word: str, gpus: tuple[int, ...] | None) -> DcgmResult:
        return DcgmResult(
            line=number, category=self.section, test=self.test, status=STATUSES[word.lower()],
            gpus=gpus,
        )  # fmt: skip

    def closed(self) -> list[DcgmResult]:
        """The results; the row of the test itself comes first."""
        status = _STATUS.match(self.cell.rstrip(", "))
        if status is None:
            raise ParseError(PROBE, self.line, f"{self.test}: cannot read {self.cell[:60]!r}")
        first = self._result(self.line, status[1], _gpus(status[2]))
        return [first.model_copy(update={"messages": tuple(self.messages)}), *self.more]


def _gpus(words: str | None) -> tuple[int, ...] | None:
    if words is None or words == "All":
        return None
    return tuple(int(number) for number in re.findall(r"\d{1,9}", words))


class _Table:
    def __init__(self) -> None:
        self.section = ""
        self.tests: list[_Open] = []
        self.metadata: dict[str, str] = {}
        self.key: str | None = None
        self.closed = False

    def row(self, name: str, cell: str, number: int) -> None:
        if self.section == "Metadata":
            if _STATUS.match(cell):
                raise ParseError(PROBE, number, f"{name}: a result under Metadata (a line is lost)")
            if name:
                self.key = name
                self.metadata[name] = cell
            elif self.key is not None:
                self.metadata[self.key] += cell
        elif not name:
            if not self.tests:
                raise ParseError(PROBE, number, f"a row without a test: {cell[:60]!r}")
            self.tests[-1].add(cell, number)
        elif _MESSAGE.match(name):
            if not self.tests:
                raise ParseError(PROBE, number, f"a message without a test: {cell[:60]!r}")
            self.tests[-1].messages.append(cell)
        else:
            self.tests.append(_Open(number, self.section, name, cell))


def parse_dcgm_diag_text(text: str) -> DcgmDiag:
    """Results in order. What the head line says ("Successfully ran") is no result."""
    lines = read_lines(PROBE, bare(text), max_line=400)
    table: _Table | None = None
    error: str | None = None
    for number, line in numbered(lines):
        stripped = line.strip()
        if _HEAD.match(stripped):
            if table is not None:
                raise ParseError(PROBE, number, "two tables")
            table = _Table()
        elif table is None or stripped[0] not in "|+":
            said = _ERROR.match(line)
            error = error or (said[1].strip() if said else None)
        elif section := _SECTION.match(stripped):
            table.section, table.closed = section[1], False
        elif _RULE.match(stripped):
            table.closed = "=" not in stripped
        elif row := _ROW.match(stripped):
            table.row("" if row[1].isspace() else row[1].strip(), row[2], number)
            table.closed = False
        elif number == len(lines):
            table.closed = False
        else:
            raise ParseError(PROBE, number, f"not a row of the table: {stripped[:60]!r}")
    if table is None:
        raise ParseError(PROBE, 0, f"no table{f'; dcgmi said: {error}' if error else ''}")
    version, driver = (
        table.metadata.get("DCGM Version"),
        table.metadata.get("Driver Version Detected"),
    )
    ids = table.metadata.get("GPU Device IDs Detected", "")
    return DcgmDiag(
        form="text",
        dcgm_version=version,
        driver_version=driver,
        gpu_device_ids=tuple(part.strip() for part in ids.split(",") if part.strip()),
        results=tuple(result for test in table.tests for result in test.closed()),
        error=error,
        complete=table.closed,
    )
