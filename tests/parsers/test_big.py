"""Texts of ten megabytes: every parser ends within two seconds and 200 MB, in its own process."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from seeds import SEEDS, TARGETS

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kinds import parser_of

TEN_MB = 10 * 1000 * 1000
#: Below the limit above which most parsers refuse at once.
FOUR_MB = 3_900_000
SECONDS = 2.0
#: Of junk first a sixteenth: where even growth with the cube of its length would leave the whole
#: within the time, no more is read. Then a quarter: where growth as it was seen between the two,
#: and half as much again, would. All of it would take three times as long.
SIXTEENTH_S = SECONDS / 16**3
MARGIN = 1.5
MEGABYTES = 200
UNITS = (
    " ", "\t", "a", "[", "1", ": ", "\n", "(", "{", '"', "0 ", "GPU0 ", "<gpu>", "|", "-", "=",
    ",", ".", "/", "a.", "a: ", "a=1 ", "1 a\n", "a: 1\n", "- a\n", '{"a":', "[{},", '["a",',
    "\x1b[", "\x1b]", "a|b|c\n", "\\", "'", "<", "&", "#", "a:1:1 [0] NCCL INFO ", "...\n", "\r",
)  # fmt: skip

#: Lines of which each is an event that is kept.
EVENTS = {
    "kernel_log.parse_kernel_log": (
        "[ 12.5] NVRM: Xid (PCI:0000:c1:00): 79, pid=12, GPU has fallen off the bus.\n",
        "[ 12.5] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress\n",
        "[ 12.5] NVRM: API mismatch: the client has the version 1\n",
    ),
}


def _fill(unit: str, size: int) -> str:
    return unit * (size // len(unit))


def _seeds(target: str) -> list[str]:
    """The largest samples; all would take minutes."""
    return sorted(filter(None, SEEDS[target]), key=len)[-3:]


def junk(target: str) -> Iterator[tuple[str, str, str]]:
    """Lines that say nothing: name, what the text begins with, what then fills 4 MB."""
    for unit in UNITS:
        yield f"long lines of {unit!r}", "", _fill(unit, 3900) + "\n"
        yield f"short lines of {unit!r}", "", _fill(unit, 90) + "\n"
    for number, text in enumerate(_seeds(target)):
        yield f"sample {number} and blanks", text, " "
        for line in _lines(text):
            yield f"sample {number} and {line[:40]!r}", text, line + "\n"
            yield f"only {line[:40]!r}", "", line + "\n"


def texts(target: str) -> Iterator[tuple[str, str]]:
    """What the parser gets whole, each with its name."""
    for unit in UNITS:
        yield f"{unit!r}, 10 MB", _fill(unit, TEN_MB)
        yield f"{unit!r} in one line", _fill(unit, 900_000)
    for line in EVENTS.get(target, ()):
        yield f"events {line[:40]!r}", _fill(line, TEN_MB)
    for number, text in enumerate(_seeds(target)):
        yield f"sample {number}, 10 MB", _fill(text, TEN_MB)
        yield f"sample {number}, 4 MB", _fill(text, FOUR_MB)
        for line in _lines(text):
            yield f"in one line {line[:40]!r}", text + _fill(line, 900_000)


def _lines(text: str) -> list[str]:
    """Five or so of a sample's lines."""
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[:: max(len(lines) // 5, 1)]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(target: str) -> dict[str, object]:
    """The slowest text and the memory over all of them; CPU time, as other tests run beside."""
    parse = parser_of(TARGETS[target][0])
    gc.freeze()  # only what a parser leaves is collected between the texts
    held = _fill("a", TEN_MB)
    before = peak = _peak_mb()
    del held
    slowest, at, most = 0.0, "", ""

    def read(name: str, text: str) -> float:
        nonlocal slowest, at, most, peak
        gc.collect()  # what a caught error holds is not of this text
        start = time.process_time()
        with contextlib.suppress(ParseError):
            parse(text)
        if (spent := time.process_time() - start) > slowest:
            slowest, at = spent, name
        if (now := _peak_mb()) > peak + 5:
            peak, most = now, name
        return spent

    for name, text in texts(target):
        read(name, text)
    for name, begins, unit in junk(target):
        alone = read(f"what {name} begins with", begins) if begins else 0.0
        small = read(f"a sixteenth of {name}", begins + _fill(unit, FOUR_MB // 16)) - alone
        if small < SIXTEENTH_S:
            continue
        quarter = read(f"a quarter of {name}", begins + _fill(unit, FOUR_MB // 4)) - alone
        if quarter * (quarter / small) * MARGIN > SECONDS:
            read(name, begins + _fill(unit, FOUR_MB))
    return {
        "seconds": round(slowest, 2), "slowest": at,
        "megabytes": round(_peak_mb() - before), "most memory": most,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_ten_megabytes(target: str) -> None:
    child = subprocess.run(
        [sys.executable, __file__, target],
        capture_output=True, text=True, timeout=300, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )  # fmt: skip
    found = json.loads(child.stdout)
    assert found["seconds"] < SECONDS, found
    assert found["megabytes"] < MEGABYTES, found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
