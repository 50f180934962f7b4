"""Recorded tool output with its correct reading, as the parser tests use it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent / "fixtures" / "corpus"


@dataclass(frozen=True)
class Sample:
    """One line of the manifest and the bytes it speaks of."""

    file: str
    kind: str
    label: dict[str, Any]

    @property
    def name(self) -> str:
        return Path(self.file).name

    @property
    def text(self) -> str:
        return (ROOT / self.file).read_bytes().decode()


def _load() -> tuple[Sample, ...]:
    lines = (ROOT / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return tuple(Sample(e["file"], e["kind"], e["label"]) for e in entries)


SAMPLES = _load()


def of_kind(*kinds: str) -> list[Sample]:
    """All samples of these kinds."""
    return [sample for sample in SAMPLES if sample.kind in kinds]


def text_of(name: str) -> str:
    """The text of the sample whose file name starts so."""
    found = [sample for sample in SAMPLES if sample.name.startswith(name)]
    assert found, name
    return found[0].text
