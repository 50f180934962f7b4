"""The node drawn as SVG: NUMA nodes with their GPUs and NICs, the NVSwitches between them.

Lengths are SVG user units; CSS shows one as one pixel. Half of the GPUs stand above the switches
and half below, so that a board of eight is as wide as a telephone.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from fabric_tools.models.nodemap import NodeMap
from fabric_tools.models.verdict import Status
from fabric_tools.report.marks import Mark, Marks
from fabric_tools.report.seats import MOST_NICS, Lane, Seat, gpu_numbers, lanes
from fabric_tools.report.text import printable

_W, _H, _GAP = 78, 50, 8  # a GPU
_NIC_H, _PAD, _HEAD = 20, 6, 16
_BAR, _REACH = 34, 34  # the switches, and the way from a GPU to them
_LETTERS = 11  # of a NIC's name at the size of the style sheet
_BEND = 36.0  # how far a line between neighbours bows out
_MOST_LINES = 40  # pairs drawn as lines where there is no switch
_MOST_FAULTS = 4  # faulty pairs drawn as lines; of more the GPUs that share them are marked


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a GPU meets the middle: its edge, and the direction from there (1 down, -1 up)."""

    x: float
    y: float
    way: int


def draw(node: NodeMap, marks: Marks) -> str:
    """The SVG element, or "" where neither GPU nor matrix is known. All text is escaped."""
    rows = lanes(node)
    if not rows:
        return ""
    return _Drawing(node, marks, rows).text()


