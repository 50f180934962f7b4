"""Run the probe table on this node and put what it said into one snapshot."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from typing import Callable, Dict, Optional, Sequence, Tuple

from fabric_tools import __version__
from fabric_tools.node import osstate, rdma
from fabric_tools.node.nvml import EXIT_ABSENT, EXIT_DENIED
from fabric_tools.node.processes import sweep
from fabric_tools.node.run import (
    Outcome,
    Stop,
    as_text,
    never,
    outcome_json,
    read_file,
    run_bounded,
)
from fabric_tools.probes import PROBES, Probe

#: Few enough to leave the node's own work alone, enough that one hung tool delays no other.
WORKERS = 4

#: The rest comes from people's folders.
COLLECTED = tuple(probe for probe in PROBES if probe.kind != "saved")

#: Kinds of the operating system's state.
_STATE = {
    "apt": osstate.ask_apt,
    "dnf": osstate.ask_dnf,
    "files": osstate.read_files,
    "trust": osstate.read_trust,
}

Progress = Callable[[int, int, str], None]


def collect(
    probes: Sequence[Probe] = COLLECTED,
    child_argv: Tuple[str, ...] = (),
    child_fds: Tuple[int, ...] = (),
    progress: Optional[Progress] = None,
    stop: Stop = never,
) -> Dict[str, object]:
    """One snapshot as plain data (``models.snapshot.Snapshot``).

    ``child_argv`` starts this program as the child that reads a library;
    ``progress(done, total, probe id)`` is called after each probe. Every probe is bounded, so this
    returns within ``worst_case_s(probes)``; soon after ``stop`` has become true, with a snapshot
    that is of no use.
    """
    started, clock = datetime.now(timezone.utc), time.monotonic()
    results: Dict[str, object] = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        # Longest first, so that a slow one does not start last.
        order = sorted(probes, key=lambda probe: -probe.timeout_s)
        jobs = {pool.submit(_ask, probe, child_argv, child_fds, stop): probe for probe in order}
        for job in as_completed(jobs):
            probe = jobs[job]
            results[probe.id] = job.result()
            if progress:
                progress(len(results), len(jobs), probe.id)
    sweep()
    return {
        "schema_version": 1,
        "kind": "fabric-tools/snapshot",
        "collector": {"version": __version__, "python": platform.python_version()},
        "source": {"kind": "node", "note": ""},
        "host": identity(),
        "started_at": started.isoformat(timespec="milliseconds"),
        "duration_s": round(time.monotonic() - clock, 3),
        "redacted": False,
        "probes": {probe.id: results[probe.id] for probe in probes},
    }


def worst_case_s(probes: Sequence[Probe] = COLLECTED) -> float:
    """Seconds after which a run is over even if every probe hangs (1 s of killing each)."""
    return sum(probe.timeout_s + 1.0 for probe in probes) / WORKERS + max(
        (probe.timeout_s for probe in probes), default=0.0
    )


def _ask(
    probe: Probe, child_argv: Tuple[str, ...], child_fds: Tuple[int, ...], stop: Stop
) -> Dict[str, object]:
    seconds, size = probe.timeout_s, probe.max_bytes
    if stop():
        return outcome_json(probe.argv, Outcome("error", None, b"", b"", 0.0, "not asked"))
    if probe.kind == "file":
        return outcome_json(probe.argv, read_file(probe.argv[0], seconds, size, stop))
    if probe.kind in ("nvml", "cuda"):
        argv = (*child_argv, "--%s-child" % probe.kind) if child_argv else ()
        return outcome_json((probe.kind,), _ask_child(probe, argv, child_fds, stop))
    if probe.kind == "infiniband":
        return outcome_json((rdma.ROOT,), rdma.read_infiniband(probe, stop))
    if probe.kind == "netdev":
        return outcome_json(probe.argv, rdma.ask_interfaces(probe, stop))
    if probe.kind in _STATE:
        return outcome_json(probe.argv, _STATE[probe.kind](probe, stop))
    outcome = run_bounded(probe.argv, seconds, size, probe.accept_rc, stop=stop)
    return outcome_json(probe.argv, outcome)


def _ask_child(probe: Probe, argv: Tuple[str, ...], fds: Tuple[int, ...], stop: Stop) -> Outcome:
    if not argv:
        return Outcome("absent", None, b"", b"", 0.0, "no library reader in this collector")
    outcome = run_bounded(argv, probe.timeout_s, probe.max_bytes, pass_fds=fds, stop=stop)
    if outcome.status == "failed" and outcome.rc in (EXIT_ABSENT, EXIT_DENIED):
        status = "absent" if outcome.rc == EXIT_ABSENT else "denied"
        note = outcome.stderr.decode("utf-8", "replace").strip()[:200]
        return outcome._replace(status=status, note=note)
    return outcome


def identity() -> Dict[str, object]:
    """Name, machine id, boot id and user of this node; empty where it does not say."""
    return {
        "hostname": as_text(os.fsencode(socket.gethostname())),
        "machine_id": _first_line("/etc/machine-id"),
        "boot_id": _first_line("/proc/sys/kernel/random/boot_id"),
        "uid": os.geteuid(),
    }


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.readline(256).strip()
    except OSError:
        return ""


def library_child(archive: str) -> Tuple[Tuple[str, ...], Tuple[int, ...]]:
    """Command and inherited descriptors that start a library reader out of ``archive``.

    ``archive`` is the zipapp's path, or ``/proc/self/fd/N`` when it was never written to disk.
    """
    fds: Tuple[int, ...] = ()
    if archive.startswith("/proc/self/fd/"):
        fds = (int(archive.rpartition("/")[2]),)
    else:
        archive = os.path.abspath(archive)  # the child starts in another directory
    return (sys.executable, "-I", archive), fds
