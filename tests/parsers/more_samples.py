"""The corpus with the samples whose manifest lines have not been joined to the manifest yet."""

from __future__ import annotations

import json

from corpus import ROOT, SAMPLES, Sample


def _added() -> list[Sample]:
    known = {sample.file for sample in SAMPLES}
    found: list[Sample] = []
    for path in sorted(ROOT.glob("manifest.add.*.jsonl")):
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found += [Sample(e["file"], e["kind"], e["label"]) for e in entries]
    return [sample for sample in found if sample.file not in known]


ALL = (*SAMPLES, *_added())


def of_kind(*kinds: str) -> list[Sample]:
    """All samples of these kinds."""
    return [sample for sample in ALL if sample.kind in kinds]


def text_of(name: str) -> str:
    """The text of the sample whose file name starts so."""
    found = [sample for sample in ALL if sample.name.startswith(name)]
    assert found, name
    return found[0].text
