"""A Kubernetes node: `kubectl get node NAME -o json|yaml`, `kubectl describe node`, or label lines.

Evidence: labels and one author's condensed lines re-rendered from facts; the JSON is
schema-derived, YAML is the same object; `describe` follows the documentation (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.cluster import K8sNode
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_dict,
    as_int,
    as_list,
    as_str,
    json_start,
    list_of,
    load_json,
    numbered,
    object_of,
    read_lines,
    text_of,
)
from fabric_tools.parsers.k8s_yaml import load_yaml

PROBE = "k8s_node"

_GPU = "nvidia.com/gpu"
_LABEL = re.compile(
    r"(?:Labels:\s+)?((?:[a-z0-9.-]{1,250}/)?[\w.-]{1,63})=([\w.-]{0,63})$", re.ASCII
)
_NOTE = re.compile(
    r"(?:Annotations:\s+)?((?:[a-z0-9.-]{1,250}/)[\w.-]{1,63}): (\S.{0,2000})$", re.ASCII
)
_SECTION = re.compile(
    r"(Capacity|Allocatable|capacity|allocatable|Conditions|NPD|[A-Z][\w ]{1,30}):"
)
_QUANTITY = re.compile(r"\s*nvidia\.com/gpu:\s+(\d{1,5})$", re.ASCII)
_FLAG = re.compile(r"\b([A-Z]\w{2,60})=(True|False|Unknown)\b", re.ASCII)
_CONDITION = re.compile(r"\s+([A-Z]\w{2,60})\s+(True|False|Unknown)\s", re.ASCII)
_STATES: dict[str, bool | None] = {"True": True, "False": False, "Unknown": None}


def _words(value: object) -> dict[str, str]:
    return {k: v for k, v in as_dict(value).items() if isinstance(v, str)}


def _quantity(resources: object, what: str) -> int | None:
    values = as_dict(resources)
    if _GPU not in values:
        return None
    number = as_int(values[_GPU])
    if number is None:
        raise ParseError(PROBE, 0, f"{what}: {_GPU} is no count")
    return number


def _from_object(value: object, conditions_line: int, first: int) -> K8sNode:
    root = as_dict(value)
    if as_str(root.get("kind")) == "List" and len(as_list(root.get("items"))) == 1:
        root = as_dict(as_list(root["items"])[0])
    if as_str(root.get("kind")) != "Node":
        raise ParseError(PROBE, first, "not one object of kind Node")
    metadata = object_of(PROBE, root.get("metadata"), "metadata")
    status = object_of(PROBE, root.get("status"), "status")
    conditions: dict[str, bool | None] = {}
    for entry in list_of(PROBE, status.get("conditions"), "conditions"):
        kind, state = as_str(as_dict(entry).get("type")), as_str(as_dict(entry).get("status"))
        if kind is None or state not in _STATES or kind in conditions:
            raise ParseError(
                PROBE, conditions_line, f"a condition without type or status: {kind!r:.80}"
            )
        conditions[kind] = _STATES[state]
    return K8sNode(
        name=text_of(PROBE, metadata, "name"),
        labels=_words(metadata.get("labels")),
        annotations=_words(metadata.get("annotations")),
        gpu_capacity=_quantity(status.get("capacity"), "capacity"),
        gpu_allocatable=_quantity(status.get("allocatable"), "allocatable"),
        conditions=conditions,
        lines={"conditions": conditions_line},
    )


class _Text:
    def __init__(self) -> None:
        self.section = ""
        self.labels: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.conditions: dict[str, bool | None] = {}
        self.lines: dict[str, int] = {}
        self.name: str | None = None

    def line(self, line: str, number: int) -> None:
        section = _SECTION.match(line)
        if section is not None:
            self.section = section[1].lower()
            if self.section == "name":
                self.name = line.partition(":")[2].strip() or None
        rest = line[section.end() :] if section and self.section in _COUNTED else line
        if self.section in _COUNTED and (match := _QUANTITY.match(rest)):
            self._once(self.section, number)
            self.counts[self.section] = int(match[1])
        elif self.section == "conditions" and (match := _CONDITION.match(line)):
            self._once(match[1], number)
            self.conditions[match[1]] = _STATES[match[2]]
        elif flags := _FLAG.findall(line):
            for name, state in flags:
                self._once(name, number)
                self.conditions[name] = _STATES[state]
        elif match := _LABEL.match(line.strip()):
            self._once(match[1], number)
            self.labels[match[1]] = match[2]
        elif match := _NOTE.match(line.strip()):
            self.notes[match[1]] = match[2]

    def _once(self, name: str, number: int) -> None:
        if name in self.lines:
            raise ParseError(PROBE, number, f"{name} stands there twice")
        self.lines[name] = number


_COUNTED = ("capacity", "allocatable")


def parse_k8s_node(text: str) -> K8sNode:
    """Labels, GPU counts and conditions."""
    lines = read_lines(PROBE, text, max_line=MIB)
    start = json_start(lines)
    text = "\n".join(lines)
    if start is not None:
        tree = load_json(PROBE, "\n".join(lines[start:]), before=start)
        return _from_object(tree, Finder(text).key("conditions"), start + 1)
    if any(line.startswith("apiVersion: ") for line in lines):
        return _from_object(load_yaml(PROBE, text), Finder(text).line("\n  conditions:"), 1)
    found = _Text()
    for number, line in numbered(lines):
        found.line(line[:4000], number)
    if not found.labels and not found.counts and not found.conditions:
        raise ParseError(PROBE, 0, "neither labels nor resources nor conditions of a node")
    return K8sNode(
        name=found.name,
        labels=found.labels,
        annotations=found.notes,
        gpu_capacity=found.counts.get("capacity"),
        gpu_allocatable=found.counts.get("allocatable"),
        conditions=found.conditions,
        lines=found.lines,
    )
