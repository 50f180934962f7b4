"""`dcgmi nvlink -e -g N` as a table, in the layout of DCGM 2 and later and in the one before.

Evidence: both layouts as quoted in NVIDIA's documentation and in public tools (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import DcgmLinkErrors, DcgmNvlinkErrors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines
from fabric_tools.parsers.saved import bare

PROBE = "dcgmi_nvlink"

_TITLE = re.compile(r"\| NVLINK Error Counts\s*\|$")
_GPU = re.compile(r"\| GPU (\d{1,4})\s*\|$", re.ASCII)
_OLD_TITLE = re.compile(r"\| GPU ID: (\d{1,4})\s*\| NVLINK Error Counts\s*\|$", re.ASCII)
_LINK = re.compile(r"\| Link (\d{1,4})\s*\|\s*\|$", re.ASCII)
_COUNT = re.compile(r"\| -> (\S.{0,60}?)\s*\| (\d{1,20}|N/A|Not Specified)\s*\|$", re.ASCII)
_OLD_COUNT = re.compile(
    r"\|\s?Link (\d{1,4})\s*\| (\S.{0,60}?)\s*\| (\d{1,20}|N/A)\s*\|$", re.ASCII
)
_RULE = re.compile(r"\+[-=+]{10,200}\+$")


class _Table:
    def __init__(self) -> None:
        self.gpu: int | None = None
        self.link: int | None = None
        self.lines: dict[int, int] = {}
        self.counts: dict[int, dict[str, int | None]] = {}

    def head(self, gpu: int, number: int) -> None:
        if self.gpu is not None:
            raise ParseError(PROBE, number, "two tables")
        self.gpu = gpu

    def open(self, link: int, number: int) -> None:
        self.link = link
        self.lines.setdefault(link, number)
        self.counts.setdefault(link, {})

    def count(self, name: str, value: str, number: int) -> None:
        if self.link is None or name in self.counts[self.link]:
            raise ParseError(PROBE, number, f"{name}: twice, or without a link")
        self.counts[self.link][name] = int(value) if value.isdigit() else None

    def line(self, line: str, number: int) -> None:
        if match := _OLD_TITLE.match(line) or _GPU.match(line):
            self.head(int(match[1]), number)
        elif match := _LINK.match(line):
            self.open(int(match[1]), number)
        elif match := _COUNT.match(line):
            self.count(match[1], match[2], number)
        elif match := _OLD_COUNT.match(line):
            self.open(int(match[1]), number)
            self.count(match[2], match[3], number)
        elif not (_RULE.match(line) or _TITLE.match(line) or line.startswith("Warning: ")):
            raise ParseError(PROBE, number, f"not a row of the table: {line[:60]!r}")


def parse_dcgm_nvlink_table(text: str) -> DcgmNvlinkErrors:
    """Counters of each link. The closing rule must be there: a cut table would hide links."""
    table = _Table()
    last = ""
    for number, line in numbered(read_lines(PROBE, bare(text), max_lines=5000, max_line=300)):
        last = line.strip()
        table.line(last, number)
    if table.gpu is None or not table.counts:
        raise ParseError(PROBE, 0, "no GPU or no link in the table")
    if not _RULE.match(last) or not all(table.counts.values()):
        raise ParseError(PROBE, 0, "cut: the table has no end")
    links = tuple(
        DcgmLinkErrors(index=link, line=table.lines[link], counts=counts)
        for link, counts in table.counts.items()
    )
    return DcgmNvlinkErrors(gpu=table.gpu, links=links)
