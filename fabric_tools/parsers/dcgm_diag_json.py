"""`dcgmi diag -r N -j`, of DCGM 2/3 ("DCGM GPU Diagnostic") and 4 ("DCGM Diagnostic").

Evidence: real captures of 3.1 and 4.2.3 (one re-rendered), fixtures of the older form and of the
refusal of an unsupported GPU.
"""

from __future__ import annotations

import json

from fabric_tools.models.dcgm import DcgmDiag, DcgmResult, DcgmStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_dict,
    as_int,
    as_list,
    as_str,
    json_start,
    load_json,
    read_lines,
)
from fabric_tools.parsers.dcgm_diag_text import STATUSES
from fabric_tools.parsers.saved import bare

PROBE = "dcgmi_diag"

_HEADS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")


def _status(value: object, finder: Finder, test: str) -> DcgmStatus:
    word = as_str(value)
    status = STATUSES.get(word.strip().lower()) if word else None
    if status is None:
        raise ParseError(PROBE, finder.current, f"{test[:60]}: no known status ({word!r:.40})")
    return status


def _gpu_ids(result: dict[str, object], line: int) -> tuple[int, ...] | None:
    if as_str(result.get("entity_group")) == "GPU":
        one = as_int(result.get("entity_id"))
        return None if one is None else (one,)
    for key in ("gpu_ids", "gpu_id"):
        value = result.get(key)
        if isinstance(value, str):
            found = [as_int(part) for part in value.split(",")]
            numbers = tuple(number for number in found if number is not None)
            if not numbers or len(numbers) != len(found):
                raise ParseError(PROBE, line, f"not a list of GPUs: {value[:60]!r}")
            return numbers
        if (number := as_int(value)) is not None:
            return (number,)
    return None


def _messages(result: dict[str, object]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    texts: list[str] = []
    ids: list[int] = []
    for key in ("warnings", "info"):
        value = result.get(key)
        for entry in value if isinstance(value, list) else [value]:
            text = as_str(entry) or as_str(as_dict(entry).get("warning"))
            if text:
                texts.append(text[:1000])
            if (number := as_int(as_dict(entry).get("error_id"))) is not None:
                ids.append(number)
    return tuple(texts[:200]), tuple(ids[:200])


def _test(test: dict[str, object], category: str, finder: Finder) -> list[DcgmResult]:
    name = as_str(test.get("name"))
    if name is None:
        raise ParseError(PROBE, finder.current, f"a test without a name under {category[:40]!r}")
    line = finder.key(name)
    results: list[DcgmResult] = []
    summary = as_dict(test.get("test_summary"))
    for entry in as_list(test.get("results")):
        if entry is None:
            continue
        result = as_dict(entry)
        texts, ids = _messages(result)
        results.append(
            DcgmResult(
                line=line, category=category, test=name, gpus=_gpu_ids(result, line),
                messages=texts,
                status=_status(result.get("status", result.get("result")), finder, name),
                error_ids=ids,
            )
        )  # fmt: skip
    if summary:
        status = _status(summary.get("status"), finder, name)
        if all(result.status != status for result in results):
            texts, ids = _messages(summary)
            results.append(
                DcgmResult(
                    line=line, category=category, test=name, status=status, messages=texts,
                    error_ids=ids,
                )
            )  # fmt: skip
    if not results:
        raise ParseError(PROBE, line, f"{name[:60]}: a test without a result")
    return results


def _decode(body: str, before: int) -> object:
    """The first JSON value of the text; what follows it must not be more JSON."""
    try:
        _, end = json.JSONDecoder().raw_decode(body.lstrip())
    except (ValueError, RecursionError):
        end = len(body)
    else:
        end += len(body) - len(body.lstrip())
        if "{" in body[end:]:
            raise ParseError(PROBE, before + 1, "two JSON texts")
    return load_json(PROBE, body[:end])


def parse_dcgm_diag_json(text: str) -> DcgmDiag:
    """Results in order. Lines before the JSON (a banner, an error) are kept as the error."""
    lines = read_lines(PROBE, bare(text), max_lines=200_000, max_line=4 * MIB)
    start = json_start(lines)
    if start is None:
        raise ParseError(PROBE, 0, "no JSON")
    said = [line.strip() for line in lines[:start] if line.strip().startswith("Error:")]
    body = "\n".join(lines[start:])
    root = as_dict(_decode(body, start))
    head = next((name for name in _HEADS if isinstance(root.get(name), dict)), None)
    if head is None:
        raise ParseError(PROBE, start + 1, "neither 'DCGM Diagnostic' nor 'DCGM GPU Diagnostic'")
    diag, metadata = as_dict(root[head]), as_dict(root.get("metadata"))
    finder = Finder("\n".join(lines))
    finder.key(head)
    results: list[DcgmResult] = []
    for entry in as_list(diag.get("test_categories")):
        category = as_dict(entry)
        name = as_str(category.get("category")) or ""
        for test in as_list(category.get("tests")):
            if test is not None:
                results.extend(_test(as_dict(test), name, finder))
    runtime = as_str(diag.get("runtime_error")) or as_str(root.get("runtime_error"))
    driver = metadata.get("Driver Version Detected", diag.get("Driver Version Detected"))
    ids = metadata.get("GPU Device IDs", diag.get("GPU Device IDs"))
    return DcgmDiag(
        form="json",
        dcgm_version=as_str(metadata.get("version", diag.get("version"))),
        driver_version=as_str(driver),
        gpu_device_ids=tuple(word for word in map(as_str, as_list(ids)) if word),
        results=tuple(results),
        error=runtime or (said[0].removeprefix("Error:").strip()[:400] if said else None),
        complete=True,
    )
