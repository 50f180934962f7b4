"""`vllm bench serve` (and its forks): the printed result or the JSON of `--save-result`.

Evidence: three real texts of old and new vLLM, one cut; the JSON follows the tool's source (format
unverified). SGLang's template with dots for numbers is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from fabric_tools.models.cluster import Latency, ServingBenchmark
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_dict,
    as_float,
    as_int,
    json_start,
    load_json,
    numbered,
    read_lines,
)

PROBE = "vllm_bench"

_HEAD = re.compile(r"=+ (?:\w+ ){0,2}Serving Benchmark Result =+$")
_END = re.compile(r"={20,}$")
_ROW = re.compile(r"([A-Z][^:]{1,60}?(?: \([^)]{1,30}\))?):\s+(\S.{0,60})$")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
#: A mean over nothing: no reading, as NaN in the JSON.
_NO_NUMBER = ("nan", "inf", "-inf")
_LATENCY = re.compile(
    r"(?:(Mean|Median|Std|P(\d{1,2}(?:\.\d{1,3})?)) )(TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)$",
    re.ASCII,
)
_KEY = re.compile(r"(mean|median|std|p(\d{1,2}(?:\.\d{1,3})?))_(ttft|tpot|itl|e2el)_ms$", re.ASCII)
# printed label -> (field, JSON key)
_FIELDS = {
    "successful requests": ("successful", "completed"),
    "failed requests": ("failed", "failed"),
    "benchmark duration (s)": ("duration_s", "duration"),
    "total input tokens": ("input_tokens", "total_input_tokens"),
    "total generated tokens": ("output_tokens", "total_output_tokens"),
    "request throughput (req/s)": ("requests_per_s", "request_throughput"),
    "request goodput (req/s)": ("goodput_requests_per_s", "request_goodput"),
    "output token throughput (tok/s)": ("output_tokens_per_s", "output_throughput"),
    "peak output token throughput (tok/s)": (
        "peak_output_tokens_per_s",
        "max_output_tokens_per_s",
    ),
    "total token throughput (tok/s)": ("total_tokens_per_s", "total_token_throughput"),
    "maximum request concurrency": ("max_concurrency", "max_concurrency"),
}  # fmt: skip
_COUNTS = ("successful", "failed", "input_tokens", "output_tokens", "max_concurrency")
_NEEDED = ("successful", "duration_s", "requests_per_s")


class _Result:
    """Fields while they are read."""

    def __init__(self) -> None:
        self.fields: dict[str, float] = {}
        self.latencies: dict[str, dict[str, float]] = {}
        self.lines: dict[str, int] = {}

    def put(self, field: str, value: float, number: int) -> None:
        if field in self.fields:
            raise ParseError(PROBE, number, f"{field} stands there twice (two results?)")
        if field in _COUNTS and value != int(value):
            raise ParseError(PROBE, number, f"{field} is no whole number: {value}")
        self.fields[field] = value

    def latency(self, kind: str, stat: str, value: float, number: int) -> None:
        kind = "e2el" if kind.lower().startswith("e2e") else kind.lower()
        self.lines.setdefault(kind, number)
        found = self.latencies.setdefault(kind, {})
        if stat.lower() in found:
            raise ParseError(PROBE, number, f"{stat} {kind} stands there twice")
        found[stat.lower()] = value

    def closed(self, form: str, line: int, complete: bool) -> ServingBenchmark:
        missing = [field for field in _NEEDED if field not in self.fields]
        if missing:
            raise ParseError(PROBE, line, f"without {', '.join(missing)} (cut?)")
        latencies = {
            kind: Latency(
                line=self.lines[kind],
                mean_ms=found.get("mean"),
                median_ms=found.get("median"),
                std_ms=found.get("std"),
                percentiles={k[1:]: v for k, v in found.items() if k[1:2].isdigit()},
            )
            for kind, found in self.latencies.items()
        }
        whole = {k: int(v) if k in _COUNTS else v for k, v in self.fields.items()}
        return ServingBenchmark.model_validate(
            {"form": form, "line": line, "complete": complete, "latencies": latencies, **whole}
        )


def _from_json(lines: list[str], start: int) -> ServingBenchmark:
    root = as_dict(load_json(PROBE, "\n".join(lines[start:])))
    result, finder = _Result(), Finder("\n".join(lines))
    wanted: dict[str, str] = {key: field for field, key in _FIELDS.values()}
    for key, value in root.items():
        field, latency = wanted.get(key.rstrip(":")), _KEY.match(key)
        if (field is None and latency is None) or value is None:
            continue
        read: Callable[[object], float | None] = as_int if field in _COUNTS else as_float
        number, line = read(value), finder.key(key)
        if number is None or isinstance(value, str):
            raise ParseError(PROBE, line, f"{key} is no number: {value!r:.40}")
        if field is not None:
            result.put(field, number, line)
        elif latency is not None:
            result.latency(latency[3], latency[1], number, line)
    return result.closed("json", start + 1, complete=True)


def _row(result: _Result, label: str, text: str, number: int) -> None:
    name = " ".join(label.lower().split())
    latency = _LATENCY.match(label)
    if (name not in _FIELDS and latency is None) or text.lower() in _NO_NUMBER:
        return
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ParseError(PROBE, number, f"{label} is no number: {text[:30]!r}")
    if latency is not None:
        result.latency(latency[3], latency[1], float(text), number)
    else:
        result.put(_FIELDS[name][0], float(text), number)


def parse_vllm_bench(text: str) -> ServingBenchmark:
    """The one result. A row that should be a number and is none is refused."""
    lines = read_lines(PROBE, text, max_chars=6 * MIB, max_lines=300_000, max_line=6 * MIB)
    start = json_start(lines)
    heads = [number for number, line in numbered(lines) if _HEAD.match(line.strip()[:200])]
    if start is not None and not heads:
        return _from_json(lines, start)
    if len(heads) != 1:
        raise ParseError(PROBE, heads[1] if heads else 0, f"{len(heads)} results, not one")
    result, ended = _Result(), False
    for number, line in enumerate(lines[heads[0] :], start=heads[0] + 1):
        said = line.strip()[:300]
        if _END.match(said):
            ended = True
            break
        if match := _ROW.match(said):
            _row(result, match[1], match[2].strip(), number)
    return result.closed("text", heads[0], complete=ended)
