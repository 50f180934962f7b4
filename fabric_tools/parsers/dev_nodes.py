"""`ls -l /dev/nvidia*`: device nodes of the driver.

Evidence: one line of an A100 node, re-rendered from facts.
"""

from __future__ import annotations

import re

from fabric_tools.models.system import DeviceNode, DeviceNodes
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "dev_nodes"

_PATH = r"(/dev/(?:nvidia[\w-]{0,40}(?:/[\w-]{1,40}){0,2}|infiniband/\w{1,40}))"
_LONG = re.compile(
    rf"([cb][rwxsStT-]{{9}}[+.@]?)\s+\d{{1,6}}\s+\S{{1,60}}\s+\S{{1,60}}\s+(\d{{1,5}}),\s+(\d{{1,8}})"
    rf"\s.{{1,40}}?\s{_PATH}$",
    re.ASCII,
)
_PLAIN = re.compile(rf"{_PATH}$", re.ASCII)
_ABSENT = re.compile(r"ls: cannot access '?/dev/nvidia\S{0,40}: No such file or directory$")
_FOLDER = re.compile(r"total \d{1,9}$|/dev/nvidia[\w-]{0,40}:$|[dl][rwxsStT-]{9}", re.ASCII)


def parse_dev_nodes(text: str) -> DeviceNodes:
    """One node a line."""
    nodes: list[DeviceNode] = []
    absent = False
    for number, line in numbered(read_lines(PROBE, text, max_lines=5000, max_line=400)):
        said = line.strip()
        if match := _LONG.match(said):
            nodes.append(
                DeviceNode(
                    line=number, path=match[4], mode=match[1], major=int(match[2]),
                    minor=int(match[3]),
                )
            )  # fmt: skip
        elif match := _PLAIN.match(said):
            nodes.append(DeviceNode(line=number, path=match[1]))
        elif _ABSENT.match(said):
            absent = True
        elif not _FOLDER.match(said) and "ls " not in said:
            raise ParseError(PROBE, number, f"not a device node: {said[:80]!r}")
    if not nodes and not absent:
        raise ParseError(PROBE, 0, "no device node")
    if len({node.path for node in nodes}) != len(nodes):
        raise ParseError(PROBE, 0, "a node stands there twice")
    return DeviceNodes(nodes=tuple(nodes), absent=absent)
