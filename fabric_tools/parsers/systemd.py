"""State of one systemd unit, from `systemctl show` (what we ask) or `systemctl status` (pasted).

Evidence: real captures of `status` (running, killed, B300) and one condensed by its author; the
`show` form follows systemd's documentation of its properties, no capture in the corpus.
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import UnitState
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.saved import bare_lines

PROBE = "fabricmanager_unit"
WANTED = "nvidia-fabricmanager.service"
#: What the probe asks for; systemctl prints every property it was asked for, also empty ones.
SHOWN = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result")

_ACTIVE_STATES = {
    "active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance",
    "refreshing",
}  # fmt: skip
_LOAD_STATES = {
    "stub", "loaded", "not-found", "bad-setting", "error", "merged", "masked",
}  # fmt: skip
_FILE_STATES = {
    "enabled", "enabled-runtime", "linked", "linked-runtime", "alias", "masked", "masked-runtime",
    "static", "disabled", "indirect", "generated", "transient", "bad",
}  # fmt: skip

_KINDS = "service|socket|path|target|timer|mount|device|scope|slice|swap|automount"
_MISSING = re.compile(rf"\s*Unit (\S+\.(?:{_KINDS})) could not be found\.")
# The bullet is one character, and an asterisk or an x in the C locale.
_UNIT = re.compile(rf"\s*(?:\S )?\s*([\w@.:\\-]{{1,256}}\.(?:{_KINDS}))(?:\s|$)")
_ACTIVE = re.compile(r"\s*Active: (\S+)(?: \(([^()]*)\))?(?: \(([^()]*)\))?")
_LOADED = re.compile(r".*?\bLoaded: (\S.*)")


Found = tuple[str | None, int]


def _checked(found: Found, allowed: set[str], what: str) -> str | None:
    value, number = found
    if not value:
        return None
    if value not in allowed:
        raise ParseError(PROBE, number, f"{what} has no state {value[:40]!r}")
    return value


def _from_show(lines: list[str]) -> UnitState:
    values: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines, start=1):
        key, separator, value = line.partition("=")
        if not separator:
            continue
        if key in values:
            raise ParseError(PROBE, number, f"{key[:40]} stands there twice (more than one unit?)")
        values[key] = (value, number)

    def get(key: str) -> Found:
        return values.get(key, (None, 0))

    may_be_empty = ("UnitFileState",)
    cut = [k for k in SHOWN if k not in values or not (values[k][0] or k in may_be_empty)]
    if cut:
        raise ParseError(PROBE, 0, f"systemctl show without {', '.join(cut)} (cut?)")
    unit, active = get("Id")[0], _checked(get("ActiveState"), _ACTIVE_STATES, "ActiveState")
    if not unit or not active:
        raise ParseError(PROBE, 0, "systemctl show without Id or ActiveState")
    return UnitState(
        unit=unit,
        load=_checked(get("LoadState"), _LOAD_STATES, "LoadState"),
        active=active,
        sub=get("SubState")[0] or None,
        enabled=_checked(get("UnitFileState"), _FILE_STATES, "UnitFileState"),
        result=get("Result")[0] or None,
        line=get("ActiveState")[1],
    )


def _loaded(line: str, number: int) -> tuple[str | None, str | None]:
    """Load and enablement: ``loaded (/path; enabled; preset: ..)``, ``masked (Reason: ..)``."""
    match = _LOADED.match(line)
    if match is None:
        return None, None
    parts = [part.strip() for part in match[1].split(";")]
    word = parts[0].split(" ")[0]
    # One author shortened "loaded (/path" to "...": then only the second word is told.
    load = None if word == "..." else _checked((word, number), _LOAD_STATES, "Loaded")
    enabled = parts[1].rstrip(")") if len(parts) > 1 else load if load == "masked" else None
    return load, _checked((enabled, number), _FILE_STATES, "Loaded")


def _from_status(lines: list[str]) -> UnitState:
    """The first unit of the text, or the fabric manager where it is one of several."""
    units = [(n, m[1]) for n, line in enumerate(lines) if (m := _UNIT.match(line)) and m[1]]
    mine = [n for n, name in units if name == WANTED and not lines[n].startswith("      ")]
    if mine and any(_ACTIVE.match(line) for line in lines[mine[0] :]):
        lines = ["" for _ in lines[: mine[0]]] + lines[mine[0] :]
    unit: str | None = None
    load: str | None = None
    enabled: str | None = None
    for number, line in enumerate(lines, start=1):
        missing = _MISSING.match(line)
        if missing is not None:
            return UnitState(unit=missing[1], load="not-found", line=number)
        heading = _UNIT.match(line) if unit is None else None
        if heading is not None:
            unit = heading[1]
        if unit is not None and load is None and enabled is None:
            load, enabled = _loaded(line, number)
        active = _ACTIVE.match(line)
        if active is None:
            continue
        if unit is None:
            raise ParseError(PROBE, number, "an Active: line before the name of the unit")
        state = _checked((active[1], number), _ACTIVE_STATES, "Active")
        notes = [note for note in (active[2], active[3]) if note]
        results = [note.removeprefix("Result: ") for note in notes if note.startswith("Result: ")]
        subs = [note for note in notes if not note.startswith("Result: ")]
        return UnitState(
            unit=unit,
            load=load,
            active=state,
            # systemctl leaves SubState out where it has the name of ActiveState.
            sub=subs[0] if subs else state,
            enabled=enabled,
            result=results[0] if results else None,
            line=number,
        )
    raise ParseError(PROBE, 0, "no Active: line (a log excerpt is not the state of a unit)")


def parse_unit_state(text: str) -> UnitState:
    """The first unit of the text. A unit that is told of twice is refused: which one is true?"""
    lines = bare_lines(PROBE, text)
    found = _from_show(lines) if _is_show(lines) else _from_status(lines)
    _refuse_second(lines, found)
    return found


def _is_show(lines: list[str]) -> bool:
    return any(line.startswith("ActiveState=") for line in lines)


def _refuse_second(lines: list[str], found: UnitState) -> None:
    """``show`` refuses two answers by itself; this is for ``status``, twice or beside a show."""
    unit, states = "", []
    for number, line in enumerate(lines, start=1):
        if (heading := _UNIT.match(line)) and not line.startswith("      "):
            unit = heading[1]
        elif missing := _MISSING.match(line):
            unit = missing[1]
        if (_ACTIVE.match(line) or _MISSING.match(line)) and unit == found.unit:
            states.append(number)
    if len(states) > (0 if _is_show(lines) else 1):
        raise ParseError(PROBE, states[-1], f"{found.unit} is told of twice: keep one")
