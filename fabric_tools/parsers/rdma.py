"""``rdma link show`` and ``rdma dev show`` of iproute2, JSON (``-j``) or text.

Evidence: real JSON of soft RoCE; two ConnectX ports re-rendered from facts; the text forms follow
iproute2's source (format unverified).
"""

from __future__ import annotations

import re
from typing import Any

from fabric_tools.models.rdma import RdmaDevInfo, RdmaDevs, RdmaLink, RdmaLinks
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    PROMPT,
    Finder,
    int_of,
    list_of,
    load_json,
    object_of,
    read_lines,
    text_of,
)

PROBE = "rdma"
_MAX = 5000
_LINK = re.compile(
    r"(?:link |\d{1,5}/\d{1,3}: )?([A-Za-z][\w.-]{0,63})/(\d{1,3}):? (.{0,400})$", re.ASCII
)
_DEV = re.compile(r"\d{1,5}: ([A-Za-z][\w.-]{0,63}): (.{0,400})$", re.ASCII)


def _items(text: str) -> tuple[list[dict[str, Any]], Finder]:
    items = list_of(PROBE, load_json(PROBE, text), "the text")
    if len(items) > _MAX:
        raise ParseError(PROBE, 0, f"more than {_MAX} entries")
    # iproute2 prints "[{}]" where there is nothing in some versions.
    return [object_of(PROBE, item, "an entry") for item in items if item != {}], Finder(text)


def _need(value: Any, what: str, line: int = 0) -> Any:
    if value is None:
        raise ParseError(PROBE, line, f"an entry has no {what}")
    return value


def _json_link(item: dict[str, Any], lines: Finder) -> RdmaLink:
    name = _need(text_of(PROBE, item, "ifname"), "ifname")
    return RdmaLink(
        line=lines.key("ifname"),
        device=name,
        port=_need(int_of(PROBE, item, "port"), "port"),
        state=_need(text_of(PROBE, item, "state"), "state"),
        physical_state=text_of(PROBE, item, "physical_state"),
        netdev=text_of(PROBE, item, "netdev"),
    )


def _json_dev(item: dict[str, Any], lines: Finder) -> RdmaDevInfo:
    name = _need(text_of(PROBE, item, "ifname"), "ifname")
    return RdmaDevInfo(
        line=lines.key("ifname"),
        device=name,
        node_type=_need(text_of(PROBE, item, "node_type"), "node_type"),
        firmware=text_of(PROBE, item, "fw"),
        node_guid=text_of(PROBE, item, "node_guid"),
    )


def _words(rest: str) -> dict[str, str]:
    words = rest.split()
    return dict(zip(words[::2], words[1::2], strict=False))


def _text_lines(text: str, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
    found: list[tuple[int, re.Match[str]]] = []
    for number, line in enumerate(read_lines(PROBE, text, max_lines=_MAX, max_line=1000), start=1):
        if not line.strip():
            continue
        match = pattern.match(line.strip())
        if match is not None:
            found.append((number, match))
        elif line.strip().startswith("caps: <"):
            continue  # of -d, below its line
        elif found or not PROMPT.match(line):
            raise ParseError(PROBE, number, f"not a line of rdma: {line.strip()[:60]!r}")
    if not found:
        raise ParseError(PROBE, 0, "no line of rdma")
    return found


def parse_rdma_link(text: str) -> RdmaLinks:
    """Every port. An empty list is an answer: none."""
    if text.lstrip()[:1] == "[":
        items, lines = _items(text)
        links = [_json_link(item, lines) for item in items]
    else:
        links = []
        for number, match in _text_lines(text, _LINK):
            words = _words(match[3])
            links.append(
                RdmaLink(
                    line=number,
                    device=match[1],
                    port=int(match[2]),
                    state=_need(words.get("state"), "state", number),
                    physical_state=words.get("physical_state"),
                    netdev=words.get("netdev"),
                )
            )
    if len({(link.device, link.port) for link in links}) != len(links):
        raise ParseError(PROBE, 0, "a port stands there twice")
    return RdmaLinks(links=tuple(links))


def parse_rdma_dev(text: str) -> RdmaDevs:
    """Every device. An empty list is an answer: none."""
    if text.lstrip()[:1] == "[":
        items, lines = _items(text)
        devices = [_json_dev(item, lines) for item in items]
    else:
        devices = []
        for number, match in _text_lines(text, _DEV):
            words = _words(match[2])
            devices.append(
                RdmaDevInfo(
                    line=number,
                    device=match[1],
                    node_type=_need(words.get("node_type"), "node_type", number),
                    firmware=words.get("fw"),
                    node_guid=words.get("node_guid"),
                )
            )
    if len({device.device for device in devices}) != len(devices):
        raise ParseError(PROBE, 0, "a device stands there twice")
    return RdmaDevs(devices=tuple(devices))


def parse_rdma(text: str) -> RdmaLinks | RdmaDevs:
    """Either of the two, by what the entries hold."""
    return parse_rdma_dev(text) if "node_type" in text[:100_000] else parse_rdma_link(text)
