"""The samples of network and NCCL kinds: the manifest's and those waiting to be merged into it."""

from __future__ import annotations

import json

from corpus import ROOT, SAMPLES, Sample


def _load() -> tuple[Sample, ...]:
    waiting = ROOT / "manifest.add.network.jsonl"
    lines = waiting.read_text(encoding="utf-8").splitlines() if waiting.exists() else []
    entries = [json.loads(line) for line in lines]
    known = {sample.file for sample in SAMPLES}
    more = [Sample(e["file"], e["kind"], e["label"]) for e in entries if e["file"] not in known]
    return (*SAMPLES, *more)


ALL_SAMPLES = _load()


def of_kind(*kinds: str) -> list[Sample]:
    """All samples of these kinds."""
    return [sample for sample in ALL_SAMPLES if sample.kind in kinds]


def text_of(name: str) -> str:
    """The text of the sample whose file name starts so."""
    found = [sample for sample in ALL_SAMPLES if sample.name.startswith(name)]
    assert found, name
    return found[0].text
