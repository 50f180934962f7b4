"""Wait for what a healthy node still has to find after a boot: its time server, its fabric.

Only where nothing else closes the gate, and no longer than the checks allow (``settles_s`` of a
verdict). A node that does not get there is judged as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fabric_tools.gate import settles_s
from fabric_tools.models.report import Decision

#: Seconds between two readings.
PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the loop sees it; a test gives its own."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def settled(
    collect: Callable[[], str],
    judged: Callable[[str], Sequence[Decision]],
    say: Callable[[str], None],
    clock: Clock = Clock(),  # frozen
) -> str:
    """The snapshot's text: the first one that opens the gate, or the last one in time.

    ``judged``: the decisions on a snapshot's text. ``say``: told once what is waited for.
    """
    start, told = clock.now(), False
    while True:
        text = collect()
        decisions = judged(text)
        left_s = settles_s(decisions) - (clock.now() - start)
        if left_s <= 0:
            return text
        if not told:
            reasons = "; ".join(reason for d in decisions for reason in d.reasons)
            say(f"{reasons}: looking again for up to {left_s:.0f} s")
            told = True
        clock.pause(min(PAUSE_S, left_s))
