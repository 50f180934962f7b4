"""nccl-tests (``all_reduce_perf`` and its sisters), text or JSON, one test or several in one text.

Evidence: real captures of the old "error" and the new "#wrong" layouts, with prefixes of mpirun
and srun, with log lines between, with N/A, cut, hung and failed; a crash at the start and a text
without "#" are re-rendered from facts. Rows split by log lines and other prefixes: format
unverified.
"""

from __future__ import annotations

import re

from fabric_tools.models.nccl import NcclDevice, NcclTests, TextNote
from fabric_tools.parsers import nccl_table as table
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, note, read_lines
from fabric_tools.parsers.nccl_json import parse_nccl_json
from fabric_tools.parsers.nccl_rows import Sweep
from fabric_tools.parsers.nccl_run import OpenRun
from fabric_tools.parsers.nccl_signs import FAILURE, signs
from fabric_tools.parsers.saved import bare

PROBE = "nccl_tests"
_MAX_LINES, _MAX_LINE, _MAX_ROWS, _MAX_RUNS = 200_000, 1 << 20, 10_000, 500
#: No line of a test is longer.
_LONGEST = 4096

_PREFIX = re.compile(
    r"\[[^\[\]\s]{1,80}\]<std(?:out|err)>:? ?|\s{0,8}\d{1,5}: |\[\d{1,5}\] ?(?=[# ])"
    r"|[A-Za-z][\w.-]{0,62}: ?(?=[ #])|\[pod/\S{1,120}\] |> ",
    re.ASCII,
)
_CLOCK = re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40} ?", re.ASCII)
_CONFIG = re.compile(
    r"nThread \d{1,6} nGpus \d{1,6} minBytes (\d{1,18}) maxBytes (\d{1,18})"
    r" step: (\d{1,18})\((factor|bytes)\)",
    re.ASCII,
)
_VALIDATION = re.compile(r" (?:validation|check): (\d{1,6})", re.ASCII)
_REDUCING = re.compile(r"Reducing maxBytes to (\d{1,18}) ", re.ASCII)
_RANK = re.compile(
    r"Rank\s+(\d{1,6})\s+(?:Group\s+(\d{1,6})\s+)?(?:Pid\s+(\d{1,10})\s+)?on\s+(\S{1,255})"
    r"\s+device\s+(\d{1,4})\s+\[([\w:.]{1,20})\]\s+(\S.{0,100})",
    re.ASCII,
)
_BOUNDS = re.compile(r"Out of bounds values\s*: (\d{1,9}) (OK|FAILED)\b", re.ASCII)
_AVERAGE = re.compile(
    r"Avg bus bandwidth\s*: (\d{1,9}(?:\.\d{1,9})?(?:e[+-]?\d\d)?)(?: +(OK|FAILED))?$", re.ASCII
)
_PHASE = re.compile(
    r"Collective test (starting|concluded): (\w{1,40}?)(?:_perf(?:_mpi)?)?$", re.ASCII
)
_TESTS_VERSION = re.compile(r"nccl-tests version (\S{1,40})")
_NCCL_VERSION = re.compile(r"NCCL version (\d[\w.+-]{1,40})", re.ASCII)
_MENTION = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoallv?|scatter|gather|sendrecv"
    r"|hypercube)(?:_perf(?:_mpi)?\b|\.cu:\d)|run_nccl_tests\.sh\b.{0,200}? -t (\w{1,40})",
    re.ASCII,
)
_ELIDED = re.compile(r"\s*[\[(<]?(?:\.{3,}|\u2026|snip|skipped)", re.IGNORECASE)


def _split_prefix(line: str) -> tuple[str, str]:
    """The stream a line belongs to (who wrote it) and the line itself."""
    key = ""
    for _ in range(2):
        if clock := _CLOCK.match(line):
            line = line[clock.end() :]
        if match := _PREFIX.match(line):
            key += match[0].strip()
            line = line[match.end() :]
    return key, line


