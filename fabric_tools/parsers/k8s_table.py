"""Tables of ``kubectl get``: a heading, then rows whose cells stand two blanks or more apart.

Evidence: real tables of pods (``-o wide``) and DaemonSets of one cluster. Cells never are empty
(``<none>``) and hold single blanks only (``3 (5d ago)``), so the gaps tell the columns also where
an editor moved them.
"""

from __future__ import annotations

import re

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, numbered, read_lines

_GAP = re.compile(r" {2,}|\t")
_EMPTY = re.compile(r"No resources found(?: in [\w.-]{1,63} namespace)?\.?$", re.ASCII)
#: What kubectl and its plugins log before they answer.
_LOG = re.compile(r"[IWE]\d{4} \d\d:|Warning: |WARN\[\d{1,9}\] |.{0,200}\bkubectl (?:get|-)")
_COUNT = re.compile(r"\d{1,9}", re.ASCII)

Row = tuple[int, dict[str, str]]


def read_table(probe: str, text: str, needed: tuple[str, ...]) -> list[Row]:
    """Rows as heading -> cell. ``No resources found`` is a table without rows."""
    heading: list[str] | None = None
    rows: list[Row] = []
    seen: set[tuple[str | None, str]] = set()
    for number, line in numbered(read_lines(probe, text, max_lines=40_000)):
        cells = _GAP.split(line.strip())
        if heading is None and _EMPTY.match(line.strip()):
            return []
        if heading is None and set(needed) <= set(cells):
            heading = cells
        elif heading is None:
            if not _LOG.match(line.strip()) and not PROMPT.match(line):
                raise ParseError(probe, number, f"no heading before {line.strip()[:80]!r}")
        elif len(cells) != len(heading):
            raise ParseError(probe, number, f"{len(cells)} cells below {len(heading)} headings")
        else:
            row = dict(zip(heading, cells, strict=True))
            key = (row.get("NAMESPACE"), row["NAME"])
            if key in seen or "NAME" in cells:
                raise ParseError(probe, number, f"{row['NAME'][:80]} stands there twice")
            seen.add(key)
            rows.append((number, row))
    if not rows:
        raise ParseError(probe, 0, "no row")
    return rows


def cell(row: dict[str, str], name: str) -> str | None:
    """The cell, None for ``<none>`` and where there is no such column."""
    value = row.get(name)
    return None if value in (None, "<none>", "<unset>") else value


def count(probe: str, number: int, row: dict[str, str], name: str) -> int:
    """A cell that is a whole number."""
    if _COUNT.fullmatch(row[name]) is None:
        raise ParseError(probe, number, f"{name} is no count: {row[name][:40]!r}")
    return int(row[name])


def last_line_ends(text: str) -> bool:
    """Whether nothing can be missing from the last row."""
    return text.endswith("\n")
