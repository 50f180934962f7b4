"""Reading untrusted text within bounds: lines, JSON, and where a word of it stands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from fabric_tools.models.nccl import TextNote
from fabric_tools.parsers.base import ParseError, clean_lines

MIB = 1024 * 1024


def _text(probe: str, text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        raise ParseError(probe, 0, f"longer than {max_chars} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParseError(probe, 0, "not text (lone surrogates)") from None
    return text


def read_lines(
    probe: str,
    text: str,
    *,
    max_chars: int = 4 * MIB,
    max_lines: int = 50_000,
    max_line: int = 4096,
) -> list[str]:
    """Clean lines, numbering kept. What is longer than the tool ever prints is refused."""
    _text(probe, text, max_chars)
    if text.count("\n") >= max_lines:
        raise ParseError(probe, 0, f"more than {max_lines} lines")
    lines = clean_lines(text)
    for number, line in enumerate(lines, start=1):
        if len(line) > max_line:
            raise ParseError(probe, number, f"a line of more than {max_line} characters")
    return lines


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_number(_: str) -> None:
    """NaN and Infinity are no readings."""


def load_json(probe: str, text: str, *, max_chars: int = 6 * MIB) -> object:
    """The JSON value of the whole text. NaN and Infinity become None, double keys are refused."""
    _text(probe, text, max_chars)
    try:
        value: object = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ParseError(probe, error.lineno, f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ParseError(probe, 0, f"not usable JSON: {str(error)[:80]}") from None
    return value


def json_start(lines: list[str]) -> int | None:
    """Index of the first line that opens a JSON object or list; banners may come before it."""
    for index, line in enumerate(lines):
        if line.lstrip()[:1] == "{" or line.strip() in ("[", "[{") or line.lstrip()[:2] == "[{":
            return index
    return None


def as_dict(value: object) -> dict[str, object]:
    """The object, or an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The list, or an empty one where it is something else."""
    return value if isinstance(value, list) else []


def as_str(value: object) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None


def as_bool(value: object) -> bool | None:
    """A boolean; some tools write it as a string."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def as_int(value: object) -> int | None:
    """A whole number, also where it stands in a string."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_float(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


class Finder:
    """The line of each word, asked for in the order in which the words stand in the text."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self.current = text, 0, 1

    def line(self, word: str) -> int:
        """Line of the next occurrence; where there is none, the last line that was found."""
        if self._at >= 0:
            found = self._text.find(word, self._at)
            if found >= 0:
                self.current += self._text.count("\n", self._at, found + len(word))
                self._at = found + len(word)
                return self.current
            self._at = -1
        return self.current

    def key(self, name: str) -> int:
        """The same for a JSON string."""
        return self.line(json.dumps(name))


def numbered(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


_MAX_JSON = 4 * 1024 * 1024
#: A shell prompt, with or without a command behind it, as people paste it.
PROMPT = re.compile(r"\s*(?:\[[^\]]{1,80}\][$#]|\S{0,80}[$#])(?:\s|$)")
#: What people write where they left lines out.
ELIDED = re.compile(r"\s*(?:#\s*)?[\[(<]?(?:\.{3,}|\u2026|snip\b)")


def bounded_lines(
    probe: str, text: str, max_lines: int = 20_000, max_line: int = 4096
) -> list[str]:
    """Cleaned lines; refuses text that cannot be the tool's by its size or its encoding."""
    if text.count("\n") >= max_lines:
        raise ParseError(probe, 0, f"more than {max_lines} lines")
    if not text.isascii():
        check_unicode(probe, text)
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) > max_line:
            raise ParseError(probe, number, f"a line of more than {max_line} characters")
    return clean_lines(text)


def check_unicode(probe: str, text: str) -> None:
    """Refuses lone surrogates, which no model can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ParseError(probe, line, "not valid Unicode") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def load_strict_json(probe: str, text: str) -> Any:
    """The JSON value of the whole text. A key that stands twice in an object is an error."""
    if len(text) > _MAX_JSON:
        raise ParseError(probe, 0, f"more than {_MAX_JSON} characters of JSON")
    if not text.strip():
        raise ParseError(probe, 0, "no text")
    check_unicode(probe, text)
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        raise ParseError(probe, error.lineno, f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ParseError(probe, 0, "nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise ParseError(probe, 0, f"not JSON: {error}"[:200]) from error
    return value


class LineFinder:
    """Line on which a quoted word stands, searched onwards from the last hit."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def line(self, word: str, key: str | None = None) -> int:
        """The next line that holds ``"word"`` (behind ``"key":``); else the last line found."""
        before = rf'"{re.escape(key)}"\s{{0,40}}:\s{{0,40}}' if key else ""
        match = re.compile(before + re.escape(f'"{word}"')).search(self._text, self._at)
        if match is not None:
            self._line += self._text.count("\n", self._at, match.start())
            self._at = match.start()
        else:
            # One miss ends the search, else many would cost the length of the text each.
            self._text, self._at = "", 0
        return self._line


def text_of(probe: str, item: dict[str, Any], key: str) -> str | None:
    """A string of a JSON object, None where it is missing, null or empty."""
    value = item.get(key)
    if value is not None and not isinstance(value, str):
        raise ParseError(probe, 0, f"{key} is not a string")
    return value or None


def int_of(probe: str, item: dict[str, Any], key: str) -> int | None:
    """A whole number of a JSON object, None where it is missing or null."""
    value = item.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**63:
        raise ParseError(probe, 0, f"{key} is not a whole number")
    return value


def object_of(probe: str, value: Any, what: str) -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise ParseError(probe, 0, f"{what} is not an object")
    return value


def list_of(probe: str, value: Any, what: str) -> list[Any]:
    """The value, which must be a JSON list."""
    if not isinstance(value, list):
        raise ParseError(probe, 0, f"{what} is not a list")
    return value


def note(number: int, line: str) -> TextNote:
    """The line as evidence, not longer than a screen line or two."""
    return TextNote(line=number, text=line.strip()[:300])
