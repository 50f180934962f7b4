"""Reading untrusted text within bounds: lines, JSON, and where a word of it stands.

Evidence: none, no format of a tool is read here. The bounds keep every parser below two seconds
and 200 MB for any text of 10 MB.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from fabric_tools.models.nccl import TextNote
from fabric_tools.parsers.base import ParseError, clean_lines

MIB = 1024 * 1024
#: A shell prompt, with or without a command behind it, as people paste it.
PROMPT = re.compile(r"\s*(?:\([\w.-]{1,40}\) )?(?:\[[^\]]{1,80}\][$#]|\S{0,80}[$#])(?:\s|$)")
#: What people write where they left lines out.
ELIDED = re.compile(r"\s*(?:#\s*)?[\[(<]?(?:\.{3,}|\u2026|snip\b)")


def _text(probe: str, text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        raise ParseError(probe, 0, f"longer than {max_chars} characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise ParseError(probe, line, "not text (lone surrogates)") from None
    return text.removeprefix("\ufeff")


def read_lines(
    probe: str,
    text: str,
    *,
    max_chars: int = 4 * MIB,
    max_lines: int = 50_000,
    max_line: int = 4096,
) -> list[str]:
    """Clean lines, numbering kept. What is longer than the tool ever prints is refused."""
    text = _text(probe, text, max_chars)
    if text.count("\n") >= max_lines:
        raise ParseError(probe, 0, f"more than {max_lines} lines")
    lines = clean_lines(text)
    for number, line in enumerate(lines, start=1):
        if len(line) > max_line:
            raise ParseError(probe, number, f"a line of more than {max_line} characters")
    return lines


def numbered(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def first_words(lines: list[str]) -> str:
    """The first line that says something, for the reason of a refusal."""
    return next((line.strip()[:80] for line in lines if line.strip()), "no text")


def note(number: int, line: str) -> TextNote:
    """The line as evidence, not longer than a screen line or two."""
    return TextNote(line=number, text=line.strip()[:300])


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_number(_: str) -> None:
    """NaN and Infinity are no readings."""


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word[:40]} is beyond any number")
    return value


def load_json(probe: str, text: str, *, max_chars: int = 6 * MIB, before: int = 0) -> Any:
    """The JSON value of the whole text. NaN and Infinity become None, double keys are refused.

    ``before`` counts the lines in front of the text, for the line of an error.
    """
    text = _text(probe, text, max_chars)
    if not text.strip():
        raise ParseError(probe, 0, "no text")
    try:
        value = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_no_number, parse_float=_finite
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ParseError(probe, before + error.lineno, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise ParseError(probe, 0, "nested too deeply") from None
    except ValueError as error:
        raise ParseError(probe, 0, f"not usable JSON: {str(error)[:80]}") from None
    return value


def json_start(lines: list[str]) -> int | None:
    """Index of the first line that opens a JSON object or list; banners may come before it."""
    for index, line in enumerate(lines):
        if line.lstrip()[:1] == "{" or line.strip() in ("[", "[{") or line.lstrip()[:2] == "[{":
            return index
    return None


# For values whose type tells the form, or that a tool may fill as it likes.


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


# For values whose type the tool's schema fixes: another type is an error, missing is None.


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
            # One miss ends the search, else many would cost the length of the text each.
            self._at = -1
        return self.current

    def key(self, name: str) -> int:
        """The same for a JSON string."""
        return self.line(json.dumps(name, ensure_ascii=False))
