"""Running the steps of a demonstration: one line a step, everything else in a log file.

On a terminal the line of the running step is written over each second; elsewhere (a CI log) there
is one line when a step ends, and one in between where it takes long. No colour in either.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from lab.errors import LabError
from lab.places import ROOT

WIDTH = 79
#: Seconds between two lines about the same step where they cannot be written over.
_PATIENCE_S = 20.0
_FAILED_LINES = 25
_DETAIL = re.compile(r"^(?:TASK \[(?P<task>.+?)\]|lab: +[\d.]+ s +(?P<lab>.+))")


class StepFailed(LabError):
    """A command of a step ended otherwise than it must; its last lines were shown."""


@dataclass(frozen=True)
class Done:
    """``text``: what the command wrote, both streams. ``seconds``: how long it took."""

    code: int
    text: str
    seconds: float


Tell = Callable[[float, str], None]


def clip(line: str, width: int = WIDTH) -> str:
    """The line, cut to ``width`` characters."""
    return line if len(line) <= width else line[: width - 3] + "..."


class Stage:
    """Prints to ``out``; every command's output goes to ``log``. ``steps``: how many will come."""

    def __init__(self, out: TextIO, log: Path, steps: int, env: Mapping[str, str]) -> None:
        self._out, self._log, self._steps, self._env = out, log, steps, dict(env)
        self._tty = out.isatty()
        self._number = 0
        self._started = time.monotonic()
        log.write_text("")

    def say(self, text: str = "") -> None:
        """A line of its own, or several."""
        print(text, file=self._out, flush=True)

    def step(
        self, title: str, argv: Sequence[str | Path], estimate_s: int, *, code: int = 0,
        timeout_s: float = 900,
    ) -> Done:  # fmt: skip
        """Run one command as one step; raises ``StepFailed`` unless it ends with ``code``."""
        self._number += 1
        head = f"[{self._number}/{self._steps}] {title:<16}"
        done = self._run(argv, timeout_s, partial(self._wait, head, estimate_s))
        self._over()
        if done.code != code:
            self.say(f"{head} {done.seconds:4.0f} s  FAILED")
            self._explain(argv, done, code)
        self.say(f"{head} {done.seconds:4.0f} s")
        return done

    def aside(
        self, argv: Sequence[str | Path], *, code: int | None = 0, timeout_s: float = 120
    ) -> Done:
        """Run one command without a line of its own; any exit will do where ``code`` is None."""
        done = self._run(argv, timeout_s, lambda spent, detail: None)
        if code is not None and done.code != code:
            self._explain(argv, done, code)
        return done

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first line."""
        return time.monotonic() - self._started

    def _run(self, argv: Sequence[str | Path], timeout_s: float, tell: Tell) -> Done:
        words = [str(word) for word in argv]
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {shlex.join(words)}\n")
        begin = self._log.stat().st_size
        started = self._told = time.monotonic()
        with self._log.open("ab") as log:
            child = subprocess.Popen(
                words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
                env=self._env, start_new_session=True,
            )  # fmt: skip
            try:
                self._follow(child, (begin, started), timeout_s, tell)
            finally:
                _end(child)
        text = self._since(begin)
        return Done(child.returncode, text, time.monotonic() - started)

    def _follow(
        self, child: subprocess.Popen[bytes], since: tuple[int, float], timeout_s: float, tell: Tell
    ) -> None:
        begin, started = since
        while True:
            try:
                child.wait(timeout=1.0)
                return
            except subprocess.TimeoutExpired:
                spent = time.monotonic() - started
            if spent > timeout_s:
                self._over()
                raise StepFailed(
                    f"not done in {timeout_s:.0f} s and ended", f"its output is in {self._log}"
                )
            tell(spent, _detail(self._since(begin)))

    def _wait(self, head: str, estimate_s: int, spent: float, detail: str) -> None:
        line = f"{head} {spent:4.0f} s (usually {estimate_s})  {detail}"
        if self._tty:
            self._out.write("\r" + clip(line).ljust(WIDTH))
            self._out.flush()
        elif time.monotonic() - self._told >= _PATIENCE_S:
            self._told = time.monotonic()
            self.say(clip(line).rstrip())

    def _over(self) -> None:
        """Take away the line that was written over."""
        if self._tty:
            self._out.write("\r" + " " * WIDTH + "\r")

    def _since(self, begin: int) -> str:
        with self._log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _explain(self, argv: Sequence[str | Path], done: Done, code: int) -> None:
        self.say(f"$ {clip(shlex.join(map(str, argv)), 300)}")
        for line in done.text.rstrip().splitlines()[-_FAILED_LINES:]:
            self.say(f"  | {line}")
        raise StepFailed(
            f"a command ended with {done.code}, not with {code}", f"all of it is in {self._log}"
        )


def _detail(text: str) -> str:
    """The last task or the last progress of the lab in an output."""
    for line in reversed(text.splitlines()):
        found = _DETAIL.match(line)
        if found:
            return (found["task"] or found["lab"]).rpartition(" : ")[2]
    return ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nothing that was started outlives its step."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(timeout=5)
