"""One test of nccl-tests whose lines are still being read (``nccl_tests`` goes through them).

Evidence: that of ``nccl_tests``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric_tools.models.nccl import NcclDevice, NcclRow, NcclRun, TextNote
from fabric_tools.parsers import nccl_table as table
from fabric_tools.parsers.nccl_rows import Sweep, agrees, mean_busbw, missing


@dataclass
class OpenRun:
    """A test whose lines are still being read."""

    line: int
    collective: str | None = None
    started: bool = False
    tests_version: str | None = None
    nccl_version: str | None = None
    sweep: Sweep | None = None
    validation: int | None = None
    devices: dict[int, NcclDevice] = field(default_factory=dict)
    layout: table.Layout | None = None
    headless: bool = False
    rows: list[NcclRow] = field(default_factory=list)
    slack: float = 0.0
    pending: tuple[int, list[str]] | None = None
    unreadable: list[int] = field(default_factory=list)
    elided: int = 0
    stray: int = 0  # a line of a test that nobody could read, anywhere in the text
    bounds: tuple[int, int, bool] | None = None
    average: tuple[int, float, bool | None] | None = None
    average_unended: bool = False  # the last line of a text without a newline at its end
    failures: list[TextNote] = field(default_factory=list)

    def footed(self) -> bool:
        """Whether a line below the table was read."""
        return self.bounds is not None or self.average is not None

    def drop_pending(self) -> None:
        """The first half of a row whose second half never came."""
        if self.pending is not None:
            self.unreadable.append(self.pending[0])
            self.pending = None

    def add(self, words: list[str], number: int) -> None:
        """A row; one that is cut or garbled is remembered as such."""
        assert self.layout is not None
        try:
            row, slack = table.read_row(self.layout, words, number)
        except table.Unreadable:
            self.unreadable.append(number)
            return
        self.rows.append(row)
        self.slack += slack

    def closed(self) -> NcclRun:
        """The test as a fact."""
        self.drop_pending()
        slack = self.slack / (len(self.rows) * (self.layout.halves if self.layout else 1) or 1)
        if self.average and self.average_unended:
            # Its last digits may be cut off; the rows know.
            mean = mean_busbw(self.rows)
            if mean is None or not agrees(mean, self.average[1], slack):
                self.average = None
        average = self.average[1] if self.average else None
        gone = missing(self.rows, self.sweep, average, slack)
        if self.headless:
            gone = "the heading is missing"
        elif self.unreadable:
            gone = f"line {self.unreadable[0]} is cut or garbled"
        elif self.elided:
            gone = f"rows are left out at line {self.elided}"
        elif self.stray:
            gone = gone or f"line {self.stray} is of a test that could not be read"
        return NcclRun(
            line=self.line,
            layout="text",
            collective=self.collective,
            ranks=max(self.devices) + 1 if self.devices else None,
            devices=tuple(self.devices.values()),
            tests_version=self.tests_version,
            nccl_version=self.nccl_version,
            validation=self.validation,
            min_bytes=self.sweep.min_bytes if self.sweep else None,
            max_bytes=self.sweep.max_bytes if self.sweep else None,
            error_column=self.layout.check if self.layout else None,
            rows=tuple(self.rows),
            unreadable_lines=tuple(self.unreadable),
            rows_missing=gone,
            out_of_bounds=self.bounds[1] if self.bounds else None,
            out_of_bounds_ok=self.bounds[2] if self.bounds else None,
            out_of_bounds_line=self.bounds[0] if self.bounds else None,
            avg_busbw_gbytes_s=average,
            avg_busbw_ok=self.average[2] if self.average else None,
            avg_busbw_line=self.average[0] if self.average else None,
            failures=tuple(self.failures),
            complete=gone is None and self.bounds is not None,
        )
