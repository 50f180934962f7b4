"""YAML as ``kubectl get -o yaml`` writes it: blocks of mappings, lists and words, no aliases.

Evidence: one real list of ResourceSlices. Scalars stay words (``"8"``, ``true``), null is None.
"""

from __future__ import annotations

from typing import Any

import yaml

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import read_lines

#: The reader of libyaml takes half a second for this, the one in Python six.
_MAX_CHARS = 1024 * 1024 if yaml.__with_libyaml__ else 64 * 1024
_MAX_DEPTH = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = ("", "~", "null")


class Block(dict[str, Any]):
    """A mapping that knows the line of each of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


Tree = dict[str, Any] | list[Any] | str | None


class _Reader:
    def __init__(self, probe: str, lines: list[str]) -> None:
        self.probe, self.last = probe, len(lines)
        self.events = yaml.parse("\n".join(lines), Loader=_LOADER)

    def at(self, mark: Any) -> int:
        """The line of a mark. YAML also knows other line breaks, hence the bound."""
        return min(mark.line + 1, self.last) if mark else 0

    def fail(self, event: Any, why: str) -> ParseError:
        return ParseError(self.probe, self.at(event.start_mark), why)

    def value(self, event: Any, depth: int = 0) -> Tree:
        if depth > _MAX_DEPTH:
            raise self.fail(event, "nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0]
            return None if plain and event.value in _NULL else str(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                items.append(self.value(event, depth + 1))
            return items
        if not isinstance(event, yaml.MappingStartEvent):
            raise self.fail(event, "an alias or an end where a value is expected")
        found = Block()
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.value(event, depth + 1)
            if not isinstance(key, str) or key in found:
                raise self.fail(event, f"a key that is no word or stands there twice: {key!r:.60}")
            found.lines[key] = self.at(event.start_mark)
            found[key] = self.value(next(self.events), depth + 1)
        return found

    def document(self) -> Tree:
        for event in self.events:
            if isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
                continue
            if isinstance(event, yaml.StreamEndEvent):
                raise self.fail(event, "no text")
            tree = self.value(event)
            next(self.events)
            if not isinstance(event := next(self.events), yaml.StreamEndEvent):
                raise self.fail(event, "more than one document")
            return tree
        raise ParseError(self.probe, 0, "no text")


def load_yaml(probe: str, text: str) -> Tree:
    """The one document of the text."""
    lines = read_lines(probe, text, max_chars=_MAX_CHARS, max_line=20_000)
    reader = _Reader(probe, lines)
    try:
        return reader.document()
    except yaml.MarkedYAMLError as error:
        at = reader.at(error.problem_mark)
        raise ParseError(probe, at, f"not YAML: {error.problem}") from None
    except (yaml.YAMLError, StopIteration, ValueError) as error:
        raise ParseError(probe, 0, f"not YAML: {str(error)[:80]}") from None
