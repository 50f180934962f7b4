"""``ls -l /dev/nvidia*`` (or plain ``ls``): device nodes of the driver.

Evidence: one line of an A100 node, re-rendered from facts. Nodes in a folder (``nvidia-caps``) have
their bare names below ``FOLDER:``, as ls prints them.
"""

from __future__ import annotations

import re

from fabric_tools.models.system import DeviceNode, DeviceNodes
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "dev_nodes"

_PATH = r"(/dev/(?:nvidia[\w-]{0,40}(?:/[\w-]{1,40}){0,2}|infiniband/\w{1,40}))"
_LONG = re.compile(
    r"([cb][rwxsStT-]{9}[+.@]?)\s+\d{1,6}\s+\S{1,60}\s+\S{1,60}\s+(\d{1,5}),\s+(\d{1,8})"
    rf"\s.{{1,40}}?\s(?:{_PATH}|([\w-]{{1,40}}))$",
    re.ASCII,
)
_PLAIN = re.compile(rf"{_PATH}$", re.ASCII)
_NAME = re.compile(r"[\w-]{1,40}$", re.ASCII)
_ABSENT = re.compile(r"ls: cannot access ['\u2018]?/dev/nvidia\S{0,40}: No such file or directory$")
_FOLDER = re.compile(r"(/dev/(?:nvidia[\w-]{0,40}|infiniband)):$", re.ASCII)
_NOISE = re.compile(r"total \d{1,9}$|[dl][rwxsStT-]{9}|\S{0,80}[$#] ?(?:sudo )?ls |ls -", re.ASCII)


def _long(match: re.Match[str], folder: str | None, number: int) -> DeviceNode:
    path = match[4] or (f"{folder}/{match[5]}" if folder else None)
    if path is None:
        raise ParseError(PROBE, number, f"in which folder is {match[5]!r}?")
    return DeviceNode(
        line=number, path=path, mode=match[1], major=int(match[2]), minor=int(match[3])
    )


def _short(words: list[str], folder: str | None, number: int) -> list[DeviceNode] | None:
    """Paths, or names in a folder, several to a line; None where they are neither."""
    if all(map(_PLAIN.match, words)):
        return [DeviceNode(line=number, path=word) for word in words]
    if folder is not None and all(map(_NAME.match, words)):
        return [DeviceNode(line=number, path=f"{folder}/{word}") for word in words]
    return None


def parse_dev_nodes(text: str) -> DeviceNodes:
    """Every node."""
    nodes: list[DeviceNode] = []
    absent, folder = False, None
    for number, line in numbered(read_lines(PROBE, text, max_lines=5000, max_line=400)):
        said = line.strip()
        if match := _LONG.match(said):
            nodes.append(_long(match, folder, number))
        elif match := _FOLDER.match(said):
            folder = match[1]
        elif _ABSENT.match(said):
            absent = True
        elif _NOISE.match(said):
            continue
        elif (found := _short(said.split(), folder, number)) is not None:
            nodes += found
        else:
            raise ParseError(PROBE, number, f"not a device node: {said[:80]!r}")
    if not nodes and not absent:
        raise ParseError(PROBE, 0, "no device node")
    if len({node.path for node in nodes}) != len(nodes):
        raise ParseError(PROBE, 0, "a node stands there twice")
    return DeviceNodes(nodes=tuple(nodes), absent=absent)
