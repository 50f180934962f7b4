"""What of the lab stands in a node: files of the image, and programs whose place it takes."""

from __future__ import annotations

from typing import NamedTuple

from lab.places import LAB
from lab.standins import files as standins
from lab.vendor import files as vendor


class File(NamedTuple):
    """A file of the image, owned by root."""

    place: str
    data: bytes
    mode: int


_INSIDE = (("boot", 0o755), ("tell", 0o755), ("kernel-line", 0o755), ("services.py", 0o644))

#: chronyd must never set the clock, which is the host's. Debian's unit asks for the right to.
_CHRONY = b'DAEMON_OPTS="-F 1 -x"\n'
_CHRONY_UNIT = b"[Unit]\nConditionCapability=\n"


def files() -> list[File]:
    """Every file that is put into the image, launchers included."""
    found = [
        File(f"/usr/lib/lab/{name}", (LAB / "inside" / name).read_bytes(), mode)
        for name, mode in _INSIDE
    ]
    found += [File(place, text.encode(), mode) for place, (text, mode) in standins.files().items()]
    found += [File(one.target, one.source.read_bytes(), one.mode) for one in vendor.FILES]
    found += [File(one.path, one.launcher.encode(), 0o755) for one in vendor.DIVERSIONS]
    found += [
        File("/usr/lib/lab/before-systemd", _before_systemd(), 0o755),
        File("/etc/default/chrony", _CHRONY, 0o644),
        File("/etc/systemd/system/chrony.service.d/lab.conf", _CHRONY_UNIT, 0o644),
        File("/etc/motd", b"A node of the lab: what it says of GPUs is simulated.\n", 0o644),
    ]
    return found


def _before_systemd() -> bytes:
    # What was copied in before the first start belongs to root.
    own = "chown -R ops:ops /home/ops"
    return f"#!/bin/sh\nset -e\n{own}\nexec {' '.join(vendor.AT_BOOT)}\n".encode()


def diversions() -> list[str]:
    """Programs of the distribution that give way."""
    return [*standins.DIVERSIONS, *(one.path for one in vendor.DIVERSIONS)]
