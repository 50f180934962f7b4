"""`nvidia-smi -q` as text, read as an indentation tree (the column width differs per driver).

Evidence: real captures of 8x H100 (565), 4x A100 (555), H200 and H100 (590), L40S (595), and a
real `-d ECC,ROW_REMAPPER` excerpt (550). The 610 names of the versions are unverified.
"""

from __future__ import annotations

from fabric_tools.models.facts import GpuFacts, GpuInventory
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines
from fabric_tools.parsers.smi_answer import error_note
from fabric_tools.parsers.smi_fields import (
    BUS_ID,
    GPU,
    HEAD,
    MAX_GPUS,
    Fields,
    build_gpu,
    health,
)

PROBE = "nvidia_smi_q"
#: More than `-q` prints of as many GPUs as a node may have, in either form.
MAX_LINES = 100_000

_BANNER = "====NVSMI LOG===="


class _Block:
    """The values under one heading line: path -> value, and the paths that occur twice."""

    def __init__(self, line: int, bus_id: str = "") -> None:
        self.line, self.bus_id = line, bus_id
        self.values: dict[str, str] = {}
        self.twice: set[str] = set()
        self._open: list[tuple[int, str]] = []

    def add(self, text: str) -> None:
        """Files one indented line below the nearest line that is indented less."""
        body = text.lstrip(" ")
        indent = len(text) - len(body)
        key, separator, value = body.partition(" :")
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        parent = self._open[-1][1] + "/" if self._open else ""
        # No path that is read is longer; deeper text would only cost memory.
        path = (parent + key.rstrip())[:200]
        self._open.append((indent, path))
        if not separator:
            return
        if path in self.values:
            self.twice.add(path)
        self.values[path] = value.strip()

    def get(self, table: dict[str, tuple[str, str]], name: str) -> str | None:
        path = table[name][1]
        if path in self.twice:
            raise ParseError(PROBE, self.line, f"{path!r} stands there twice in one block")
        return self.values.get(path)


def _blocks(lines: list[str]) -> tuple[_Block, list[_Block]]:
    head, gpus = _Block(1), list[_Block]()
    block: _Block | None = None
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        if line.startswith("GPU ") and " :" not in line:
            bus_id = line.removeprefix("GPU ")
            if not BUS_ID.fullmatch(bus_id):
                raise ParseError(PROBE, number, f"not a GPU heading: {line[:60]!r}")
            block = _Block(number, bus_id)
            gpus.append(block)
        elif not line.startswith(" "):
            block = None
            head.add(line)
        elif block is not None:
            block.add(line)
    return head, gpus


def _gpu(block: _Block, index: int) -> GpuFacts:
    prefix = "Fabric/Health/"
    found = health(
        (path.removeprefix(prefix), value)
        for path, value in block.values.items()
        if path.startswith(prefix)
    )
    return build_gpu(
        PROBE, index, block.line, block.bus_id, lambda name: block.get(GPU, name), found
    )


def parse_gpu_inventory_text(text: str) -> GpuInventory:
    """All GPUs in order of print. A last line without its newline is cut and does not count."""
    lines = bare_lines(PROBE, text, MAX_LINES)
    note = error_note(lines)
    lines[-1] = ""
    if not any(_BANNER in line for line in lines):
        raise ParseError(PROBE, 0, "not the whole of nvidia-smi -q" + note)
    head, blocks = _blocks(lines)
    if len(blocks) > MAX_GPUS:
        raise ParseError(PROBE, 0, f"{len(blocks)} GPUs, more than any node has")
    if not blocks:
        raise ParseError(PROBE, 0, "not the whole of nvidia-smi -q: no GPU block" + note)
    seen: set[str] = set()
    for block in blocks:
        if block.bus_id.lower() in seen:
            raise ParseError(PROBE, block.line, f"GPU {block.bus_id} is listed twice")
        seen.add(block.bus_id.lower())
    fields = Fields(PROBE, head.line, lambda name: head.get(HEAD, name))
    return GpuInventory(
        driver_version=fields.version("driver_version", "kmd_version"),
        cuda_version=fields.version("cuda_version", "cuda_umd_version"),
        attached_gpus=fields.number("attached_gpus"),
        gpus=tuple(_gpu(block, index) for index, block in enumerate(blocks)),
    )
