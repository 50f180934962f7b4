"""Starting programs: bounded, with their own words in the error."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    timeout_s: float = 120,
    check: bool = True,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run and return; raises ``LabError`` where it is absent, hangs or (``check``) fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout_s, cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else None, errors="replace",
        )  # fmt: skip
    except FileNotFoundError as error:
        raise LabError(f"{words[0]} is not installed", "`python -m lab needs` lists it") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"`{' '.join(words[:6])}` did not end in {timeout_s:.0f} s") from error
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        # The cause comes before the farewells.
        said = [line for line in said if line.startswith(("E: ", "Error", "error"))] or said
        raise LabError(
            f"`{' '.join(words[:8])}` failed ({done.returncode}): {' | '.join(said[-3:])}"
        )
    return done
