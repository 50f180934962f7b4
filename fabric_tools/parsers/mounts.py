"""Mounts now and at boot (`findmnt -J`), stable names of disks, and the node's own addresses.

Evidence: findmnt of util-linux 2.38 and find of Debian 12 (real captures, the names below /dev/md
and /dev/disk/by-id follow udev's rules); iproute2's JSON as in ``ip_link_json``.
"""

from __future__ import annotations

import re
from typing import Any

from fabric_tools.models.base import Fact
from fabric_tools.models.network import IpLinks
from fabric_tools.models.os_state import (
    Addresses,
    DeviceLinks,
    Fstab,
    Mount,
    Mounts,
    Setting,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    list_of,
    load_json,
    numbered,
    object_of,
    read_lines,
    text_of,
)

_MAX_MOUNTS = 20_000
_LINK = re.compile(r"(/dev/\S{1,300}) (\S{1,300})$")


def _mounts(probe: str, text: str) -> tuple[Mount, ...]:
    whole = object_of(probe, load_json(probe, text), "the text")
    lines = Finder(text)
    found: list[Mount] = []
    waiting: list[Any] = list(reversed(list_of(probe, whole.get("filesystems"), "filesystems")))
    while waiting:
        item = object_of(probe, waiting.pop(), "a mount")
        target = text_of(probe, item, "target")
        if target is None or len(found) >= _MAX_MOUNTS:
            raise ParseError(probe, 0, "a mount without target, or too many")
        options = text_of(probe, item, "options") or ""
        found.append(
            Mount(
                line=lines.key("target"),
                target=target,
                source=text_of(probe, item, "source"),
                fstype=text_of(probe, item, "fstype"),
                options=tuple(options.split(",")) if options else (),
            )
        )
        waiting += reversed(list_of(probe, item.get("children") or [], "children"))
    return tuple(found)


def parse_findmnt(text: str) -> Mounts:
    """What is mounted; the root at least."""
    mounts = _mounts("findmnt", text)
    if not any(mount.target == "/" for mount in mounts):
        raise ParseError("findmnt", 0, "nothing is mounted at /")
    return Mounts(mounts=mounts)


def parse_fstab(text: str) -> Fstab:
    """What is to be mounted. findmnt prints nothing where the file has no entry."""
    return Fstab(mounts=_mounts("fstab", text) if text.strip() else ())


def parse_device_links(text: str) -> DeviceLinks:
    """``NAME TARGET`` a line; the kernel's name is the last part of the target. May be empty."""
    names: dict[str, Setting] = {}
    for number, line in numbered(read_lines("device_links", text)):
        match = _LINK.match(line.strip())
        if match is None:
            raise ParseError("device_links", number, f"not a link: {line.strip()[:60]!r}")
        names[match[1]] = Setting(line=number, value=match[2].rpartition("/")[2])
    if text and not text.endswith("\n"):
        raise ParseError("device_links", 0, "the last line is cut")
    return DeviceLinks(names=names)


def addresses_of_links(fact: Fact) -> Addresses:
    """The addresses that another node may use."""
    assert isinstance(fact, IpLinks)
    found = [
        address.partition("/")[0]
        for link in fact.links
        for address in link.addresses
        if not address.lower().startswith("fe80:")
    ]
    if not found:
        raise ParseError("ip_addr", 0, "no address is told (ip link, not ip addr?)")
    return Addresses(addresses=tuple(dict.fromkeys(found)))
