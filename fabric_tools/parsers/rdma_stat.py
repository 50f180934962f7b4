"""``rdma statistic show`` of iproute2: hardware counters of each port, JSON (``-j``) or text.

Evidence: the text in the announcement of the command; JSON follows iproute2's source (format
unverified).
"""

from __future__ import annotations

import re
from typing import Any

from fabric_tools.models.rdma import RdmaCounters, RdmaStatistics
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    PROMPT,
    Finder,
    int_of,
    list_of,
    load_json,
    numbered,
    object_of,
    read_lines,
    text_of,
)

PROBE = "rdma_stat"
_MAX = 2000
_LINK = re.compile(r"link ([A-Za-z][\w.-]{0,63})/(\d{1,3})((?: \S{1,80}){0,600})\s*$", re.ASCII)
_MORE = re.compile(r"\s+(\w{1,80}) (\d{1,20})\s*$", re.ASCII)
_NAMES = ("ifindex", "ifname", "port")
_PER_OBJECT = ("cntn", "lqpn", "qp-type", "mrn", "type")


def _counters(pairs: list[tuple[str, Any]], line: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in pairs:
        if name in _PER_OBJECT:
            raise ParseError(PROBE, line, f"counters of {name}, not of a port")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or name in found:
            raise ParseError(PROBE, line, f"{name[:60]} is no count or stands there twice")
        found[name] = value
    return found


def _from_json(text: str) -> list[RdmaCounters]:
    items = list_of(PROBE, load_json(PROBE, text), "the text")
    if len(items) > _MAX:
        raise ParseError(PROBE, 0, f"more than {_MAX} ports")
    lines, links = Finder(text), []
    for value in items:
        item = object_of(PROBE, value, "an entry")
        if not item:
            continue
        device, port = text_of(PROBE, item, "ifname"), int_of(PROBE, item, "port")
        line = lines.key("ifname")
        if device is None or port is None:
            raise ParseError(PROBE, line, "an entry without ifname or port")
        pairs = [(name, count) for name, count in item.items() if name not in _NAMES]
        links.append(
            RdmaCounters(line=line, device=device, port=port, counters=_counters(pairs, line))
        )
    return links


def _words(text: str, line: int) -> list[tuple[str, Any]]:
    words = text.split()
    if len(words) % 2 or not all(re.fullmatch(r"\d{1,20}", w, re.ASCII) for w in words[1::2]):
        raise ParseError(PROBE, line, f"not name and count: {text.strip()[:60]!r}")
    return list(zip(words[::2], map(int, words[1::2]), strict=True))


def _from_text(text: str) -> list[RdmaCounters]:
    found: list[tuple[int, str, int, list[tuple[str, Any]]]] = []
    for number, line in numbered(read_lines(PROBE, text, max_line=20_000)):
        if match := _LINK.match(line):
            pairs = _words(match[3], number)
            found.append((number, match[1], int(match[2]), pairs))
            if len(found) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} ports")
        elif found and (match := _MORE.match(line)):
            found[-1][3].append((match[1], int(match[2])))
        elif found or not PROMPT.match(line):
            raise ParseError(PROBE, number, f"not rdma statistic: {line.strip()[:60]!r}")
    return [
        RdmaCounters(line=line, device=device, port=port, counters=_counters(pairs, line))
        for line, device, port, pairs in found
    ]


def parse_rdma_stat(text: str) -> RdmaStatistics:
    """Counters of every port."""
    links = _from_json(text) if text.lstrip()[:1] == "[" else _from_text(text)
    if not links or not all(link.counters for link in links):
        raise ParseError(PROBE, 0, "no counter")
    if len({(link.device, link.port) for link in links}) != len(links):
        raise ParseError(PROBE, 0, "a port stands there twice")
    return RdmaStatistics(links=tuple(links))
