"""One line for everything on the node that a role may change: packages, files, settings, units.

What changes by itself is left out: sessions, caches, logs, statistics.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

FOLDERS = ("/etc", "/usr/local", "/opt", "/srv", "/boot", "/root", "/var/lib/dkms")
SETTINGS = ("/proc/sys/vm", "/proc/sys/fs", "/proc/sys/net/ipv4", "/proc/sys/net/core")
# Counters, and what the kernel or a remote shell writes by itself.
MOVING = {"dentry-state", "file-nr", "inode-nr", "inode-state", ".ansible", ".ssh", ".cache"}


def said(*argv: str) -> list[str]:
    """The lines of a program; one that fails must not look like nothing."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def files(folder: str) -> list[str]:
    """Every file with kind, mode, owner and content."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in MOVING]
        for name in [*folders, *names]:
            path = Path(place, name)
            if name in MOVING:
                continue
            about = path.lstat()
            content = os.readlink(path) if path.is_symlink() else ""
            if path.is_file() and not path.is_symlink():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(f"{path} {about.st_mode:o} {about.st_uid}:{about.st_gid} {content}")
    return found


def settings(folder: str) -> list[str]:
    """Kernel settings that can be read."""
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names if name not in MOVING):
            try:
                found.append(f"{path} {path.read_text().strip()}")
            except OSError:
                continue
    return found


def units() -> list[str]:
    """What is enabled, and which services run; a session of a user is no change."""
    enabled = said("systemctl", "list-unit-files", "--no-legend", "--no-pager")
    running = said("systemctl", "list-units", "--type=service", "--state=active,failed",
                   "--no-legend", "--no-pager", "--plain")  # fmt: skip
    names = [line.split()[0] for line in running]
    return [f"file {' '.join(line.split())}" for line in enabled] + [
        f"active {name}" for name in names if not name.startswith("user")
    ]


def main() -> None:
    """Print all of it, sorted."""
    lines = said("dpkg-query", "-W", "-f", "${Package} ${Version} ${Status}\\n")
    mounts = said("findmnt", "-rn", "-o", "TARGET,SOURCE,FSTYPE")
    # The kernel's own file systems are mounted by whoever keeps the machine.
    lines += units() + [line for line in mounts if not line.startswith(("/sys", "/proc", "/run"))]
    lines += sorted(path.name for path in Path("/sys/module").iterdir())
    for folder in FOLDERS:
        lines += files(folder)
    for folder in SETTINGS:
        lines += settings(folder)
    print("\n".join(sorted(lines)))


main()
