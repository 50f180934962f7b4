"""Every value of a label is what the parser reads; a label key that nobody reads is an error."""

from __future__ import annotations

import label_table as table
import pytest
from corpus import SAMPLES, Sample

COVERED = table.covered()


@pytest.mark.parametrize("sample", COVERED, ids=lambda sample: sample.file)
def test_a_label_is_what_is_read(sample: Sample) -> None:
    result = table.outcome(sample)
    if result.unusable:
        assert result.refused, "read, although its label says that it is of no use"
        return
    assert not result.refused
    assert not result.unknown, "keys that no reader gives and that are not listed as prose"
    assert not result.wrong


def test_the_lists_name_real_samples_and_keys() -> None:
    files = {sample.file: sample for sample in SAMPLES}
    assert set(table.UNUSABLE) <= set(files)
    for file, key in table.WRONG_LABELS:
        assert key in table.outcome(files[file]).excused, f"{file}: {key} is not wrong (any more)"


def test_no_key_is_both_prose_and_a_fact_of_its_kind() -> None:
    for kind, keys in table.PROSE.items():
        told = {
            key for sample in COVERED if sample.kind == kind and not table.outcome(sample).refused
            for key in table.READERS[kind](table.parser_of(kind)(sample.text))
        }  # fmt: skip
        assert not told & set(keys), kind
