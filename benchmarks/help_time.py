"""Cost of ``fabric-tools --help`` against ``python -c "import typer"``: ratio of medians of 15.

The aim is at most 1.5. A command line that is slow to answer is not used at 3 a.m.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 15


def main() -> int:
    contestants = {
        "import typer": [sys.executable, "-c", "import typer"],
        "fabric-tools --help": [
            sys.executable, "-c", "from fabric_tools.cli.main import run; run()", "--help",
        ],
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(RUNS + 1):  # the first round fills the page cache
        for name, argv in contestants.items():
            began = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
            if number:
                times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:20} {median * 1000:6.1f} ms")
    ratio = medians["fabric-tools --help"] / medians["import typer"]
    print(f"ratio {ratio:.2f} (aim at most 1.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
