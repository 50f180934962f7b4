"""Whether the driver that runs is the one on disk, and who would be hurt by exchanging it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from fabric_tools.node.grub import sorted_releases

FABRIC_MANAGER = "nvidia-fabricmanager.service"


def reload_reasons(
    loaded: str, on_disk: str, units: Mapping[str, Mapping[str, str]], *, settings: bool = False
) -> list[str]:
    """Why the nvidia module must be loaded again; empty: it need not.

    ``loaded``: /sys/module/nvidia/version, "" where it is not loaded; ``on_disk``: `modinfo -F
    version nvidia`. ``units``: see ``units_of``. A fabric manager that ran since boot and is down
    leaves GPUs that only a reset registers again (Fabric Manager user guide); ``settings``: its
    settings were changed, which it reads when the fabric is set up.
    """
    if not on_disk:
        return []
    if not loaded:
        return [f"the nvidia module is not loaded ({on_disk} is on disk)"]
    if loaded != on_disk:
        return [f"nvidia {loaded} is loaded and {on_disk} is on disk"]
    manager = units.get(FABRIC_MANAGER, {})
    ran = manager.get("ExecMainStartTimestampMonotonic", "0") not in ("", "0")
    if ran and manager.get("ActiveState") in ("inactive", "failed"):
        return ["nvidia-fabricmanager ran since boot and is down: the GPUs must register again"]
    return ["settings of nvidia-fabricmanager were changed"] if settings else []


def units_of(text: str) -> dict[str, dict[str, str]]:
    """`systemctl show -p Id,... UNIT...`: properties by unit, of units that systemd has loaded."""
    found = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id") and values.get("LoadState") == "loaded":
            found[values["Id"]] = values
    return found


def active(units: Mapping[str, Mapping[str, str]], order: Iterable[str]) -> list[str]:
    """Those of ``order`` that run now or are about to, in that order."""
    states = ("active", "activating", "reloading")
    names = [name if "." in name else f"{name}.service" for name in order]
    return [name for name in names if units.get(name, {}).get("ActiveState") in states]


def strangers(
    holders: Iterable[Mapping[str, Any]], units: Iterable[str], commands: Iterable[str]
) -> list[str]:
    """Processes that hold the GPUs and are not services that this role stops and starts itself.

    ``holders``: pid, uid, command (argv[0]), unit, devices. One text each, for people.
    """
    own = {name if "." in name else f"{name}.service" for name in units}
    names = set(commands)
    found = []
    for holder in holders:
        command = PurePosixPath(str(holder["command"])).name
        if holder["unit"] not in own and command not in names:
            unit = f", {holder['unit']}" if holder["unit"] else ""
            devices = ", ".join(holder["devices"])
            found.append(f"{command} (pid {holder['pid']}, uid {holder['uid']}{unit}: {devices})")
    return found


def failure_domains(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The failure domains of these hosts, each once, in the order of the inventory.

    A host that declares none is one by itself.
    """
    named = (str(variables[host].get("fabric_failure_domain") or host) for host in hosts)
    return list(dict.fromkeys(named))


def boot_kernels(images: Iterable[str], running: str) -> list[str]:
    """Kernels that need headers: the running one and the newest that has an image in /boot."""
    releases = {
        name.partition("-")[2]
        for name in (PurePosixPath(image).name for image in images)
        if name.startswith(("vmlinuz-", "vmlinux-")) and "rescue" not in name
    }
    newest = [*sorted_releases(sorted(releases)), running][0]
    return list(dict.fromkeys([running, newest]))


def header_packages(patterns: Iterable[str], kernels: Iterable[str]) -> list[str]:
    """Package names, ``{kernel}`` in a pattern stands for each kernel."""
    releases = list(kernels)
    named = (pattern.replace("{kernel}", release) for pattern in patterns for release in releases)
    return list(dict.fromkeys(named))


def compiler_major(proc_version: str) -> str:
    """The major version of the compiler that built the running kernel, "" where none is told.

    /proc/version: ``... (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld``.
    """
    match = re.search(r"\bgcc(?:-\d+)? (?:\([^)]*\) ?)+(\d+)\.", proc_version)
    return match[1] if match else ""


def enrolled(listing: str, sha1: str) -> bool:
    """Whether `mokutil --list-enrolled` names a certificate with this SHA-1 (hex, of its DER)."""
    told = re.findall(r"SHA1 Fingerprint:\s*((?:[0-9a-f]{2}:){19}[0-9a-f]{2})", listing, re.I)
    return sha1.lower() in {text.replace(":", "").lower() for text in told}
