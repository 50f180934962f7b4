"""Fabric blocks of `nvidia-smi -q`: of the whole output, or of what people cut out of it.

Evidence: six real excerpts of H100 nodes (`grep -A2 -i fabric`, and the block alone in the layouts
of drivers before and since 580). Line numbers of `grep -n` and GPU headings inside an excerpt
follow the tools' documentation (format unverified).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import GpuFabric, GpuInventory
from fabric_tools.models.smi import FabricBlock, FabricStates, SmiQuery
from fabric_tools.parsers.base import NothingHere, ParseError
from fabric_tools.parsers.bounded import ELIDED, MIB, PROMPT, numbered, read_lines
from fabric_tools.parsers.saved import bare, bare_lines
from fabric_tools.parsers.smi_answer import error_note
from fabric_tools.parsers.smi_fields import (
    BUS_ID,
    GPU,
    MAX_GPUS,
    Fields,
    build_fabric,
    health,
)
from fabric_tools.parsers.smi_text import MAX_LINES, parse_gpu_inventory_text
from fabric_tools.parsers.smi_xml import parse_gpu_inventory_xml

PROBE = "nvidia_smi_fabric"

#: What `-q` prints above its first field; a text without it is an excerpt.
BANNER = "NVSMI LOG="

_TEXT_HEADING = re.compile(r"( {1,12})Fabric$")
_GPU_HEADING = re.compile(rf"GPU {BUS_ID.pattern}$")
_XML_HEADING = re.compile(r"\s*<fabric>")
_HEADING = re.compile(r"( *)([A-Z][\w /()-]{0,60})$", re.ASCII)
_FIELD = re.compile(r"( *)([A-Za-z][\w /().-]{0,60}?)( +): ?(\S.{0,200})?$", re.ASCII)
_GREP_NUMBER = re.compile(r"\d{1,6}[:-]", re.ASCII)
# Values that are no beginning of another, so that a last line without newline is not cut in them.
_WHOLE_VALUES = {
    "Completed", "In Progress", "Not Started", "Not Supported", "N/A", "Success", "Healthy",
    "Unhealthy",
}  # fmt: skip
# The command itself, behind a shell prompt or alone, as people paste it.
_COMMAND = re.compile(r"(?:sudo )?nvidia-smi .{0,300}$")


def is_xml(text: str) -> bool:
    """Whether the text is the XML form of `-q`."""
    return "<nvidia_smi_log" in text or text.lstrip("\ufeff \t\r\n").startswith("<?xml")


def parse_fabric_states(text: str) -> FabricStates:
    """The Fabric blocks of a whole `-q` (XML or text), else of an excerpt of the text."""
    lines = bare_lines(PROBE, text, MAX_LINES)
    if is_xml(text):
        return _of_whole(parse_gpu_inventory_xml(text), lines, _XML_HEADING)
    if BANNER in text:
        return _of_whole(parse_gpu_inventory_text(text), lines, _TEXT_HEADING)
    return _of_excerpt(text)


def fabric_states_of_inventory(inventory: Fact) -> FabricStates:
    """The same from a ``-q`` that was parsed already; the line is that of the GPU."""
    assert isinstance(inventory, GpuInventory)
    blocks = tuple(
        FabricBlock(line=gpu.line, gpu=gpu.index, fabric=gpu.fabric) for gpu in inventory.gpus
    )
    whole = len(blocks) == inventory.attached_gpus
    return FabricStates(blocks=blocks, complete=whole)


def fabric_states_of_query(query: Fact) -> FabricStates:
    """``fabric.state`` and ``fabric.status`` of a query, where it has those columns."""
    assert isinstance(query, SmiQuery)
    if "fabric.state" not in {heading.name for heading in query.columns}:
        raise NothingHere("nvidia_smi_query", 0, "has no column fabric.state")
    blocks = tuple(
        FabricBlock(
            line=row.line,
            gpu=None,  # so that fabric.registration judges it: no inventory says it too
            fabric=GpuFabric(
                state=query.cell(row, "fabric.state"), status=query.cell(row, "fabric.status")
            ),
        )
        for row in query.rows
    )
    return FabricStates(blocks=blocks, complete=query.complete and not query.errors)


def _of_whole(inventory: GpuInventory, lines: list[str], heading: re.Pattern[str]) -> FabricStates:
    """GPUs without the block (older drivers, a `-d` selection) are left out: not complete."""
    headings = [number for number, line in enumerate(lines, start=1) if heading.match(line)]
    blocks: list[FabricBlock] = []
    ends = [gpu.line for gpu in inventory.gpus[1:]] + [len(lines) + 1]
    for gpu, end in zip(inventory.gpus, ends, strict=True):
        line = next((number for number in headings if gpu.line < number < end), None)
        if line is not None:
            blocks.append(FabricBlock(line=line, gpu=gpu.index, fabric=gpu.fabric))
    if not blocks:
        raise ParseError(PROBE, 0, "no GPU has a Fabric block (an older driver, or `-q -d`)")
    whole = len(blocks) == len(inventory.gpus) == inventory.attached_gpus
    ended = heading is _XML_HEADING or _is_closed(lines, blocks[-1].line)
    return FabricStates(blocks=tuple(blocks), complete=whole and ended)


def _is_closed(lines: list[str], start: int) -> bool:
    """Whether something beside the block follows it, so that the block was not cut."""
    indent = len(lines[start - 1]) - len(lines[start - 1].lstrip(" "))
    after = [line for line in lines[start:-1] if line.strip()]
    return any(len(line) - len(line.lstrip(" ")) <= indent for line in after)


@dataclass
class _Open:
    """A Fabric block whose lines are still being read."""

    line: int
    indent: int
    values: dict[str, str] = field(default_factory=dict)
    heading: tuple[int, str] | None = None

    def add(self, indent: int, key: str, value: str, number: int) -> None:
        inside = self.heading is not None and indent > self.heading[0]
        path = f"Fabric/{self.heading[1]}/{key}" if inside and self.heading else f"Fabric/{key}"
        if path in self.values:
            raise ParseError(PROBE, number, f"{path} stands there twice in one block")
        self.values[path] = value

    def closed(self) -> FabricBlock:
        if "Fabric/State" not in self.values:
            raise ParseError(PROBE, self.line, "a Fabric block without its State")
        fields = Fields(PROBE, self.line, lambda name: self.values.get(GPU[name][1]))
        prefix = "Fabric/Health/"
        told = ((k[len(prefix) :], v) for k, v in self.values.items() if k.startswith(prefix))
        return FabricBlock(line=self.line, gpu=None, fabric=build_fabric(fields, health(told)))


class _Excerpt:
    """Goes through the lines once. Values stand in one column, as `-q` prints them."""

    def __init__(self) -> None:
        self.blocks: list[FabricBlock] = []
        self.open: _Open | None = None
        self.column = -1

    def close(self) -> None:
        if self.open is not None:
            self.blocks.append(self.open.closed())
            self.open = None
        if len(self.blocks) > MAX_GPUS:
            raise ParseError(PROBE, 0, f"more than {MAX_GPUS} Fabric blocks")

    def line(self, line: str, number: int) -> None:
        if line == "--" or any(x.match(line) for x in (ELIDED, PROMPT, _COMMAND, _GPU_HEADING)):
            self.close()
        elif match := _HEADING.match(line):
            self._heading(len(match[1]), match[2], number)
        elif match := _FIELD.match(line):
            self._field(match, number)
        else:
            raise ParseError(PROBE, number, f"not a line of nvidia-smi -q: {line[:60]!r}")

    def _heading(self, indent: int, name: str, number: int) -> None:
        if self.open is not None and indent > self.open.indent:
            self.open.heading = (indent, name)
            return
        self.close()
        if name == "Fabric":
            self.open = _Open(number, indent)

    def _field(self, match: re.Match[str], number: int) -> None:
        indent, column = len(match[1]), match.end(3)
        if self.column < 0:
            self.column = column
        # A name that is longer than its column pushes the colon to the right.
        if column != self.column and not (column > self.column and len(match[3]) == 1):
            raise ParseError(PROBE, number, "values not in one column: not nvidia-smi -q")
        if self.open is not None and indent <= self.open.indent:
            self.close()
        if self.open is not None:
            self.open.add(indent, match[2], match[4] or "", number)


def _without_numbers(lines: list[str]) -> list[str]:
    """Lines without what `grep -n` puts before each."""
    told = [line for line in lines if line.strip() and line.strip() != "--"]
    if not told or not all(_GREP_NUMBER.match(line) for line in told):
        return lines
    return [_GREP_NUMBER.sub("", line, count=1) for line in lines]


def _of_excerpt(text: str) -> FabricStates:
    """Strict, because nothing but the shape of the lines says that this is nvidia-smi."""
    lines = read_lines(PROBE, bare(text), max_chars=2 * MIB, max_line=400)
    note = error_note(lines)
    if note:
        raise ParseError(PROBE, 0, "no Fabric block" + note)
    last = _FIELD.match(lines[-1])
    if last is None or last[4] not in _WHOLE_VALUES:
        lines[-1] = ""  # without its newline it may be cut
    reader = _Excerpt()
    for number, line in numbered(_without_numbers(lines)):
        reader.line(line, number)
    reader.close()
    if not reader.blocks:
        raise ParseError(PROBE, 0, "neither nvidia-smi -q nor an excerpt with a Fabric block")
    return FabricStates(blocks=tuple(reader.blocks), complete=False)