def _without_log(line: str) -> str:
    """The line up to an NCCL log message that another thread wrote into it."""
    at = line.find(" NCCL ")
    if at < 0:
        return line
    words = line[:at].split()
    for index in range(len(words) - 1, 0, -1):
        host = words[index - 1]
        if words[index].startswith("[") and host.count(":") >= 2 and host[-1].isdigit():
            cut = line.rfind(host, 0, at)
            return line[:cut] + ("-1" if host.startswith("-1") else "")
    return line


class _Reader:
    """Goes through the lines once; each prefix is a stream with its own tests."""

    def __init__(self) -> None:
        self.runs: list[OpenRun] = []
        self.current: dict[str, OpenRun] = {}
        self.mentions: dict[str, int] = {}
        self.orphans: list[TextNote] = []
        self.row_count = 0
        self.stray = 0

    def open(self, key: str, number: int) -> OpenRun:
        run = OpenRun(number)
        if len(self.mentions) == 1:
            run.collective = next(iter(self.mentions))
        self.mentions = {}
        run.failures, self.orphans = self.orphans, []
        self.runs.append(run)
        self.current[key] = run
        if len(self.runs) > _MAX_RUNS:
            raise ParseError(PROBE, number, f"more than {_MAX_RUNS} tests")
        return run

    def run_for(self, key: str, number: int, *taken: str) -> OpenRun:
        """The stream's test, a new one where it has one of ``taken`` already."""
        run = self.current.get(key)
        if run is None or run.footed() or any(getattr(run, name) for name in taken):
            return self.open(key, number)
        return run

    def line(self, raw: str, number: int) -> None:
        """A line, and whether it holds more of a test than was understood."""
        known = len(raw) <= _LONGEST and self.known(raw, number)
        if len(raw) > _LONGEST:
            self.foreign(None, raw, raw, number)
        if not self.stray and signs(raw) > known:
            self.stray = number

    def known(self, raw: str, number: int) -> bool:
        """Read the line; whether it was a heading, a row or a closing line."""
        key, line = _split_prefix(raw)
        line = _without_log(line)
        if not line.strip():
            return False
        bare = line.lstrip(" \t#")
        run = self.current.get(key)
        first = bare[:1]
        if first.isdigit():
            if run is not None and run.layout is not None:
                self.table_line(run, line, number)
                if not table.is_row(line):
                    self.foreign(run, raw, line, number)
            elif table.is_row(line):
                layout = table.layout_of_row(line.split())
                if layout is None:
                    raise ParseError(PROBE, number, "a row before any heading")
                run = self.run_for(key, number)
                run.layout, run.headless = layout, True
                self.table_line(run, line, number)
            else:
                self.foreign(run, raw, line, number)
            return table.is_row(line)
        if first in ("s", "b") and table.is_heading(bare.split(maxsplit=3)[:3]):
            self.heading(key, bare, number)
        elif not self.footer(key, bare, number) and not self.head(key, bare, number):
            self.foreign(run, raw, line, number)
            return False
        return True

    def table_line(self, run: OpenRun, line: str, number: int) -> None:
        words = line.split()
        assert run.layout is not None
        lead = len(run.layout.lead)
        if not table.is_row(line):
            tail = len(words) == len(run.layout.columns) - lead
            if run.pending and tail and all(map(table.is_number, words)):
                started, head = run.pending
                run.pending = None
                run.add(head + words, started)
            elif len(words) > 5 and all(map(table.is_number, words[-4:])):
                run.unreadable.append(number)
            return
        run.drop_pending()
        if run.footed():
            raise ParseError(PROBE, number, "a row below the footer of its test")
        self.row_count += 1
        if self.row_count > _MAX_ROWS:
            raise ParseError(PROBE, number, f"more than {_MAX_ROWS} rows")
        if table.lead_is_whole(run.layout, words):
            run.pending = (number, words)
        else:
            run.add(words, number)

    def heading(self, key: str, bare: str, number: int) -> None:
        run = self.run_for(key, number, "layout")
        try:
            run.layout = table.read_heading(bare.split())
        except table.Unreadable as error:
            raise ParseError(PROBE, number, f"heading: {error}") from error

    def footer(self, key: str, bare: str, number: int) -> bool:
        run = self.current.get(key)
        if match := _BOUNDS.match(bare):
            if run is None or (run.bounds and not run.layout):
                run = self.open(key, number)
            if run.bounds:
                raise ParseError(PROBE, number, "two out-of-bounds lines below one table")
            run.bounds = (number, int(match[1]), match[2] == "OK")
            if run.bounds[2] != (run.bounds[1] == 0):
                raise ParseError(PROBE, number, "out of bounds: number and word contradict")
        elif match := _AVERAGE.match(bare):
            if run is None or (run.average and not run.layout):
                run = self.open(key, number)
            if run.average:
                raise ParseError(PROBE, number, "two average lines below one table")
            okay = {"OK": True, "FAILED": False}.get(match[2] or "")
            run.average = (number, float(match[1]), okay)
        else:
            return False
        run.drop_pending()
        return True

    def head(self, key: str, bare: str, number: int) -> bool:
        if match := _RANK.match(bare):
            run = self.run_for(key, number, "layout")
            rank = int(match[1])
            if rank in run.devices:
                run = self.open(key, number)
            run.devices[rank] = NcclDevice(
                line=number,
                rank=rank,
                group=int(match[2]) if match[2] else None,
                pid=int(match[3]) if match[3] else None,
                host=match[4],
                device=int(match[5]),
                bus_id=match[6],
                name=match[7].strip(),
            )
        elif match := _CONFIG.match(bare):
            run = self.run_for(key, number, "layout", "sweep", "devices")
            low, high, step = int(match[1]), int(match[2]), int(match[3])
            run.sweep = Sweep(low, high, step, match[4] == "factor")
            checked = _VALIDATION.search(bare)
            run.validation = int(checked[1]) if checked else None
        elif bare.startswith("Using devices"):
            self.run_for(key, number, "layout", "devices")
        elif match := _PHASE.match(bare):
            current = self.current.get(key)
            if match[1] == "starting":
                current = self.run_for(key, number, "layout", "sweep", "started")
                current.started = True
            if current is not None:
                current.collective = match[2]
        elif match := _TESTS_VERSION.match(bare):
            run = self.run_for(key, number, "layout", "sweep", "tests_version")
            run.tests_version = match[1]
        else:
            return False
        return True

    def foreign(self, run: OpenRun | None, raw: str, line: str, number: int) -> None:
        """Anything else that may stand between: versions, commands, failures, gaps."""
        if run is not None and run.layout and not run.bounds and _ELIDED.match(line):
            run.elided = run.elided or number
        if run is not None and (match := _NCCL_VERSION.search(line)):
            run.nccl_version = run.nccl_version or match[1]
        if run is not None and run.sweep and (match := _REDUCING.search(line)):
            old = run.sweep
            run.sweep = Sweep(old.min_bytes, int(match[1]), old.step, old.by_factor)
        failed = FAILURE.search(raw) is not None
        if match := _MENTION.search(raw):
            if failed and run is not None:
                run.collective = run.collective or match[1]
            else:
                self.mentions.setdefault(match[1] or match[2].removesuffix("_perf"), number)
        if failed:
            notes = self.runs[-1].failures if self.runs else self.orphans
            if len(notes) < 100:
                notes.append(note(number, raw))


def parse_nccl_tests(text: str) -> NcclTests:
    """Every test in the text. Text that names no test at all is refused."""
    alone = bare(text) if "{" in text[:4096] else ""
    if alone.lstrip()[:1] == "{":
        return parse_nccl_json(alone)
    plain = text.removeprefix("\ufeff")
    lines = read_lines(PROBE, plain, max_chars=16 * MIB, max_lines=_MAX_LINES, max_line=_MAX_LINE)
    reader = _Reader()
    last = len(lines)
    for number, line in enumerate(lines, start=1):
        reader.line(line + "0x" if number == last and table.is_row(line) else line, number)
    if reader.runs and (average := reader.runs[-1].average) and average[0] == last:
        reader.runs[-1].average_unended = True
    if not reader.runs:
        said = f" (it says: {reader.orphans[0].text[:100]})" if reader.orphans else ""
        raise ParseError(PROBE, 0, "no test of nccl-tests" + said)
    for run in reader.runs:
        run.stray = reader.stray
    return NcclTests(runs=tuple(run.closed() for run in reader.runs))
