"""What of this part goes into a node's image, where, and what must make way for it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

NODE = Path(__file__).parent / "node"


class Install(NamedTuple):
    """One file: ``source`` here, ``target`` in the image, its mode (owner root)."""

    source: Path
    target: str
    mode: int


class Divert(NamedTuple):
    """One program of the distribution that gives way.

    ``path`` is the path as its package has it (before the merged /usr). In the image:
    `dpkg-divert --local --rename --divert PATH.distrib --add PATH`, then ``launcher`` as PATH,
    mode 0755.
    """

    path: str
    tool: str

    @property
    def launcher(self) -> str:
        """The text of the script in the place of the program."""
        return f'#!/bin/sh\nexec /usr/lib/lab/vendor {self.tool} "$@"\n'


FILES = (
    Install(NODE / "vendor", "/usr/lib/lab/vendor", 0o755),
    *(
        Install(path, f"/usr/lib/lab/vendorlib/{path.name}", 0o644)
        for path in sorted(NODE.glob("*.py"))
    ),
)
#: Of the packages kmod (depmod and modinfo stay the real ones) and systemd: what would ask the
#: host's kernel to load a module.
DIVERSIONS = (
    Divert("/sbin/modprobe", "modprobe"),
    Divert("/sbin/insmod", "insmod"),
    Divert("/sbin/rmmod", "rmmod"),
    Divert("/sbin/lsmod", "lsmod"),
    Divert("/bin/lsmod", "lsmod"),
    Divert("/lib/systemd/systemd-modules-load", "modules-load"),
)
#: Packages that these files need in the image.
NEEDS = ("python3", "kmod", "openssl")
#: To be run in the node at each start, when /run/lab/node.json is there and before systemd starts.
AT_BOOT = ("/usr/lib/lab/vendor", "coldplug")
#: Units to be masked: udev would load modules for the host's devices into the host's kernel.
MASK = ("systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
        "systemd-udev-trigger.service")  # fmt: skip
