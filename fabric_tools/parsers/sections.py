"""One text with the output of one command for several interfaces: cut into its blocks.

Evidence: ``==> NAME <==`` is what our collector (and head, tail) writes between outputs; the echo
of a command is how people paste several (real captures of mlnx_qos with its prompt).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric_tools.parsers.base import ParseError

_MARK = re.compile(r"==> (.{1,200}) <==\s*$")
_NAME = re.compile(r"[A-Za-z0-9][\w.@:+-]{0,39}", re.ASCII)
_ECHO = re.compile(
    r"(?:^|[$#]) ?(?:sudo )?(?:mlnx_qos\s+-i\s*|dcb\s+(?:-\w+\s+)?\w+\s+show\s+dev\s+)"
    r"([\w.@:+-]{1,40})\s*$",
    re.ASCII,
)
_MAX_SECTIONS = 512
_MAX_LINES = 100_000


@dataclass(frozen=True, slots=True)
class Section:
    """One block. ``first_line`` is the number, in the whole text, of the line it begins with."""

    name: str | None
    first_line: int
    text: str

    @property
    def offset(self) -> int:
        """What to add to a line number inside the block."""
        return self.first_line - 1


def split_sections(probe: str, text: str) -> tuple[Section, ...]:
    """Blocks in order; the whole text as one block without a name where it has no marks.

    Text before the first mark is an error unless it is blank, and so is a name that stands twice.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) > _MAX_LINES:
        raise ParseError(probe, 0, f"more than {_MAX_LINES} lines")
    starts: list[tuple[int, str]] = []
    marked = False
    for index, line in enumerate(lines):
        if len(line) > 400 or not (mark := _MARK.match(line)):
            continue
        if not _NAME.fullmatch(mark[1]):
            raise ParseError(probe, index + 1, f"not an interface: {mark[1][:60]!r}")
        starts.append((index, mark[1]))
        marked = True
    if not marked:
        starts = [
            (index, match[1])
            for index, line in enumerate(lines)
            if len(line) <= 200 and (match := _ECHO.search(line))
        ]
    if len(starts) > _MAX_SECTIONS:
        raise ParseError(probe, 0, f"more than {_MAX_SECTIONS} interfaces")
    if not starts:
        return (Section(None, 1, text),)
    names = [name for _, name in starts]
    if len(set(names)) != len(names):
        raise ParseError(probe, 0, "an interface stands there twice")
    if any(line.strip() for line in lines[: starts[0][0]]):
        raise ParseError(probe, 1, "text before the first interface")
    ends = [index for index, _ in starts[1:]] + [len(lines)]
    return tuple(
        Section(name, index + 2, "\n".join(lines[index + 1 : end]) + "\n")
        for (index, name), end in zip(starts, ends, strict=True)
    )
