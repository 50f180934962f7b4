"""perftest's bandwidth tests (``ib_write_bw``, ``ib_read_bw``, ``ib_send_bw``): text or its JSON.

Evidence: real captures of one size, all sizes, four queue pairs, both sides in one text, an error
after good rows, the CPU frequency line, and of ``--out_json`` (which is not quite JSON: names are
not quoted).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal

from fabric_tools.models.nccl import TextNote
from fabric_tools.models.rdma import BwRow, BwTest, BwTests
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import note, read_lines

PROBE = "ib_write_bw"
Unit = Literal["Gb/sec", "MB/sec"]

_BANNER = re.compile(r"[\s*]*((?:RDMA_\w{1,20}|Send|Atomic\w{0,20}) (?:\w{1,20} ){0,3}BW Test)\b")
_LATENCY = re.compile(r"\bLatency Test\b|t_min\[usec\]")
_COLON, _GAP = re.compile(r"[ \t]{0,20}:[ \t]"), re.compile(r"[ \t]{2,}|\t")
_RULE = re.compile(r"\s*-{20,}\s*$")
_HEADING = re.compile(
    r"\s*#bytes\s+#iterations\s+BW peak\[(Gb/sec|MB/sec|MiB/sec)\]"
    r"\s+BW average\[(Gb/sec|MB/sec|MiB/sec)\]\s+MsgRate\[Mpps\](\s+CPU_Util\[%\])?\s*$"
)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_INTEGER = re.compile(r"\d{1,12}", re.ASCII)
_ERROR = re.compile(
    r"(?i)\b(?:failed|error|couldn'?t|can'?t|unable to|timed? ?out|not supported|problems with"
    r"|mismatch|no such|did not detect)\b"
)
_FIELD = re.compile(r'"?([A-Za-z]\w{0,40})"?\s*:\s*(?:"([^"\n]{0,80})"|([^\s",{}\[\]]{1,80}))')
_MAX_ROWS = 5000
_ROW_LIKE = re.compile(r"\s{0,20}\d{1,12}\s{1,40}\d{1,12}\s{1,40}\d", re.ASCII)
#: Words of perftest itself where it gives up before it prints a banner.
_GIVEN_UP = re.compile(
    r"\s*(?:Couldn't connect to \S{1,100}:\d|Unable to find the Infiniband/RoCE device"
    r"|IB device \S{1,60} not found|Unable to init the socket connection|Did not detect devices"
    r"|Failed to (?:modify QP|connect|exchange data)|Unable to open file descriptor for socket"
    r"|Port number \d{1,3} state is |Couldn't (?:set the link layer|get context for the device))",
    re.ASCII,
)


def gbits(value: float, unit: Unit | None) -> float | None:
    """Perftest's MB is 2**20 bytes."""
    if unit is None:
        return None
    return value if unit == "Gb/sec" else value * 8 * 2**20 / 1e9


@dataclass
class _Test:
    """A test whose lines are still being read."""

    line: int
    test: str | None = None
    devices: dict[str, None] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    unit: Unit | None = None
    columns: int = 0
    rows: dict[tuple[str, ...], BwRow] = field(default_factory=dict)
    errors: list[TextNote] = field(default_factory=list)
    ended: bool = False

    def number(self, name: str) -> int | None:
        word = self.settings.get(name, "").removesuffix("[B]").strip()
        return int(word) if _INTEGER.fullmatch(word) else None

    def closed(self) -> BwTest:
        return BwTest(
            line=self.line,
            test=self.test,
            devices=tuple(self.devices),
            transport=self.settings.get("Transport type"),
            connection=self.settings.get("Connection type"),
            qps=self.number("Number of qps"),
            mtu_bytes=self.number("Mtu"),
            link_type=self.settings.get("Link type"),
            gid_index=self.number("GID index"),
            unit=self.unit,
            rows=tuple(self.rows.values()),
            errors=tuple(self.errors),
            complete=self.ended and bool(self.rows) and not self.errors,
        )


_KNOWN = (
    "Dual-port",
    "Device",
    "Number of qps",
    "Transport type",
    "Connection type",
    "Mtu",
    "Link type",
    "GID index",
)


def _settings(test: _Test, line: str, number: int) -> None:
    for part in _GAP.split(_COLON.sub(":", line).strip(), maxsplit=8):
        name, colon, value = part.partition(":")
        name, value = name.strip(), value.strip()
        if colon and name == "Device" and value:
            test.devices.setdefault(value)
        elif colon and name in _KNOWN and test.settings.setdefault(name, value) != value:
            raise ParseError(PROBE, number, f"two tests in one: {name} {value[:20]!r}")


def _row(test: _Test, words: list[str], number: int) -> None:
    if test.unit is None:
        raise ParseError(PROBE, number, "a row before any heading")
    whole = len(words) == test.columns and all(map(_NUMBER.fullmatch, words))
    if not whole or not all(map(_INTEGER.fullmatch, words[:2])):
        raise ParseError(PROBE, number, "not the columns of the heading")
    if len(test.rows) >= _MAX_ROWS:
        raise ParseError(PROBE, number, f"more than {_MAX_ROWS} rows")
    average = float(words[3])
    # The other side prints the same row again; it is no new measurement.
    test.rows.setdefault(
        tuple(words),
        BwRow(
            line=number,
            size_bytes=int(words[0]),
            iterations=int(words[1]),
            peak=float(words[2]),
            average=average,
            average_gbits_s=gbits(average, test.unit),
            msg_rate_mpps=float(words[4]),
        ),
    )
    test.ended = False


