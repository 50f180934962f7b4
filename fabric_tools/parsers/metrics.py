"""Prometheus exposition text (dcgm-exporter, vLLM) and the reply of Prometheus' query API.

Evidence: a whole real scrape of vLLM 0.32, real excerpts of dcgm-exporter (8x H100), one with MIG
re-rendered from facts, one real API reply. prometheus_client is no dependency, hence this reader
of the format's three kinds of lines.
"""

from __future__ import annotations

import math
import re
import sys

from fabric_tools.models.cluster import Metrics, MetricSample
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_dict,
    as_list,
    as_str,
    json_start,
    load_json,
    read_lines,
)

PROBE = "metrics"

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]{0,200}"
_SAMPLE = re.compile(
    rf"({_NAME})(?:\{{(.*)\}})?[ \t]+(\S{{1,40}})(?:[ \t]+-?\d{{1,19}}(?:\.\d{{1,9}})?)?$", re.ASCII
)
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]{0,100})[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)', re.ASCII
)
_TYPE = re.compile(
    rf"# TYPE ({_NAME}) "
    r"(counter|gauge|histogram|gaugehistogram|summary|stateset|untyped|unknown|info)$"
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?", re.ASCII)
#: What histograms, summaries and counters put behind the name of their family.
_SUFFIX = re.compile(r"_(?:bucket|sum|count|total|created|info)$")
_NO_NUMBER = ("nan", "+inf", "-inf", "inf")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def _labels(text: str, number: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match[1] in labels:
            raise ParseError(PROBE, number, f"cannot read the labels {text[:80]!r}")
        value = match[2]
        if "\\" in value:
            value = re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), value)
        labels[sys.intern(match[1])] = sys.intern(value)
        at = match.end()
    return labels


def _value(text: str, number: int) -> float | None:
    if text.lower() in _NO_NUMBER:
        return None
    if not _NUMBER.fullmatch(text):
        raise ParseError(PROBE, number, f"not a number: {text!r}")
    value = float(text)
    return value if math.isfinite(value) else None


def _from_api(lines: list[str], start: int) -> Metrics:
    root = as_dict(load_json(PROBE, "\n".join(lines[start:])))
    data = as_dict(root.get("data"))
    if root.get("status") != "success" or data.get("resultType") != "vector":
        raise ParseError(PROBE, start + 1, "not a successful reply with a vector")
    finder, samples = Finder("\n".join(lines)), []
    for entry in as_list(data.get("result")):
        line = finder.key("metric")
        metric = as_dict(as_dict(entry).get("metric"))
        labels = {k: v for k, v in metric.items() if isinstance(v, str)}
        pair = as_list(as_dict(entry).get("value"))
        text = as_str(pair[1]) if len(pair) == 2 else None
        if text is None:
            raise ParseError(PROBE, line, "a result without [time, value]")
        name = labels.pop("__name__", "")
        value = _value(text, line)
        samples.append(MetricSample(line=line, name=name, labels=labels, value=value))
    return Metrics(form="prometheus-api", samples=tuple(samples), complete=True)


def _whole(types: dict[str, str], samples: list[MetricSample]) -> bool:
    """Every family has its TYPE line and a row for each GPU that has rows elsewhere."""
    gpus: dict[str, set[str]] = {}
    mig: set[str] = set()
    for sample in samples:
        found = gpus.setdefault(sample.name, set())
        if gpu := sample.labels.get("gpu"):
            found.add(gpu)
            if "GPU_I_PROFILE" in sample.labels:
                mig.add(gpu)
    every = set().union(*gpus.values())
    return all(
        (name in types or _SUFFIX.sub("", name) in types) and (not found or every - found <= mig)
        for name, found in gpus.items()
    )


def parse_metrics(text: str) -> Metrics:
    """Samples in order. What is neither comment nor sample is refused; the last may be cut."""
    lines = read_lines(PROBE, text, max_chars=16 * MIB, max_lines=60_000, max_line=8192)
    start = json_start(lines)
    if start is not None and not any(line.strip() for line in lines[:start]):
        return _from_api(lines, start)
    types: dict[str, str] = {}
    samples: list[MetricSample] = []
    ended = text.endswith("\n")
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        if line[0] == "#":
            if match := _TYPE.match(line):
                if match[1] in types:
                    raise ParseError(PROBE, number, f"TYPE of {match[1]} stands there twice")
                types[match[1]] = match[2]
            continue
        match = _SAMPLE.match(line)
        if match is None:
            if number == len(lines) and not ended and samples:
                break
            raise ParseError(PROBE, number, f"not a sample: {line[:80]!r}")
        labels = _labels(match[2], number) if match[2] else {}
        value = _value(match[3], number)
        # Not validated again: there may be tens of thousands, and each part has its type already.
        samples.append(
            MetricSample.model_construct(line=number, name=match[1], labels=labels, value=value)
        )
    if not samples:
        raise ParseError(PROBE, 0, "no sample")
    return Metrics(
        form="prometheus",
        types=types,
        samples=tuple(samples),
        complete=ended and _whole(types, samples),
    )
