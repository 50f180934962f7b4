"""Compares every label of the corpus with what the parser reads (for the test and the table)."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from corpus import SAMPLES, Sample

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kinds import parser_of

#: Samples that no parser may read, and why. The label itself says that the text is of no use.
UNUSABLE: dict[str, str] = {
    "nodes/n05_a100_driver_rejects_gpu/nvidia_smi.txt": "nvidia-smi could not talk to the driver",
    "other/proc_nvidia_version/pv04_missing.txt": "the file does not exist: no module is loaded",
    "other/vllm_bench/vb05_sglang_dots.txt": "dots and x in the place of numbers",
    "topo/t04_err_option_missing_value.txt": "an error about the command line",
    "topo/t52_err_nvml_mismatch_libver.txt": "the error of a driver/library mismatch",
    "topo/t54_err_nvml_unknown.txt": "the error of a container that lost its devices",
    "topo/t55_err_no_devices.txt": "no device was found",
}

#: Labels that the text itself contradicts: (file, key) -> why.
WRONG_LABELS: dict[tuple[str, str], str] = {
    ("other/nccl_debug/ndbg02_single_node_socket_nvls.txt", "nodes"): (
        "no line prints nNodes; that all lines are of one host may be one node's log of many"
    ),
}


def _modules() -> list[ModuleType]:
    found = [importlib.import_module("labels_gpu")]
    if (Path(__file__).parent / "labels_rest.py").exists():
        found.append(importlib.import_module("labels_rest"))
    return found


def _join(name: str) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for module in _modules():
        joined |= getattr(module, name, {})
    return joined


READERS, PROSE = _join("READERS"), _join("PROSE")
NOT_READ, TIDY = _join("NOT_READ"), _join("TIDY")
UNUSABLE |= _join("UNUSABLE")
WRONG_LABELS |= {
    (file, key): why for file, keys in _join("WRONG_LABELS").items() for key, why in keys.items()
}


def plain(value: Any) -> Any:
    """``N/A`` is None, an empty cell; an object that holds nothing says nothing."""
    if isinstance(value, dict):
        inner = {str(key): plain(item) for key, item in value.items()}
        return type(value)(
            (key, item) for key, item in inner.items() if item or not isinstance(item, dict)
        )
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if value == "N/A" else value


def same(label: Any, read: Any) -> bool:
    """Whether they say the same; one value of a label may stand for every GPU's."""
    if isinstance(read, list) and not isinstance(label, list):
        return all(same(label, item) for item in read) if read else label is None
    if isinstance(label, dict) and isinstance(read, dict):
        # A subclass of dict stands for a mapping of which a label names only some keys.
        named = label.keys() == read.keys() if type(read) is dict else label.keys() <= read.keys()
        return named and all(same(label[key], read[key]) for key in label)
    if isinstance(label, list) and isinstance(read, list):
        return len(label) == len(read) and all(map(same, label, read))
    if isinstance(label, bool) or isinstance(read, bool):
        return label is read
    if isinstance(label, int | float) and isinstance(read, int | float):
        return math.isclose(label, read, rel_tol=1e-6, abs_tol=1e-4)
    return bool(label == read)


@dataclass
class Outcome:
    """One sample. ``wrong``: keys whose value differs, with both values."""

    sample: Sample
    refused: str = ""
    wrong: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)

    @property
    def unusable(self) -> bool:
        return self.sample.file in UNUSABLE

    @property
    def right(self) -> bool:
        if self.refused or self.unusable:
            return bool(self.refused) and self.unusable
        return not self.wrong and not self.unknown


def outcome(sample: Sample) -> Outcome:
    """Parses one sample and compares each key of its label."""
    result = Outcome(sample)
    try:
        fact = parser_of(sample.kind)(sample.text)
    except ParseError as error:
        result.refused = str(error)
        return result
    tidy = TIDY.get(sample.kind)
    label = tidy(sample.label) if tidy else sample.label
    read = READERS[sample.kind](fact)
    silent = set(PROSE.get(sample.kind, ())) | set(NOT_READ.get(sample.kind, ()))
    for key, value in label.items():
        if key in read:
            if same(plain(value), plain(read[key])):
                continue
            if (sample.file, key) in WRONG_LABELS:
                result.excused.append(key)
            else:
                result.wrong[key] = (value, read[key])
        elif key not in silent:
            result.unknown.append(key)
    return result


def covered() -> list[Sample]:
    """The samples whose kind has a reader."""
    return [sample for sample in SAMPLES if sample.kind in READERS]
