"""`kubectl get runtimeclass`, as a table or with `-o json|yaml`.

Evidence: tables of two clusters re-rendered from facts; JSON and YAML follow the API (format
unverified).
"""

from __future__ import annotations

from fabric_tools.models.cluster import RuntimeClasses
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    json_start,
    list_of,
    load_json,
    numbered,
    object_of,
    read_lines,
    text_of,
)
from fabric_tools.parsers.k8s_yaml import Block, load_yaml

PROBE = "runtimeclass"


def _add(found: RuntimeClasses, name: str | None, handler: str | None, line: int) -> None:
    if not name or not handler or name in found.handlers:
        raise ParseError(PROBE, line, f"no class, or one that stands there twice: {name!r:.80}")
    found.handlers[name], found.lines[name] = handler, line


def _from_object(value: object, text: str) -> RuntimeClasses:
    root = object_of(PROBE, value, "the text")
    finder, found = Finder(text), RuntimeClasses(handlers={}, lines={})
    items = list_of(PROBE, root["items"] or [], "items") if "items" in root else [root]
    for item in items:
        entry = object_of(PROBE, item, "a class")
        metadata = object_of(PROBE, entry.get("metadata"), "metadata")
        name, handler = text_of(PROBE, metadata, "name"), text_of(PROBE, entry, "handler")
        in_yaml = metadata.lines.get("name", 0) if isinstance(metadata, Block) else None
        _add(found, name, handler, finder.key(name or "") if in_yaml is None else in_yaml)
    return found


def parse_runtimeclass(text: str) -> RuntimeClasses:
    """Name and handler of each class."""
    lines = read_lines(PROBE, text, max_line=1024 * 1024)
    start = json_start(lines)
    text = "\n".join(lines)
    if start is not None:
        return _from_object(load_json(PROBE, "\n".join(lines[start:]), before=start), text)
    if any(line.startswith("apiVersion: ") for line in lines):
        return _from_object(load_yaml(PROBE, text), text)
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
