"""Every kind has its parser, and every recorded sample is read or refused as the table says."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import fabric_tools.parsers
from fabric_tools.models.base import Fact
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kinds import KINDS, parser_of
from fabric_tools.probes import PROBES

CORPUS = Path(__file__).resolve().parent.parent / "fixtures" / "corpus"
SAMPLES = [json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text().splitlines()]

#: Samples that no parser may read: errors, excerpts, another tool's text. By the label, or because
#: an excerpt of a whole output must not pass for the output.
REFUSED = {
    "nodes/n05_a100_driver_rejects_gpu/nvidia_smi.txt",
    "other/proc_nvidia_version/pv04_missing.txt",
    "other/vllm_bench/vb05_sglang_dots.txt",
    "topo/t04_err_option_missing_value.txt",
    "topo/t52_err_nvml_mismatch_libver.txt",
    "topo/t54_err_nvml_unknown.txt",
    "topo/t55_err_no_devices.txt",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loads(kind: str) -> None:
    assert callable(parser_of(kind))


def test_every_probe_is_a_kind() -> None:
    assert {probe.id for probe in PROBES} <= set(KINDS)


def test_no_parser_is_left_out() -> None:
    """A module that parses is reached by a kind, itself or through one that is."""
    named = {target.partition(".")[0] for target in KINDS.values()}
    for module in pkgutil.iter_modules(fabric_tools.parsers.__path__):
        loaded = importlib.import_module(f"fabric_tools.parsers.{module.name}")
        own = [
            name for name, item in vars(loaded).items()
            if name.startswith("parse_") and getattr(item, "__module__", "") == loaded.__name__
        ]  # fmt: skip
        users = {
            name for name in named
            for item in vars(importlib.import_module(f"fabric_tools.parsers.{name}")).values()
            if getattr(item, "__module__", "") == loaded.__name__
        }  # fmt: skip
        assert not own or module.name in named or users, module.name


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["file"])
def test_every_sample_is_read_or_refused_as_listed(sample: dict[str, str]) -> None:
    parse = parser_of(sample["kind"])
    text = (CORPUS / sample["file"]).read_bytes().decode("utf-8", "replace")
    if sample["file"] in REFUSED:
        with pytest.raises(ParseError):
            parse(text)
    else:
        assert isinstance(parse(text), Fact)
