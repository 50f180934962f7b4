"""What the role ``node_base`` computes: plain functions, used as Jinja filters."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from fabric_tools.ansible.values import site_of
from fabric_tools.checks.holds import is_kernel_meta, is_kernel_package
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import Array
from fabric_tools.models.platform import SiteSpec
from fabric_tools.node_settings import as_vars, no_proxy


def node_settings(fabric_host: Mapping[str, Any], addresses: Sequence[str]) -> dict[str, object]:
    """What the operating system of this host is set to.

    ``fabric_host`` is the inventory's declaration, ``addresses`` are the node's own. Adds to
    ``node_settings.as_vars``: ``proxy``, ``no_proxy``, ``direct_hosts`` (names and addresses that
    apt reaches without the proxy), ``ca``, ``mirror``, ``time_servers``. Raises ``UsageError``
    where the declaration is not valid.
    """
    site = site_of(fabric_host, "")
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


def array_declared(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The array as plain values, with what the declaration leaves out. Raises ``UsageError``."""
    try:
        return Array.model_validate(declared).model_dump(mode="json")
    except ValidationError as error:
        raise UsageError(str(error.errors()[0]["msg"]), where="fabric_host.array") from error


def array_plan(
    declared: Mapping[str, Any], lsblk_json: str, links: Sequence[str], fstab: str
) -> dict[str, object]:
    """What may be done so that the array is there, and what forbids it.

    ``declared``: as ``array_declared`` gives it. ``lsblk_json``: ``lsblk --json --bytes`` with
    NAME, KNAME, PATH, TYPE, SIZE, SERIAL, FSTYPE, LABEL, PTTYPE, MOUNTPOINTS. ``links``: where the
    declared drives lead, in order, then where the name of the array leads. ``fstab``: the text of
    /etc/fstab. Returns ``refusal`` (one line, or ""), ``wipe`` (drives to clear), ``create`` and
    ``format`` (argv, empty where there is nothing to do), ``device``, ``mount`` and ``unit`` (its
    systemd unit). Raises ``UsageError``.
    """
    array = Array.model_validate(array_declared(declared))
    plan: dict[str, object] = {
        "refusal": "", "wipe": [], "create": [], "format": [], "device": array.device,
        "mount": array.mount, "unit": mount_unit(array.mount),
    }  # fmt: skip
    other = _mounted_there(fstab, array)
    if other:
        why = f"/etc/fstab mounts {other} on {array.mount}: take that line out, or declare another"
        return plan | {"refusal": f"{why} array.mount"}
    drives = {str(drive["path"]): drive for drive in _drives(json.loads(lsblk_json))}
    *members, device = links
    found = [drives.get(link) for link in members]
    absent = [name for name, drive in zip(array.devices, found, strict=True) if drive is None]
    if absent:
        return plan | {"refusal": f"no such drive: {', '.join(absent)}"}
    here = [drive for drive in found if drive is not None]
    if len({drive["path"] for drive in here}) != len(here):
        return plan | {"refusal": "two of the declared names lead to one drive"}
    if all(_in_array(drive, array.level) for drive in here):
        return plan | _standing(array, here, device)
    return plan | _clearing(array, here)


def _mounted_there(fstab: str, array: Array) -> str:
    """What else /etc/fstab has on the place of the array, or ""."""
    lines = [line.split() for line in fstab.splitlines() if not line.lstrip().startswith("#")]
    place = array.mount.rstrip("/")
    there = [words[0] for words in lines if len(words) > 1 and words[1].rstrip("/") == place]
    return next((what for what in there if what != array.device), "")


def _standing(array: Array, drives: Sequence[Mapping[str, Any]], device: str) -> dict[str, object]:
    """Nothing to do, unless a run was cut off between the array and its filesystem."""
    above = [child for drive in drives for child in drive.get("children", [])]
    paths = sorted({str(child["path"]) for child in above})
    if paths != [device]:
        return {
            "refusal": f"the drives are in {', '.join(paths)}, and {array.device} is "
            f"{device}: give the array that name (mdadm.conf), or declare another one"
        }
    bare = not any(_holds(child) for child in above)
    return {"format": _mkfs(array, force=False)} if bare else {}


def _mkfs(array: Array, *, force: bool) -> list[str]:
    """Without ``force`` it refuses by itself where it finds a filesystem."""
    flag = {"xfs": "-f", "ext4": "-F"}[array.filesystem]
    return [f"mkfs.{array.filesystem}", *([flag] if force else []), array.device]


def _clearing(array: Array, drives: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Which drives are cleared for a new array; one with data and no consent forbids it all.

    A consent stands in the inventory long after it was used. So it does not count for a part of the
    declared array itself, which did not come up (a drive is missing, mdadm.conf was lost).
    """
    own = [str(drive["path"]) for drive in drives if _is_part(drive, array)]
    if own:
        return {
            "refusal": f"{', '.join(own)}: part of {array.device}, which does not run as declared. "
            "Nothing was cleared: see `cat /proc/mdstat`, `mdadm --assemble --scan`; to give its "
            "data up run `mdadm --zero-superblock` on each"
        }
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
    # The filesystem of an earlier array shows again where the new one has the same shape.
    agreed = all(drive.get("serial") in array.wipe_consent for drive in drives)
    return {"wipe": wipe, "create": argv, "format": _mkfs(array, force=agreed)}


def _is_part(drive: Mapping[str, Any], array: Array) -> bool:
    """mdadm labels the parts of an array ``HOST:NAME``; NAME is the last part of its device."""
    label = str(drive.get("label") or "").rpartition(":")[2]
    return drive.get("fstype") == "linux_raid_member" and label == array.device.rpartition("/")[2]


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
