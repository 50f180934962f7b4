"""The fabric manager and the persistence daemon, each with the version of its package.

Texts: recorded logs and journals of H100 nodes (550 to 595); the module they compare with is the
one that is loaded, not the one on disk.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from . import kernel, paths
from .paths import at

LOG = "/var/log/fabricmanager.log"
_GPUS = "nvidia[0-9c]*"
_CONFIGURED = (
    "Successfully configured all the available NVSwitches to route GPU NVLink traffic. NVLink "
    "Peer-to-Peer support will be enabled once the GPUs are successfully registered with the "
    "NVLink fabric."
)


def _log(level: str, text: str) -> None:
    """To the log file and, for the journal, to standard output."""
    stamp = time.strftime("%b %d %Y %H:%M:%S", time.gmtime())
    with at(LOG).open("a", encoding="utf-8") as log:
        log.write(f"[{stamp}] [{level}] [tid {os.getpid()}] {text}\n")
    print(text, flush=True)


def why_not(version: str) -> str | None:
    """Why a fabric manager of this version would not start; None when it would."""
    module = kernel.modules().get("nvidia")
    if module is None or not paths.node().get("nvswitches"):
        return (
            "request to query NVSwitch device information from NVSwitch driver failed with "
            "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
        )
    if module["version"] != version:
        return (
            f"fabric manager NVIDIA GPU driver interface version {version} don't match with "
            f"driver version {module['version']}. Please update with matching NVIDIA driver "
            "package."
        )
    return None


def _daemon(name: str, devices: str, pid_file: str) -> int:
    """Leaves a daemon behind that holds its devices open; returns when that is so."""
    ready, tell = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if os.fork():
        os.close(tell)
        return 0 if os.read(ready, 1) else 1
    os.setsid()
    Path("/proc/self/comm").write_text(name[:15])
    return _stay(devices, at(pid_file), tell)


def _stay(devices: str, pid_file: Path, tell: int) -> NoReturn:
    handles = [os.open(path, os.O_RDWR) for path in sorted(at("/dev").glob(devices))]
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    pid_file.write_text(f"{os.getpid()}\n")
    kernel.refresh()
    _persistence(devices, True)
    os.write(tell, b".")
    os.close(tell)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    for handle in handles:
        os.close(handle)
    pid_file.unlink(missing_ok=True)
    _persistence(devices, False)
    kernel.refresh()
    raise SystemExit(0)


def _persistence(devices: str, on: bool) -> None:
    """The mode that nvidia-smi shows lasts as long as the daemon that holds the GPUs."""
    state = at("/run/lab/modules/nvidia")
    if devices == _GPUS and state.exists():
        with paths.locked():
            paths.write_json(state, json.loads(state.read_text()) | {"persistence": on})


def fabric_manager(arguments: list[str]) -> int:
    """`fabricmanager VERSION [-c FILE] | --version | -v`."""
    version, rest = arguments[0], arguments[1:]
    if "--version" in rest or "-v" in rest:
        print(f"Fabric Manager version is : {version}")
        return 0
    reason = why_not(version)
    if reason is not None:
        _log("ERROR", reason)
        return 1
    _log("INFO", "Connected to 1 node.")
    state = {
        "state": "Completed",
        "status": "Success",
        "clique": "0",
        "cluster_uuid": "00000000-0000-0000-0000-000000000000",
    }
    paths.write_json(at("/run/lab/fabric.json"), state)
    _log("INFO", _CONFIGURED)
    pid_file = "/run/nvidia-fabricmanager/nv-fabricmanager.pid"
    return _daemon("nv-fabricmanager", "nvidia-nvswitch*", pid_file)


def persistenced(arguments: list[str]) -> int:
    """`persistenced VERSION [--user NAME] [--persistence-mode] [--verbose] | --version`."""
    version, rest = arguments[0], arguments[1:]
    if "--version" in rest or "-V" in rest:
        print(f"nvidia-persistenced:  version {version}")
        return 0
    module = kernel.modules().get("nvidia")
    if module is None or module["version"] != version:
        text = "nvidia-persistenced failed to initialize. Check syslog for more details."
        print(text, file=sys.stderr)
        return 1
    pid_file = "/run/nvidia-persistenced/nvidia-persistenced.pid"
    return _daemon("nvidia-persistenced", _GPUS, pid_file)
