"""What only a test of nccl-tests prints, and what a program prints that died, anywhere in a line.

A launcher's prefix that nobody knows yet hides a line from the reader of tests. Counting what is
seen against what was read notices it. Evidence: the lines of ``nccl_tests``; the words of shells,
PyTorch and CUDA follow public reports (format unverified).
"""

from __future__ import annotations

import re

_TOLD = re.compile(
    r"nThread \d{1,6} nGpus \d|\b(?:size|bytes)\s{1,60}(?:count|N)\s{1,60}type\b"
    r"|Out of bounds values\s{0,9}:|Avg bus bandwidth\s{0,9}:"
    r"|\b(?:out_of_bounds|nwrong)\\?\"\s{0,9}:"
)
# A number is tried from its first digit only: a long one would cost twenty times its length.
_ROW = re.compile(
    r"(?<!\d)\d{1,20}[^\S\n]{1,60}\d{1,20}[^\S\n]{1,60}[a-z][a-z0-9_]{0,15}"
    r"(?:[^\S\n]{1,60}[a-z][a-z0-9_]{0,15})?(?:[^\S\n]{1,60}-?\d{1,6})?"
    r"(?:[^\S\n]{1,60}(?:N/A|\d[\d.e+-]{0,30})(?![\w/])){4}"
)
#: A program that died or gave up. NCCL's own warnings are judged where its log is read.
FAILURE = re.compile(
    r"Test (?:NCCL |CUDA )?failure|NCCL failure|CUDA failure|CUDA error: \S"
    r"|unhandled (?:cuda|system) error|Segmentation fault|Bus error\b|\bcore dumped\b|\bAborted\b"
    r"|\bKilled\b|exited on signal|MPI_ABORT|Test timeout|# error: |srun: error|DUE TO TIME LIMIT"
    r"|symbol lookup error|error while loading shared libraries"
    r"|Watchdog caught|Watchdog .{0,120}\btimeout\b|[Ww]atchdog (?:thread terminated|got stuck)"
)


def signs(line: str) -> int:
    """How many headings, rows and closing lines of a test stand in the line."""
    return sum(1 for _ in _TOLD.finditer(line)) + sum(1 for _ in _ROW.finditer(line))
