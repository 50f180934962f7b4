"""`nvidia-smi topo -p2p r|w|n|a|p`: peer access between GPUs.

Evidence: three texts re-rendered from facts (8 GPUs, two and four consumer cards, one cut).
"""

from __future__ import annotations

import re

from fabric_tools.models.smi import P2pRow, TopologyP2p
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, numbered, read_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note, find_smi_error

PROBE = "nvidia_smi_topo_p2p"

_GPU = re.compile(r"GPU\d{1,4}", re.ASCII)
_CELLS = ("X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_LEGEND = re.compile(r"\s+([A-Z]{1,4})\s+= (\S.{0,60})$")
_MAX_GPUS = 256


def _row(line: str, number: int, gpus: tuple[str, ...]) -> P2pRow | None:
    """None where the row is too short."""
    name, *cells = line.split()
    if name not in gpus or len(cells) > len(gpus):
        raise ParseError(PROBE, number, f"not a row of this matrix: {line.strip()[:60]!r}")
    if len(cells) < len(gpus):
        return None
    for column, cell in zip(gpus, cells, strict=True):
        if cell not in _CELLS or (cell == "X") != (column == name):
            raise ParseError(PROBE, number, f"{name}-{column}: cannot read {cell[:20]!r}")
    return P2pRow(name=name, line=number, cells=dict(zip(gpus, cells, strict=True)))


def parse_topo_p2p(text: str) -> TopologyP2p:
    """The matrix. A short last row is dropped and makes it incomplete."""
    lines = read_lines(PROBE, bare(text), max_chars=MIB, max_lines=2000)
    error = find_smi_error(lines)
    if error is not None:
        raise ParseError(PROBE, error.line, f"nvidia-smi said: {error.text[:200]}")
    gpus: tuple[str, ...] = ()
    rows: list[P2pRow] = []
    legend: dict[str, str] = {}
    cut = 0
    for number, line in numbered(lines):
        words = line.split()
        if all(_GPU.fullmatch(word) for word in words) and (len(words) > 1 or not gpus):
            if gpus:
                raise ParseError(PROBE, number, "a second matrix")
            gpus = tuple(words)
        elif gpus and _GPU.fullmatch(words[0]):
            if cut or legend:
                raise ParseError(PROBE, cut or number, "a row that is too short or out of place")
            row = _row(line, number, gpus)
            if row is None:
                cut = number
            else:
                rows.append(row)
        elif match := _LEGEND.match(line):
            legend[match[1]] = match[2]
    names = [row.name for row in rows]
    if not gpus or not rows or len(set(gpus)) != len(gpus) or len(gpus) > _MAX_GPUS:
        raise ParseError(PROBE, 0, "no matrix of GPUs" + error_note(lines))
    if len(set(names)) != len(names) or (cut and legend):
        raise ParseError(PROBE, cut, "a row stands there twice or is too short")
    complete = not cut and set(names) == set(gpus)
    return TopologyP2p(gpus=gpus, rows=tuple(rows), legend=legend, complete=complete)
