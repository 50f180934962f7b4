"""What the role ``node_base`` computes: plain functions, used as Jinja filters."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from fabric_tools.checks.holds import is_kernel_meta, is_kernel_package
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import Array, HostVars
from fabric_tools.models.platform import SiteSpec
from fabric_tools.node_settings import as_vars, no_proxy


def node_settings(fabric_host: Mapping[str, Any], addresses: Sequence[str]) -> dict[str, object]:
    """What the operating system of this host is set to.

    ``fabric_host`` is the inventory's declaration, ``addresses`` are the node's own. Adds to
    ``node_settings.as_vars``: ``proxy``, ``no_proxy``, ``direct_hosts`` (names and addresses that
    apt reaches without the proxy), ``ca``, ``mirror``, ``time_servers``. Raises ``UsageError``
    where the declaration is not valid.
    """
    site = _declared(fabric_host)
    profile = site.profile
    spec = SiteSpec(profile=profile, rails=site.rails)
    bypass = no_proxy(spec, addresses) if profile.proxy else ()
    return {
        **as_vars(),
        "proxy": profile.proxy or "",
        "no_proxy": list(bypass),
        "direct_hosts": [name for name in bypass if _is_host(name)],
        "ca": bool(profile.ca_bundle),
        "mirror": site.mirror is not None,
        "time_servers": list(profile.time_servers),
    }


def _declared(fabric_host: Mapping[str, Any]) -> HostVars:
    try:
        return HostVars.model_validate(fabric_host)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{where}: {first['msg']}", where="fabric_host") from error


def _is_host(name: str) -> bool:
    """apt knows whole names and addresses, neither ranges nor endings of names."""
    if name.startswith((".", "*")):
        return False
    try:
        return ipaddress.ip_network(name).num_addresses == 1
    except ValueError:
        return "/" not in name


def too_low(lines: Sequence[str], wanted: Mapping[str, int]) -> bool:
    """Whether a kernel setting is below what is wanted: ``sysctl -n`` in the order of ``wanted``.

    Fewer lines than names mean a setting that this kernel does not have, which is no reason to
    write it again and again.
    """
    if len(lines) != len(wanted):
        return False
    pairs = zip(lines, wanted.values(), strict=True)
    return any(re.fullmatch(r"\d+", line) and int(line) < least for line, least in pairs)


def kernel_held(installed: Iterable[str], kernel: str) -> list[str]:
    """What is held so that no kernel moves or comes, by the rule of packages.kernel_hold.

    Every kernel package, and the metapackages of the running flavour (linux-generic), of which one
    that is free would bring the next kernel.
    """
    return sorted(n for n in installed if is_kernel_package(n) or is_kernel_meta(n, kernel))


def array_plan(
    declared: Mapping[str, Any], lsblk_json: str, links: Sequence[str]
) -> dict[str, object]:
    """What may be done so that the array is there, and what forbids it.

    ``lsblk_json``: ``lsblk --json --bytes`` with NAME, KNAME, PATH, TYPE, SIZE, SERIAL, FSTYPE,
    PTTYPE, MOUNTPOINTS. ``links``: where the declared names lead, in order. Returns ``refusal``
    (one line, or ""), ``wipe`` (drives to clear), ``create`` (argv of mdadm, empty where the array
    stands), ``device``, ``mount`` and ``unit`` (its systemd unit). Raises ``UsageError``.
    """
    try:
        array = Array.model_validate(declared)
    except ValidationError as error:
        raise UsageError(str(error.errors()[0]["msg"]), where="fabric_host.array") from error
    plan: dict[str, object] = {
        "refusal": "", "wipe": [], "create": [], "device": array.device, "mount": array.mount,
        "unit": mount_unit(array.mount),
    }  # fmt: skip
    drives = {str(drive["path"]): drive for drive in _drives(json.loads(lsblk_json))}
    found = [drives.get(link) for link in links]
    absent = [name for name, drive in zip(array.devices, found, strict=True) if drive is None]
    if absent:
        return plan | {"refusal": f"no such drive: {', '.join(absent)}"}
    here = [drive for drive in found if drive is not None]
    if len({drive["path"] for drive in here}) != len(here):
        return plan | {"refusal": "two of the declared names lead to one drive"}
    if all(_in_array(drive, array.level) for drive in here):
        return plan
    return plan | _clearing(array, here)


def _clearing(array: Array, drives: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Which drives are cleared for a new array; one with data and no consent forbids it all."""
    held, wipe = [], []
    for drive in drives:
        holds = _holds(drive)
        if not holds:
            continue
        if holds.startswith("mounted") or drive.get("serial") not in array.wipe_consent:
            held.append(f"{drive['path']} (serial {drive.get('serial') or 'unknown'}) {holds}")
        else:
            wipe.append(drive["path"])
    if held:
        why = "; ".join(held)
        return {
            "refusal": f"{why}. Data is destroyed only on drives whose serial numbers stand in "
            "fabric_host.array.wipe_consent, and never on one in use"
        }
    level = array.level.removeprefix("raid")
    argv = ["mdadm", "--create", array.device, "--run", f"--level={level}",
            f"--raid-devices={len(drives)}", "--metadata=1.2",
            *(str(drive["path"]) for drive in drives)]  # fmt: skip
    return {"wipe": wipe, "create": argv}


def _drives(lsblk: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for device in lsblk["blockdevices"]:
        yield device
        yield from _drives({"blockdevices": device.get("children", [])})


def _in_array(drive: Mapping[str, Any], level: str) -> bool:
    return any(child.get("type") == level for child in drive.get("children", []))


def _holds(drive: Mapping[str, Any]) -> str:
    """What is on the drive, in a few words, or ""."""
    every = [drive, *_drives({"blockdevices": drive.get("children", [])})]
    mounted = [str(p) for one in every for p in one.get("mountpoints") or [] if p]
    if mounted:
        return f"mounted on {', '.join(mounted)}"
    if len(every) > 1:
        return f"has {every[1]['type']} {every[1]['path']} on it"
    kind = drive.get("fstype") or drive.get("pttype")
    return f"holds {kind}" if kind else ""


def mount_unit(place: str) -> str:
    """The name of systemd's unit for a mount point, as systemd-escape(1) makes it."""
    parts = [part for part in place.split("/") if part]
    text = "/".join(parts)
    escaped = "".join(
        "-" if char == "/" else char if re.fullmatch(r"[A-Za-z0-9:_.]", char) and not (
            index == 0 and char == ".") else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for index, char in enumerate(text)
    )  # fmt: skip
    return f"{escaped or '-'}.mount"
