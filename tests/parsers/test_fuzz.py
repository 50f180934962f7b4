"""Whatever the text, every parser gives a fact or a ParseError with a reason, and nothing else."""

from __future__ import annotations

import random
from functools import cache

import pytest
from corpus import SAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seeds import SEEDS, TARGETS

from fabric_tools.models.base import Fact
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kinds import parser_of

ALL = pytest.mark.parametrize("target", TARGETS)
QUICK = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
#: What no tool prints and what often breaks readers.
JUNK = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[4m", b"\x1b]0;", b"\r", b"\n", b"\t", b" ",
    b"9" * 400, b"[" * 400, b"(" * 400, b"null", b"-1", b"1e999", b"NaN", b'"\\ud800"', b"{}",
    b"|", b": ", b"...", b"\xd9\xa3", b"\xe2\x80\xa8", b"N/A", b"\\", b'"',
)  # fmt: skip
#: Words of all tools beside those of the sample: random text gets past the first line by them.
WORDS = (
    "\n", "\r\n", "\t", " ", ": ", "=", ",", "{", "}", "[", "]", '"', "N/A", "null", "...", "GPU0",
    "GPU 0: H (UUID: GPU-1)", "\x1b[4m", "\x00", "\ud800", "\u0663", "1", "-1", "1e999", "0x00",
)  # fmt: skip
HOSTILE = (
    "", "\n", "\ud800", '{"a": "\\ud800"}', "[" * 100_000, '{"a":' * 50_000, "1" * 5000, "\x00",
    '{"a": 1e999}', "[NaN]", "- " * 50_000, "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    "a: &x [*x, *x]\n", "!!python/object:os.system 1\n",
)  # fmt: skip


def check(target: str, text: str) -> None:
    """The whole contract."""
    try:
        fact = parser_of(TARGETS[target][0])(text)
    except ParseError as caught:
        error = caught
    else:
        assert isinstance(fact, Fact)
        fact.model_dump_json()
        return
    assert error.why
    assert 0 <= error.line <= text.count("\n") + 1


@cache
def _words(target: str) -> tuple[str, ...]:
    """Lines and pieces of the samples of that parser."""
    lines = [line + "\n" for text in SEEDS[target] for line in text.split("\n")[:200]]
    picked = random.Random(1).sample(lines, min(len(lines), 60))
    pieces = [word for line in picked[:20] for word in line.split()]
    return (*picked, *pieces[:60], *WORDS)


@ALL
@QUICK
@given(data=st.data())
def test_random_text(target: str, data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(_words(target)), max_size=12).map("".join)
    check(target, data.draw(words | st.text(st.characters(), max_size=200)))


def _lines(raw: bytes, how: str, at: int, junk: bytes) -> bytes:
    lines = raw.split(b"\n")
    line = at % len(lines)
    if how == "value":
        head, colon, _ = lines[line].partition(b":")
        lines[line] = head + colon + junk
    elif how == "swap":
        lines[line], lines[-1 - line] = lines[-1 - line], lines[line]
    elif how == "last":
        lines.append(lines.pop(line))
    elif how == "ansi":
        lines[line] = b"\x1b[1;31m" + lines[line] + b"\x1b[0m\x1b[K"
    else:
        lines[line : line + 1] = [] if how == "drop" else [lines[line]] * 2
    return b"\n".join(lines)


def _mutate(raw: bytes, how: str, at: int, junk: bytes) -> bytes:
    if how == "cut":
        return raw[:at]
    if how == "head":
        return raw[at:]
    if how == "crlf":
        return raw.replace(b"\n", b"\r\n")
    if how == "byte":
        return raw[:at] + junk + raw[at + 1 :]
    if how == "noise":
        return raw[:at] + junk * 20 + raw[at:]
    return _lines(raw, how, at, junk)


HOW = (
    "cut", "head", "byte", "noise", "crlf", "value", "swap", "last", "ansi", "drop", "double",
)  # fmt: skip


@ALL
@QUICK
@given(data=st.data())
def test_spoiled_samples(target: str, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(SEEDS[target])).encode()[:20_000]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        junk = data.draw(st.sampled_from(JUNK) | st.binary(max_size=3))
        raw = _mutate(raw, data.draw(st.sampled_from(HOW)), at, junk)
    check(target, raw.decode(errors="replace"))


@ALL
def test_outputs_of_other_tools(target: str) -> None:
    """A file saved under the wrong name."""
    for sample in SAMPLES:
        if sample.kind not in TARGETS[target]:
            check(target, sample.text)


@ALL
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(target: str, text: str) -> None:
    check(target, text)


#: Told apart by a pattern over the text as it came, before it is cleaned.
_UNCLEANED = ("dispatch.parse_nvlink",)


@pytest.mark.parametrize("target", [name for name in TARGETS if name not in _UNCLEANED])
def test_line_endings_and_colours_change_nothing(target: str) -> None:
    parse = parser_of(TARGETS[target][0])
    for text in SEEDS[target]:
        if text.lstrip()[:1] in ("[", "{", "<") or not text.endswith("\n"):
            continue
        try:
            plain = parse(text)
        except ParseError:
            continue
        assert parse(text.replace("\n", "\r\n")) == plain
        coloured = "".join(f"\x1b[0m{line}\x1b[K\n" for line in text.split("\n")[:-1])
        assert parse(coloured) == plain
