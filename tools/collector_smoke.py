"""Does this Python run the collector? ``pythonX.Y collector_smoke.py fabric-collect.pyz``.

Runs the zipapp with the very interpreter that runs this file (Python 3.9 or newer, nothing
installed) and looks at what comes back. A sick or empty node is no failure; a snapshot that is
not whole is one.
"""

from __future__ import annotations

import json
import subprocess
import sys

STATUSES = {"ok", "absent", "denied", "timeout", "cut", "failed", "error"}


def main(pyz: str) -> int:
    """Print one line and return 0, or raise."""
    sys.path.insert(0, pyz)  # the probe table that this zipapp carries
    from fabric_tools import __version__, probes

    run = subprocess.run(
        [sys.executable, "-I", "-W", "error", pyz],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=240, check=False,
    )  # fmt: skip
    complaint = run.stderr.decode("utf-8", "replace").strip()
    if run.returncode != 0 or complaint:
        raise SystemExit("collector exit %d: %s" % (run.returncode, complaint))
    snapshot = json.loads(run.stdout.decode("ascii"))
    want = [probe.id for probe in probes.PROBES if probe.kind != "saved"]
    got = snapshot["probes"]
    if sorted(got) != sorted(want):
        raise SystemExit("probes differ: %s" % sorted(set(got) ^ set(want)))
    unknown = sorted(key for key, value in got.items() if value["status"] not in STATUSES)
    if unknown:
        raise SystemExit("probes with an unknown status: %s" % unknown)
    if snapshot["collector"]["version"] != __version__:
        raise SystemExit("snapshot of version %s" % snapshot["collector"]["version"])
    answered = sum(value["status"] == "ok" for value in got.values())
    print("%d probes, %d answered" % (len(got), answered))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
