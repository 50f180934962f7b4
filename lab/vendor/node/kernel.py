"""The kernel's side of modules: what loading and unloading does, refuses and leaves behind.

State, one truth: /run/lab/modules/NAME. Kept in step with it: /sys/module, /run/lab/proc_modules
(what /proc/modules would say), /proc/driver/nvidia/version and the nodes in /dev. Texts: recorded
kernel logs for the nvidia module (535 to 580), the kernel's own strings for signatures and taint.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

from . import ko, paths
from .paths import at, say
from .trust import Refused, judge

BUILDER = "Release Build  (dvs-builder@U22-I3-B17-02-5)"
BUILT = "Tue Sep 23 09:55:41 UTC 2025"
GCC = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n"
NVLINK_MAJOR = 238
UVM_MAJOR = 508
_SIZES = {"nvidia": 11554816, "nvidia_uvm": 4943872, "nvidia_modeset": 1720320}
#: Which module a device node in /dev belongs to.
_OWNERS = (
    ("nvidia_uvm", re.compile(r"/dev/nvidia-uvm(?:-tools)?$")),
    ("nvidia_modeset", re.compile(r"/dev/nvidia-modeset$")),
    ("nvidia", re.compile(r"/dev/nvidia(?:\d+|ctl|-nvswitch(?:\d+|ctl))$")),
)


def modules() -> dict[str, dict[str, Any]]:
    """The loaded modules by name, in the order in which they were loaded."""
    folder = at("/run/lab/modules")
    found = [json.loads(path.read_text()) | {"name": path.name} for path in folder.glob("[a-z]*")]
    return {item["name"]: item for item in sorted(found, key=lambda item: item["order"])}


def load(file: Path, options: str = "") -> None:
    """insmod. Refused: wrong kernel, signature, already there, or no device that it can drive."""
    data = file.read_bytes()
    try:
        info = ko.info(data)
    except ValueError as error:
        raise Refused("Exec format error") from error
    name = info["name"][0]
    with paths.locked():
        there = modules()
        if name in there:
            raise Refused("File exists")
        if info["vermagic"][0].split()[0] != paths.release():
            should = ko.vermagic(paths.release())
            say(f"{name}: version magic '{info['vermagic'][0]}' should be '{should}'", 3)
            raise Refused("Exec format error")
        signature = ko.signature(data)
        taint = judge(name, signature, info)
        _before_init(name, info, there)
        state = {
            "version": info.get("version", [None])[0],
            "flavour": {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}.get(info["license"][0]),
            "file": str(file),
            "signer": signature and signature.signer,
            "depends": _depends(file),
            "taint": taint,
            "order": 1 + max((item["order"] for item in there.values()), default=0),
            "options": options,
        }
        paths.write_json(at(f"/run/lab/modules/{name}"), state)
        _after_init(name, state)
        _publish()


def unload(name: str) -> None:
    """rmmod. Refused: not there, or in use by a module or by a process that holds its device."""
    with paths.locked():
        there = modules()
        if name not in there:
            raise Refused("is not currently loaded")
        users = _dependents(name, there)
        if users:
            raise Refused(f"is in use by: {' '.join(users)}")
        if holders(name):
            raise Refused("is in use")
        at(f"/run/lab/modules/{name}").unlink()
        shutil.rmtree(at(f"/sys/module/{name}"), ignore_errors=True)
        _after_exit(name)
        _publish()


def refresh() -> None:
    """Counts users again (after a daemon opened or closed a device)."""
    with paths.locked():
        _publish()


def holders(name: str) -> list[int]:
    """Processes that hold a device of this module open."""
    pattern = dict(_OWNERS).get(name)
    if pattern is None:
        return []
    processes = at("/proc").glob("[0-9]*")
    return sorted(int(path.name) for path in processes if _holds(path, pattern))


def _holds(process: Path, pattern: re.Pattern[str]) -> bool:
    try:
        handles = list((process / "fd").iterdir())
    except OSError:
        return False  # it ended while it was looked at
    for handle in handles:
        with contextlib.suppress(OSError):  # closed meanwhile, as the handle of this very list
            if pattern.match(os.readlink(handle)):
                return True
    return False


def _before_init(name: str, info: dict[str, list[str]], there: dict[str, dict[str, Any]]) -> None:
    if name != "nvidia":
        return
    say(f"nvidia-nvlink: Nvlink Core is being initialized, major device number {NVLINK_MAJOR}")
    gpus, reason = paths.gpus(), ""
    if "nouveau" in there:
        for gpu in gpus:
            say(f"NVRM: GPU {paths.short_bus_id(gpu)} is already bound to nouveau.", 3)
        say(f"NVRM: The NVIDIA probe routine was not called for {len(gpus)} device(s).", 3)
        say("NVRM: This can occur when another driver was loaded and", 3)
        say("NVRM: obtained ownership of the NVIDIA device(s).", 3)
        reason = "NVRM: No NVIDIA devices probed."
    elif not gpus:
        reason = "NVRM: No NVIDIA GPU found."
    if reason:
        say(reason, 3)
        say(f"nvidia-nvlink: Unregistered Nvlink Core, major device number {NVLINK_MAJOR}")
        raise Refused("No such device")


def banner(version: str, flavour: str) -> str:
    """How the module names itself in the log and in /proc/driver/nvidia/version."""
    if flavour == "open":
        return f"NVIDIA UNIX Open Kernel Module for x86_64  {version}  {BUILDER}"
    return f"NVIDIA UNIX x86_64 Kernel Module  {version}"


def _after_init(name: str, state: dict[str, Any]) -> None:
    folder = at(f"/sys/module/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "initstate").write_text("live\n")
    if state["version"]:
        (folder / "version").write_text(f"{state['version']}\n")
    if name == "nouveau" and "nvidia" not in modules():  # else it stays without a device
        for gpu in paths.gpus():
            say(f"nouveau {paths.short_bus_id(gpu)}: enabling device (0140 -> 0142)")
    elif name == "nvidia":
        _nvidia_up(state)
    elif name == "nvidia_uvm":
        say(f"nvidia-uvm: Loaded the UVM driver, major device number {UVM_MAJOR}.")
        _device("nvidia-uvm")
        _device("nvidia-uvm-tools")
    elif name == "nvidia_modeset":
        kind = "Open Kernel Mode Setting Driver for x86_64" if state["flavour"] == "open" else (
            "Kernel Mode Setting Driver for UNIX platforms")  # fmt: skip
        say(f"nvidia-modeset: Loading NVIDIA UNIX {kind}  {state['version']}  {BUILT}")
        _device("nvidia-modeset")


def _nvidia_up(state: dict[str, Any]) -> None:
    for gpu in paths.gpus():
        say(f"nvidia {paths.short_bus_id(gpu)}: enabling device (0140 -> 0142)")
    said = banner(state["version"], state["flavour"])
    stamp = "" if state["flavour"] == "open" else f"  {BUILT}"
    say(f"NVRM: loading {said}{stamp}")
    folder = at("/proc/driver/nvidia")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "version").write_text(f"NVRM version: {said}  {BUILT}\n{GCC}")
    for number, _ in enumerate(paths.gpus()):
        _device(f"nvidia{number}")
    _device("nvidiactl")
    for number, _ in enumerate(paths.node().get("nvswitches", [])):
        say(f"nvidia-nvswitch{number}: using MSI")
        _device(f"nvidia-nvswitch{number}")
        _device("nvidia-nvswitchctl")


def _after_exit(name: str) -> None:
    gone = dict(_OWNERS).get(name)
    for path in at("/dev").glob("nvidia*") if gone else ():
        if gone and gone.match(f"/dev/{path.name}"):
            path.unlink()
    if name == "nvidia":
        shutil.rmtree(at("/proc/driver/nvidia"), ignore_errors=True)
        at("/run/lab/fabric.json").unlink(missing_ok=True)
        say(f"nvidia-nvlink: Unregistered Nvlink Core, major device number {NVLINK_MAJOR}")
    elif name == "nvidia_uvm":
        say("nvidia-uvm: Unloaded the UVM driver.")
    elif name == "nvidia_modeset":
        say("nvidia-modeset: Unloading")


def _device(name: str) -> None:
    """A character device that can be opened and answers nothing (1:3, as /dev/null)."""
    path = at(f"/dev/{name}")
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.chmod(0o666)
    else:  # a test without root
        path.touch()


def _depends(file: Path) -> list[str]:
    """Names of the modules whose symbols this one uses, by what depmod found (modules.dep)."""
    release = paths.release()
    try:
        lines = at(f"/lib/modules/{release}/modules.dep").read_text().splitlines()
    except OSError:
        return []
    table = {path: needs.split() for path, _, needs in (line.partition(":") for line in lines)}
    mine = next((path for path in table if str(file).endswith(f"/{release}/{path}")), "")
    needs = table.get(mine, [])
    # modules.dep names everything below; what another need brings along is not used directly.
    brought = {below for need in needs for below in table.get(need, [])}
    direct = [need for need in needs if need not in brought]
    return [Path(need).name.partition(".")[0].replace("-", "_") for need in direct]


def _dependents(name: str, there: dict[str, dict[str, Any]]) -> list[str]:
    return [other for other, state in reversed(there.items()) if name in state["depends"]]


def _publish() -> None:
    """/run/lab/proc_modules (in place: a file may be bound over it) and the reference counts."""
    there, lines = modules(), []
    for name, state in reversed(there.items()):
        users = _dependents(name, there)
        count = len(users) + len(holders(name))
        by = "".join(f"{user}," for user in users) or "-"
        taint = f" ({state['taint']})" if state["taint"] else ""
        size = _SIZES.get(name, 131072)
        lines.append(f"{name} {size} {count} {by} Live 0x0000000000000000{taint}\n")
        (at(f"/sys/module/{name}") / "refcnt").write_text(f"{count}\n")
    path = at("/run/lab/proc_modules")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii") as table:
        table.write("".join(lines))
