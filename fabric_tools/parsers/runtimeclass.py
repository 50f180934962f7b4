"""`kubectl get runtimeclass`, as a table or with `-o json`.

Evidence: tables of two clusters re-rendered from facts; the JSON follows the API (format
unverified).
"""

from __future__ import annotations

from fabric_tools.models.cluster import RuntimeClasses
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    as_dict,
    as_list,
    as_str,
    json_start,
    load_json,
    numbered,
    read_lines,
)

PROBE = "runtimeclass"


def _add(found: RuntimeClasses, name: str | None, handler: str | None, line: int) -> None:
    if not name or not handler or name in found.handlers:
        raise ParseError(PROBE, line, f"no class, or one that stands there twice: {name!r:.80}")
    found.handlers[name], found.lines[name] = handler, line


def _from_json(lines: list[str], start: int) -> RuntimeClasses:
    root = as_dict(load_json(PROBE, "\n".join(lines[start:])))
    finder, found = Finder("\n".join(lines)), RuntimeClasses(handlers={}, lines={})
    items = as_list(root.get("items")) if "items" in root else [root]
    for item in items:
        entry = as_dict(item)
        name = as_str(as_dict(entry.get("metadata")).get("name"))
        _add(found, name, as_str(entry.get("handler")), finder.key(name or ""))
    return found


def parse_runtimeclass(text: str) -> RuntimeClasses:
    """Name and handler of each class."""
    lines = read_lines(PROBE, text, max_line=1024 * 1024)
    start = json_start(lines)
    if start is not None:
        return _from_json(lines, start)
    found = RuntimeClasses(handlers={}, lines={})
    heading = False
    for number, line in numbered(lines):
        words = line.split()
        if line.strip().rstrip(".") == "No resources found" and not heading:
            return found
        if words == ["NAME", "HANDLER", "AGE"] and not heading:
            heading = True
        elif heading:
            if len(words) != 3:
                raise ParseError(PROBE, number, f"not a class: {line[:80]!r}")
            _add(found, words[0], words[1], number)
        elif "kubectl" not in line:
            raise ParseError(PROBE, number, f"no heading before {line[:80]!r}")
    if not found.handlers:
        raise ParseError(PROBE, 0, "no class")
    return found
