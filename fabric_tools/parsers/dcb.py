"""``dcb pfc|ets|app|apptrust|buffer show dev IFACE`` of iproute2, text or ``-j``.

Evidence: a real capture of the two-line PFC form; the one-line form, ets and app are re-rendered
from facts; JSON, apptrust, buffer and dcbx follow iproute2's source (format unverified).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fabric_tools.models.network import Dcb
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import load_json, read_lines

PROBE = "dcb"

_PLAIN = ("pfc-cap", "macsec-bypass", "delay", "willing", "ets-cap", "cbs", "total-size")
#: Values without a key in front.
_WORDS = ("order", "default-prio")
_LISTS = (
    "prio-pfc", "requests", "indications", "prio-tc", "tc-tsa", "tc-bw", "pg-bw", "reco-tc-tsa",
    "reco-tc-bw", "reco-prio-tc", "dscp-prio", "ethtype-prio", "stream-port-prio", "pcp-prio",
    "dgram-port-prio", "port-prio", "prio-buffer", "buffer-size", "tc-maxrate", "prio-dscp",
    "prio-pcp",
)  # fmt: skip
_PAIR = re.compile(r"([\w.-]{1,16}):([\w.-]{1,20})", re.ASCII)
_SKIP = re.compile(
    r"\s*(?:[$#]\s*)?(?:sudo |ip netns |.{0,60}[$#] )*dcb |.{0,200}:$", re.IGNORECASE
)
_NAMES = {
    **{f"CS{n}": 8 * n for n in range(8)},
    **{f"AF{c}{p}": 8 * c + 2 * p for c in range(1, 5) for p in range(1, 4)},
    "EF": 46,
    "VA": 44,
    "LE": 1,
}

Values = dict[str, tuple[int, list[str]]]


_DCBX = {"host", "lld-managed", "cee", "ieee", "static"}


def _words(lines: list[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, start=1):
        bare = line.strip().removeprefix("# ").strip()
        if bare and set(bare.split()) <= _DCBX:
            continue  # dcb dcbx: who negotiates, no setting of a priority
        first = bare.split(" ", 1)[0].rstrip(":")
        if not bare or (first not in _PLAIN + _LISTS + _WORDS and _SKIP.match(line)):
            continue
        for word in bare.split():
            yield number, word


def _read_text(lines: list[str]) -> Values:
    found: Values = {}
    name = ""
    for number, word in _words(lines):
        key = word.removesuffix(":")
        if key in _PLAIN or key in _LISTS or key in _WORDS:
            if key in found:
                raise ParseError(PROBE, number, f"{key} stands there twice: two interfaces?")
            name = key
            found[name] = (number, [])
        elif not name:
            raise ParseError(PROBE, number, f"not a keyword of dcb: {word[:40]!r}")
        else:
            values = found[name][1]
            if (name in _PLAIN and values) or len(values) > 200:
                raise ParseError(PROBE, number, f"{name}: unexpected {word[:40]!r}")
            if name in _LISTS and _PAIR.fullmatch(word) is None:
                raise ParseError(PROBE, number, f"{name}: not a pair: {word[:40]!r}")
            values.append(word)
    return found


def _json_pairs(value: Any) -> list[str]:
    words: list[str] = []
    for index, item in enumerate(value):
        if isinstance(item, list) and len(item) == 2:
            words.append(f"{item[0]}:{item[1]}")
        elif isinstance(item, bool):
            words.append(f"{index}:{'on' if item else 'off'}")
        elif isinstance(item, (int, str)):
            words.append(f"{index}:{item}")
        else:
            raise ParseError(PROBE, 0, "a list of neither values nor pairs")
    return words


def _read_json(text: str) -> Values:
    value = load_json(PROBE, text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise ParseError(PROBE, 0, "not an object")
    found: Values = {}
    for key, item in value.items():
        name = key.replace("_", "-")
        if name in _WORDS and isinstance(item, list):
            found[name] = (1, [str(word)[:20] for word in item[:16]])
        elif name in _LISTS and isinstance(item, list) and len(item) <= 200:
            found[name] = (1, _json_pairs(item))
        elif name in _PLAIN and isinstance(item, (bool, int, str)):
            said = ("on" if item else "off") if isinstance(item, bool) else str(item)[:20]
            found[name] = (1, [said])
        elif name in _PLAIN + _LISTS + _WORDS:
            raise ParseError(PROBE, 0, f"{key} has another form")
    return found


def _pairs(found: Values, name: str) -> dict[str, str] | None:
    if name not in found:
        return None
    number, words = found[name]
    pairs: dict[str, str] = {}
    for word in words:
        match = _PAIR.fullmatch(word)
        if match is None or match[1] in pairs:
            raise ParseError(PROBE, number, f"{name}: {word[:40]!r} is no pair or twice")
        pairs[match[1]] = match[2]
    return pairs


def _integer(word: str, number: int, most: int) -> int:
    if re.fullmatch(r"[0-9]{1,9}", word) is None or int(word) > most:
        raise ParseError(PROBE, number, f"not a number up to {most}: {word[:20]!r}")
    return int(word)


def _numbers(found: Values, name: str, keys: int, most: int) -> dict[int, int] | None:
    pairs = _pairs(found, name)
    if pairs is None:
        return None
    line = found[name][0]
    made = {_integer(k, line, keys): _integer(v, line, most) for k, v in pairs.items()}
    return made or None


def _pfc(found: Values) -> tuple[bool, ...] | None:
    pairs = _pairs(found, "prio-pfc")
    if pairs is None:
        return None
    line = found["prio-pfc"][0]
    if sorted(pairs) != [str(n) for n in range(8)] or not set(pairs.values()) <= {"on", "off"}:
        raise ParseError(PROBE, line, "prio-pfc: not on or off for each of 8 priorities")
    return tuple(pairs[str(n)] == "on" for n in range(8))


def _plain(found: Values, name: str, most: int) -> int | None:
    if name not in found:
        return None
    number, words = found[name]
    if len(words) != 1:
        raise ParseError(PROBE, number, f"{name} has no value")
    return _integer(words[0], number, most)


def _dscp(names: dict[str, str] | None, line: int) -> tuple[dict[int, int], dict[str, int]]:
    numeric: dict[int, int] = {}
    for name, priority in (names or {}).items():
        dscp = _NAMES.get(name.upper())
        numeric[_integer(name, line, 63) if dscp is None else dscp] = _integer(priority, line, 7)
    return numeric, {name: int(priority) for name, priority in (names or {}).items()}


def parse_dcb(text: str) -> Dcb:
    """What the text holds of one interface; a keyword that stands there twice is refused."""
    as_json = text.lstrip()[:1] in ("{", "[")
    found = _read_json(text) if as_json else _read_text(read_lines(PROBE, text, max_lines=2000))
    if not found:
        raise ParseError(PROBE, 0, "no keyword of dcb")
    pfc = _pfc(found)
    app_line = found.get("dscp-prio", (0, []))[0]
    numeric, names = _dscp(_pairs(found, "dscp-prio"), app_line)
    bypass = found.get("macsec-bypass", (0, [""]))[1]
    order = found.get("order")
    fact = Dcb(
        pfc_cap=_plain(found, "pfc-cap", 8),
        pfc=pfc,
        pfc_enabled=tuple(n for n, on in enumerate(pfc) if on) if pfc else None,
        pfc_line=found["prio-pfc"][0] if pfc else None,
        macsec_bypass={"on": True, "off": False}.get(bypass[0]) if bypass else None,
        delay=_plain(found, "delay", 10**8),
        prio_tc=_numbers(found, "prio-tc", 7, 7),
        tc_tsa={_integer(k, 0, 7): v for k, v in (_pairs(found, "tc-tsa") or {}).items()} or None,
        tc_bw_percent=_numbers(found, "tc-bw", 7, 100),
        dscp_prio=numeric or None,
        dscp_names=names or None,
        app_line=app_line or None,
        trust_order=tuple(order[1]) if order else None,
        prio_buffer=_numbers(found, "prio-buffer", 7, 7),
    )
    if all(value is None for key, value in fact if key != "probe"):
        raise ParseError(PROBE, 0, "no PFC, ETS, application or buffer setting")
    return fact
