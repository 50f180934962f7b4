"""Where things lie on a node. Tests put another root before them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Everything is read and written below this folder.
ROOT = Path("/")


def at(path: str) -> Path:
    """The absolute path ``path`` of the node."""
    return ROOT / path.lstrip("/")


def release() -> str:
    """The running kernel."""
    return platform.release()


def node() -> dict[str, Any]:
    """The hardware as it is now; an error that says so where the lab did not describe it."""
    path = at("/run/lab/node.json")
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"lab: cannot read {path}: {error}") from error
    return found


def gpus() -> list[dict[str, Any]]:
    """The GPUs that are on the bus."""
    return [gpu for gpu in node().get("gpus", []) if gpu.get("present", True)]


def short_bus_id(device: dict[str, Any]) -> str:
    """``0000:1b:00.0`` for NVML's ``00000000:1B:00.0``."""
    domain, _, rest = str(device["bus_id"]).lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def uptime_s() -> float:
    """Seconds since the node (its process 1) started, as a kernel would count them."""
    try:
        stat = Path("/proc/1/stat").read_text(encoding="ascii")
        started = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        started = 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def say(text: str, priority: int = 6) -> None:
    """Kernel messages, one a line."""
    path = at("/run/lab/kmsg")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        for line in text.splitlines():
            log.write(f"{uptime_s():.6f} {priority} {line}\n")


def write_json(path: Path, value: object) -> None:
    """Replaces ``path`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One change of the kernel's state at a time."""
    path = at("/run/lab/lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