class _Drawing:
    def __init__(self, node: NodeMap, marks: Marks, rows: Sequence[Lane]) -> None:
        self._node, self._marks, self._rows = node, marks, rows
        self._width = max(len(lane.seats) for lane in rows) * (_W + _GAP) + _GAP
        self._root = ET.Element("svg", {"class": "node", "role": "img"})
        self._lines = ET.SubElement(self._root, "g")  # below everything else
        self._over = ET.Element("g")  # marked pairs, above everything else
        self._at: dict[int, _Place] = {}
        seen, wanted = len(gpu_numbers(node)), node.wanted
        self._renumbered = wanted is not None and seen != wanted.gpus
        self._faults = [p for p, mark in marks.pairs.items() if mark.status is Status.FAIL]

    def text(self) -> str:
        """Lanes, the middle, then the lines that need to know where both ends are."""
        y = self._lane(self._rows[0], 2, up=True)
        middle = y + _REACH
        y = self._middle(middle) + _REACH
        for lane in self._rows[1:]:
            y = self._lane(lane, y, up=False)
        self._joined(middle)
        self._root.append(self._over)
        height = y + 2 if len(self._rows) > 1 else y - _REACH + 2
        self._root.set("viewBox", f"0 0 {self._width:g} {height:g}")
        self._root.set("width", f"{self._width:g}")
        self._root.set("height", f"{height:g}")
        self._root.set("aria-label", f"{len(gpu_numbers(self._node))} GPUs and how they are joined")
        return ET.tostring(self._root, encoding="unicode")

    def _lane(self, lane: Lane, top: float, *, up: bool) -> float:
        """One row of GPUs with their NICs on the far side of the switches. Returns its end."""
        nics = lane.nic_rows * (_NIC_H + _PAD)
        height = _HEAD + nics + _H + 2 * _PAD
        gpu_y = top + _HEAD + nics + _PAD if up else top + _PAD
        left = float(_GAP // 2)
        for box in lane.boxes:
            width = len(box.seats) * (_W + _GAP)
            self._box(left, top, width, height, "numa")
            at = top + 12 if up else top + height - 5
            self._words(left + 8, at, box.title, "small")
            for column, seat in enumerate(box.seats):
                x = left + column * (_W + _GAP) + _GAP / 2
                self._nics(seat, x, gpu_y, up=up)
                self._gpu(seat, x, gpu_y, up=up)
            left += width
        return top + height

    def _nics(self, seat: Seat, x: float, gpu_y: float, *, up: bool) -> None:
        more = len(seat.nics) - MOST_NICS + 1
        for row, nic in enumerate(seat.nics[:MOST_NICS]):
            step = (row + 1) * (_NIC_H + _PAD)
            y = gpu_y - step if up else gpu_y + _H + step - _NIC_H
            if nic.near and row == 0:
                start = gpu_y if up else gpu_y + _H
                end = y + _NIC_H if up else y
                self._line(x + _W / 2, start, x + _W / 2, end, "near")
            words, title = _short(nic.device or nic.name), f"{nic.name} {nic.device} {nic.near}"
            if row == MOST_NICS - 1 and more > 1:
                words, title = f"{more} more", "all of them are in the table"
            self._box(x, y, _W, _NIC_H, "nic", title.strip())
            self._words(x + _W / 2, y + 14, words, "small mid")

    def _gpu(self, seat: Seat, x: float, y: float, *, up: bool) -> None:
        if seat.gpu is None:
            self._box(x, y, _W, _H, "gpu lost", "expected by the platform, not seen")
            self._words(x + _W / 2, y + 20, "! GPU", "mid strong bad")
            self._words(x + _W / 2, y + 38, "not seen", "small mid bad")
            return
        mark = self._marks.gpus.get(seat.gpu)
        words = links_words(self._node, seat.gpu)
        if self._renumbered and mark and mark.address:
            words = f"at {mark.address.partition(':')[2]}"
        if len(self._faults) > _MOST_FAULTS and self._shared(seat.gpu) > 1:
            said_by = [self._marks.pairs[p].checks for p in self._faults if seat.gpu in p]
            mark = Mark(Status.FAIL, list(dict.fromkeys(name for said in said_by for name in said)))
            words = f"{self._shared(seat.gpu)} pairs bad"
        said = f"{mark.status.value}: {', '.join(mark.checks)}" if mark else ""
        good = "good" if seat.gpu in self._marks.passed else "unjudged"
        self._box(x, y, _W, _H, f"gpu mark-{mark.status.value}" if mark else f"gpu {good}", said)
        sign = f"{mark.sign} " if mark else ""
        self._words(x + _W / 2, y + 20, f"{sign}GPU {seat.gpu}", "mid strong")
        self._words(x + _W / 2, y + 38, words, "small mid")
        self._at[seat.gpu] = _Place(x + _W / 2, y + _H if up else y, 1 if up else -1)

    def _shared(self, gpu: int) -> int:
        """How many faulty pairs this GPU is in."""
        return sum(gpu in pair for pair in self._faults)

    def _middle(self, top: float) -> float:
        """The switches, where GPUs are joined by them. Returns the end."""
        wanted, seen = self._node.wanted, self._node.switches
        if wanted is None or wanted.mesh != "full":
            return top + _BAR
        self._box(_GAP / 2, top, self._width - _GAP, _BAR, "bar")
        if seen is None or not wanted.switches:
            why = "not PCI devices here" if not wanted.switches else "could not be read"
            self._words(self._width / 2, top + 21, f"NVSwitch: {why}", "small mid")
            return top + _BAR
        number = max(wanted.switches, len(seen))
        step = (self._width - _GAP - _PAD) / number
        for index in range(number):
            here = index < len(seen)
            x = _GAP / 2 + _PAD + index * step
            title = seen[index] if here else "expected by the platform, does not answer"
            self._box(x, top + _PAD, step - _PAD, _BAR - 2 * _PAD, _switch(here), title)
            word = "NVSwitch" if step > 76 else "NVSw"
            self._words(x + (step - _PAD) / 2, top + 21, word if here else "! none", "small mid")
        return top + _BAR

    def _joined(self, middle: float) -> None:
        """GPU to switch; pair by pair where there is none; and the marked pairs, over all."""
        wanted = self._node.wanted
        if wanted is not None and wanted.mesh == "full":
            for gpu, at in self._at.items():
                end = middle if at.way > 0 else middle + _BAR
                self._line(at.x, at.y, at.x, end, f"link {links_state(self._node, gpu)}")
        elif self._node.topology:
            found = [p for p in self._pairs() if p[2].startswith("NV")]
            for first, second, _ in found[:_MOST_LINES]:
                self._curve(self._lines, first, second, "link ok" if wanted else "link dim")
        values = {(a, b): value for a, b, value in self._pairs()}
        for pair in self._faults if len(self._faults) <= _MOST_FAULTS else ():
            self._curve(self._over, *pair, "link bad")
            self._tag(pair, values.get(pair, "?"))

    def _pairs(self) -> list[tuple[int, int, str]]:
        numbers = gpu_numbers(self._node)
        found = []
        for place, first in enumerate(numbers):
            for second in numbers[place + 1 :]:
                found.append((first, second, pair_value(self._node, first, second)))
        return found

    def _curve(self, group: ET.Element, first: int, second: int, kind: str) -> None:
        if first not in self._at or second not in self._at:
            return
        a, b = self._at[first], self._at[second]
        bend = _BEND if a.way == b.way else _BEND / 3
        path = f"M{a.x:g} {a.y:g}C{a.x:g} {a.y + a.way * bend:g} "
        path += f"{b.x:g} {b.y + b.way * bend:g} {b.x:g} {b.y:g}"
        ET.SubElement(group, "path", {"d": path, "class": kind})

    def _tag(self, pair: tuple[int, int], words: str) -> None:
        """The value on the line; across the switches near the end that fewer lines share."""
        if not all(gpu in self._at for gpu in pair):
            return
        near, far = sorted(pair, key=self._shared)
        a, b = self._at[near], self._at[far]
        if a.way == b.way:
            x, y = (a.x + b.x) / 2, a.y + a.way * _BEND * 0.75
        else:
            x, y = a.x + (b.x - a.x) * 0.16, a.y + a.way * _REACH / 2
        width = 8 + 8 * len(words)
        box = {"x": f"{x - width / 2:g}", "y": f"{y - 9:g}", "rx": "3", "class": "tag"}
        box |= {"width": f"{width:g}", "height": "18"}
        ET.SubElement(self._over, "rect", box)
        self._words(x, y + 4, words, "small mid strong", self._over)

    def _box(
        self, x: float, y: float, width: float, height: float, kind: str, title: str = ""
    ) -> None:
        size = {"width": f"{width:g}", "height": f"{height:g}", "rx": "5", "class": kind}
        made = ET.SubElement(self._root, "rect", {"x": f"{x:g}", "y": f"{y:g}", **size})
        if title:
            ET.SubElement(made, "title").text = printable(title)

    def _line(self, x: float, y: float, x2: float, y2: float, kind: str) -> None:
        ends = {"x1": f"{x:g}", "y1": f"{y:g}", "x2": f"{x2:g}", "y2": f"{y2:g}"}
        ET.SubElement(self._lines, "line", {**ends, "class": kind})

    def _words(
        self, x: float, y: float, words: str, kind: str, group: ET.Element | None = None
    ) -> None:
        where = self._root if group is None else group
        made = ET.SubElement(where, "text", {"x": f"{x:g}", "y": f"{y:g}", "class": kind})
        made.text = printable(words)


def links_words(node: NodeMap, gpu: int) -> str:
    """``17/18 links``: up of what the platform wants, or of what is listed without a platform."""
    found = next((item for item in node.links if item.gpu == gpu), None)
    if found is None:
        return "no NVLink" if node.wanted and not node.wanted.links_per_gpu else "links ?"
    if found.up is None:
        return found.note
    number = node.wanted.links_per_gpu if node.wanted else found.listed
    return f"{found.up}/{number} links"


def links_state(node: NodeMap, gpu: int) -> str:
    """The class of a GPU's links: ``ok``, ``bad`` (too few), or ``dim`` (not known)."""
    found = next((item for item in node.links if item.gpu == gpu), None)
    if found is None or node.wanted is None:
        return "dim"
    if found.up is None:
        return "dim" if "not told" in found.note else "bad"
    return "ok" if found.up >= node.wanted.links_per_gpu else "bad"


def pair_value(node: NodeMap, first: int, second: int) -> str:
    """The cell of a pair, whichever of its two is there; ``?`` where neither is."""
    if node.topology is None:
        return "?"
    for one, other in ((first, second), (second, first)):
        row = node.topology.row(f"GPU{one}")
        value = row.cells.get(f"GPU{other}") if row else None
        if value is not None:
            return value
    return "?"


def _switch(here: bool) -> str:
    return "switch" if here else "switch lost"


def _short(name: str) -> str:
    """Cut to the box; the whole name stands in the table below and in the title."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}\u2026"