def _heading(test: _Test, match: re.Match[str], number: int) -> None:
    unit: Unit = "Gb/sec" if match[1] == "Gb/sec" else "MB/sec"
    if match[1] != match[2] or test.unit not in (None, unit):
        raise ParseError(PROBE, number, "two units in one table")
    test.unit, test.columns = unit, 6 if match[3] else 5


def _line(tests: list[_Test], line: str, number: int) -> None:
    test = tests[-1] if tests else None
    if banner := _BANNER.match(line):
        if test is None or test.rows or test.errors:
            test = _Test(number)
            tests.append(test)
        test.test = banner[1]
    elif heading := _HEADING.match(line):
        if test is None:
            test = _Test(number)
            tests.append(test)
        _heading(test, heading, number)
    elif _LATENCY.search(line[:300]):
        raise ParseError(PROBE, number, "a latency test, not a bandwidth test")
    elif test is None:
        return
    elif _RULE.match(line):
        test.ended = bool(test.rows)
    elif _ROW_LIKE.match(line):
        _row(test, line.split(), number)
    elif _ERROR.search(line[:300]):
        if len(test.errors) < 100:
            test.errors.append(note(number, line))
    elif not test.rows and ":" in line and "address:" not in line:
        _settings(test, line, number)


def parse_ib_write_bw(text: str) -> BwTests:
    """Every bandwidth test in the text."""
    if text.lstrip()[:1] == "{":
        return BwTests(tests=(_parse_json(text),))
    tests: list[_Test] = []
    lines = read_lines(PROBE, text)
    given_up: list[TextNote] = []
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and tests and _ROW_LIKE.match(line):
            continue  # without its newline the last row may be cut
        if not tests and len(given_up) < 20 and _GIVEN_UP.match(line):
            given_up.append(note(number, line))
        _line(tests, line, number)
    if given_up and not tests:
        tests.append(_Test(given_up[0].line, errors=given_up))
    if not tests:
        raise ParseError(PROBE, 0, "no bandwidth test of perftest")
    return BwTests(tests=tuple(test.closed() for test in tests))


def _unit_by_rate(size: int, average: float, mpps: float) -> Unit | None:
    """The JSON names no unit, but size times message rate is the bandwidth: one unit fits."""
    fits = [
        unit
        for unit, scale in (("Gb/sec", 8e-3), ("MB/sec", 1e6 / 2**20))
        if math.isclose(size * mpps * scale, average, rel_tol=0.05)
    ]
    return "Gb/sec" if fits == ["Gb/sec"] else "MB/sec" if fits == ["MB/sec"] else None


def _parse_json(text: str) -> BwTest:
    lines = read_lines(PROBE, text)
    whole = "\n".join(lines)
    head, found, tail = whole.partition("results")
    if not found or "test_info" not in head:
        raise ParseError(PROBE, 0, "no test_info and results: not the JSON of perftest")
    info: dict[str, str] = {}
    for match in _FIELD.finditer(head):
        if match[1] in info:
            raise ParseError(PROBE, 0, f"{match[1]} stands there twice")
        info[match[1]] = match[2] if match[2] is not None else match[3]
    test = _Test(1, test=info.get("test", "").replace("_BW_Test", " BW Test") or None)
    for ours, theirs in (
        ("Transport type", "Transport_type"),
        ("Connection type", "Connection_type"),
        ("Number of qps", "Number_of_qps"),
        ("Mtu", "Mtu"),
        ("Link type", "Link_type"),
        ("GID index", "GID_index"),
    ):
        if theirs in info:
            test.settings[ours] = info[theirs]
    if info.get("Device"):
        test.devices[info["Device"]] = None
    if whole.count("{") != whole.count("}"):
        raise ParseError(PROBE, 0, "cut: not every brace is closed")
    _json_rows(test, tail, head.count("\n") + 1)
    test.ended = True
    return test.closed()


def _json_rows(test: _Test, tail: str, line: int) -> None:
    names = ("MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
    words: list[str] = []
    at = first = 0
    for match in _FIELD.finditer(tail):
        if match[1] not in names:
            continue
        line += tail.count("\n", at, match.start())
        at = match.start()
        if match[1] != names[len(words)]:
            raise ParseError(PROBE, line, f"{match[1]} out of order")
        first = first if words else line
        words.append(match[2] or match[3])
        if len(words) == len(names):
            if not all(map(_NUMBER.fullmatch, words)):
                raise ParseError(PROBE, line, "a result that is no number")
            unit = _unit_by_rate(int(float(words[0])), float(words[3]), float(words[4]))
            test.unit, test.columns = unit, 5
            if unit is None:
                raise ParseError(PROBE, line, "size, rate and bandwidth fit no unit")
            _row(test, words, first)
            words = []
    if words:
        raise ParseError(PROBE, line, "results are cut")
