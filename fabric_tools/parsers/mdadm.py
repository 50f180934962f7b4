"""Software RAID: ``/proc/mdstat`` and ``mdadm --detail``.

Evidence: the kernel's source (drivers/md/md.c), mdadm's Detail.c and texts in public reports, none
of a GPU node: format unverified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.storage import MdArray, MdArrays, MdMember
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, first_words, numbered, read_lines

PROBE = "mdadm"
_MAX = 1000
_ARRAY = re.compile(
    r"(md[\w-]{1,60}) : (active|inactive)((?: \([a-z -]{1,20}\))?)"
    r"(?: (raid\d{1,2}|linear|multipath|faulty|container))?((?: \S{1,80}){0,256})$",
    re.ASCII,
)
_MEMBER = re.compile(r"([\w/!-]{1,60})\[(\d{1,5})\]((?:\([A-Z]\)){0,4})$", re.ASCII)
_BLOCKS = re.compile(r"\s+(\d{1,18}) blocks\b", re.ASCII)
_HEALTH = re.compile(r" \[(\d{1,4})/(\d{1,4})\] \[([U_]{1,300})\]", re.ASCII)
_PROGRESS = re.compile(
    r"\s+(?:\[[=>.]{1,40}\]\s+)?(resync|recovery|reshape|check)\s*=\s*"
    r"(?:(\d{1,3}\.\d{1,3})%|DELAYED|PENDING|REMOTE)",
    re.ASCII,
)
_FLAGS = {"F": "faulty", "S": "spare", "J": "journal", "R": "replacement", "W": "write-mostly"}
_DEVICE = re.compile(r"(/dev/(md[\w/:.-]{1,80})):$", re.ASCII)
_FIELD = re.compile(r"\s*([A-Z][\w /-]{1,40}?) : (.*)$", re.ASCII)
_ROW = re.compile(
    r"\s+(?:\d{1,6}|-)\s+\d{1,6}\s+\d{1,6}\s+(\d{1,6}|-)\s+([a-z][a-z -]{1,60}?)"
    r"(?:\s{2,}(/dev/\S{1,80}))?$",
    re.ASCII,
)
_STATUS = re.compile(r"(\d{1,3})% complete$", re.ASCII)


@dataclass
class _Open:
    """An array whose lines are still being read."""

    line: int
    name: str
    values: dict[str, object] = field(default_factory=dict)
    members: list[MdMember] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)


def _members(words: str, number: int) -> list[MdMember]:
    members = []
    for word in words.split():
        match = _MEMBER.match(word)
        if match is None:
            raise ParseError(PROBE, number, f"not a member of an array: {word[:60]!r}")
        flags = [_FLAGS.get(flag, flag) for flag in match[3].strip("()").split(")(") if flag]
        members.append(
            MdMember(
                line=number,
                device=match[1],
                slot=None if {"faulty", "spare", "journal"} & set(flags) else int(match[2]),
                state=", ".join(flags) or "in sync",
            )
        )
    return members


def _mdstat_line(item: _Open, line: str, number: int) -> None:
    if match := _BLOCKS.match(line):
        item.values["size_kib"] = int(match[1])
        if health := _HEALTH.search(line):
            wanted, active = int(health[1]), int(health[2])
            if len(health[3]) != wanted or health[3].count("U") != active:
                raise ParseError(PROBE, number, f"{health[0].strip()!r:.80} contradicts itself")
            item.values.update(wanted=wanted, active=active)
    elif match := _PROGRESS.match(line):
        item.values["action"] = match[1]
        item.values["percent"] = float(match[2]) if match[2] else None
    elif not re.match(r"\s+(?:bitmap: |\[[=>.]+\]|journal)", line):
        raise ParseError(PROBE, number, f"not a line of mdstat: {line.strip()[:60]!r}")


def _from_mdstat(lines: list[str]) -> MdArrays:
    arrays: list[_Open] = []
    headed = ended = False
    for number, line in numbered(lines):
        if line.startswith("Personalities :"):
            headed = True
        elif line.startswith("unused devices:"):
            ended = True
        elif match := _ARRAY.match(line):
            state = match[2] + match[3]
            values: dict[str, object] = {"state": state, "level": match[4]}
            arrays.append(_Open(number, match[1], values, _members(match[5], number)))
            if len(arrays) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} arrays")
        elif arrays and line[0] in " \t" and not ended:
            _mdstat_line(arrays[-1], line, number)
        elif headed or not PROMPT.match(line):
            raise ParseError(PROBE, number, f"not a line of mdstat: {line.strip()[:60]!r}")
    if not headed:
        raise ParseError(PROBE, 0, "no Personalities line")
    found = []
    for item in arrays:
        failed = sum("faulty" in member.state for member in item.members)
        found.append(_array(item, failed))
    sized = all(item.size_kib is not None for item in found)
    return MdArrays(form="mdstat", arrays=tuple(found), complete=ended and sized)


def _array(item: _Open, failed: int) -> MdArray:
    return MdArray.model_validate(
        {
            "line": item.line, "name": item.name, "failed": failed,
            "members": tuple(item.members), **item.values,
        }
    )  # fmt: skip


def _count(item: _Open, name: str) -> int | None:
    word = item.fields.get(name)
    if word is None:
        return None
    match = re.match(r"\d{1,18}(?= |$)", word, re.ASCII)
    if match is None:
        raise ParseError(PROBE, item.line, f"{item.name}: {name} is {word[:40]!r}")
    return int(match[0])


def _from_detail(item: _Open) -> tuple[MdArray, bool]:
    level, wanted = item.fields.get("Raid Level"), _count(item, "Raid Devices")
    state, failed = item.fields.get("State"), _count(item, "Failed Devices")
    if level is None or (state is None and level != "container"):
        raise ParseError(PROBE, item.line, f"{item.name}: no Raid Level or State (cut?)")
    item.values.update(
        state=state or "container", level=level, wanted=wanted,
        size_kib=_count(item, "Array Size"), active=_count(item, "Active Devices"),
    )  # fmt: skip
    for name, action in (("Rebuild", "recovery"), ("Resync", "resync"), ("Reshape", "reshape"),
                         ("Check", "check")):  # fmt: skip
        if match := _STATUS.match(item.fields.get(f"{name} Status", "")):
            item.values.update(action=action, percent=float(match[1]))
    rows = sum(member.slot is not None for member in item.members)
    whole = level == "container" or (wanted is not None and failed is not None and rows >= wanted)
    counted = sum("faulty" in member.state for member in item.members)
    return _array(item, counted if failed is None else failed), whole


def _detail(lines: list[str]) -> MdArrays:
    arrays: list[_Open] = []
    for number, line in numbered(lines):
        if match := _DEVICE.match(line):
            arrays.append(_Open(number, match[2]))
            if len(arrays) > _MAX:
                raise ParseError(PROBE, number, f"more than {_MAX} arrays")
        elif not arrays:
            if not PROMPT.match(line) and "mdadm -" not in line:
                raise ParseError(PROBE, number, f"not mdadm --detail: {line.strip()[:60]!r}")
        elif match := _FIELD.match(line):
            if match[1] in arrays[-1].fields:
                raise ParseError(PROBE, number, f"{match[1]} stands there twice")
            arrays[-1].fields[match[1]] = match[2].strip()
        elif match := _ROW.match(line):
            slot = None if match[1] == "-" else int(match[1])
            arrays[-1].members.append(
                MdMember(line=number, device=match[3], slot=slot, state=match[2].strip())
            )
        elif "RaidDevice State" not in line and not re.match(r"\s+- +\d", line):
            raise ParseError(PROBE, number, f"not mdadm --detail: {line.strip()[:60]!r}")
    found = [_from_detail(item) for item in arrays]
    return MdArrays(
        form="detail",
        arrays=tuple(array for array, _ in found),
        complete=all(whole for _, whole in found),
    )


def parse_mdadm(text: str) -> MdArrays:
    """Every array, whichever of the two forms the text has."""
    lines = read_lines(PROBE, text, max_lines=20_000)
    if any(line.startswith("Personalities :") for line in lines):
        fact = _from_mdstat(lines)
    elif any(_DEVICE.match(line) for line in lines):
        fact = _detail(lines)
    else:
        raise ParseError(PROBE, 0, f"neither mdstat nor mdadm --detail: {first_words(lines)!r}")
    if len({array.name for array in fact.arrays}) != len(fact.arrays):
        raise ParseError(PROBE, 0, "an array stands there twice")
    return fact if text.endswith("\n") else fact.model_copy(update={"complete": False})
