"""The image of a node: Debian 12 by mmdebstrap, then the files and diversions of the lab.

The first layer takes half a minute and needs Debian's packages; it is kept by the hash of what
went into it. The second one is quick and follows the files in this checkout.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.engine import Engine
from lab.errors import LabError
from lab.files import diversions, files
from lab.mirror import build_mirror
from lab.places import CACHE
from lab.run import run

SUITE = "bookworm"
#: What a fresh server has: enough for sshd, Ansible and apt. Roles bring the rest from the mirror.
BASE = (
    "systemd", "systemd-sysv", "dbus", "udev", "python3", "python3-apt", "python3-debian",
    "iproute2", "iputils-ping", "openssh-server", "sudo", "kmod", "procps", "ca-certificates",
    "gpgv", "gpg", "gpg-agent", "e2fsprogs", "openssl",
)  # fmt: skip
#: What the mirror of the lab holds of Debian, with all that it depends on.
POOL = (
    "chrony", "mdadm", "xfsprogs", "nvme-cli", "lsof", "psmisc", "ethtool", "pciutils", "numactl",
    "mokutil", "jq", "rsync", "curl", "gnupg", "logrotate", "cron", "acl", "unattended-upgrades",
    "lldpd", "linux-base",
)  # fmt: skip

Progress = Callable[[str], None]


def _base_hash() -> str:
    text = "\n".join((SUITE, *BASE, "--", *POOL, _HOOKS))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


_HOOKS = """#!/bin/sh
set -eu
chroot "$1" systemctl mask -q apt-daily.timer apt-daily-upgrade.timer systemd-udevd.service \\
    systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udev-trigger.service \\
    systemd-timesyncd.service e2scrub_reap.service e2scrub_all.timer fstrim.timer getty.target
rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/machine-id"
: >"$1/etc/machine-id"
chroot "$1" useradd --create-home --shell /bin/bash ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/ops"
chmod 440 "$1/etc/sudoers.d/ops"
"""


def pool_folder() -> Path:
    """Where the Debian packages lie that the mirror serves."""
    return CACHE / f"pool-{_base_hash()}"


def build_base(engine: Engine, progress: Progress) -> str:
    """The first layer and the pool of Debian packages; returns its tag."""
    tag = f"localhost/fabric-lab-base:{_base_hash()}"
    pool = pool_folder()
    if engine.has_image(tag) and (pool / ".whole").exists():
        return tag
    if shutil.which("mmdebstrap") is None:
        raise LabError("mmdebstrap is not installed", "apt-get install mmdebstrap")
    progress("image: a Debian root from packages (half a minute, kept for next time)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        hook = folder / "hook"
        hook.write_text(_HOOKS)
        hook.chmod(0o755)
        (folder / "pool").mkdir(mode=0o777)
        fetch = 'chroot "$1" apt-get -qq -y --no-install-recommends -d install ' + " ".join(POOL)
        run(
            ["mmdebstrap", "--variant=minbase", "--aptopt=Acquire::Languages \"none\"",
             f"--include={','.join(BASE)}", f"--customize-hook={hook} \"$1\"",
             f"--customize-hook={fetch}",
             f'--customize-hook=cp "$1"/var/cache/apt/archives/*.deb {folder}/pool/',
             # Last: a bare node has no source of packages, and the mirror is the only one.
             '--customize-hook=: >"$1"/etc/apt/sources.list; rm -f "$1"/etc/apt/sources.list.d/*',
             SUITE, folder / "root.tar"],
            timeout_s=900,
        )  # fmt: skip
        engine("import", folder / "root.tar", tag, timeout_s=300)
        if pool.exists():
            shutil.rmtree(pool)
        (folder / "pool").chmod(0o755)
        (folder / "pool" / ".whole").touch()
        (folder / "pool").rename(pool)
    return tag


def build_image(engine: Engine, progress: Progress) -> str:
    """The image of a node; returns its tag."""
    base = build_base(engine, progress)
    repository = build_mirror(engine, pool_folder())
    kernel = [
        deb
        for deb in sorted(repository.debian_kernel.glob("*.deb"))
        if deb.name.startswith((f"linux-image-{repository.kernel}_", "initramfs-tools_"))
    ]
    digest = hashlib.sha256(base.encode() + _STEPS.encode())
    for file in files():
        digest.update(f"{file.place} {file.mode:o}\n".encode() + file.data)
    for deb in kernel:
        digest.update(deb.read_bytes())
    tag = f"localhost/fabric-lab-node:{digest.hexdigest()[:12]}"
    if engine.has_image(tag):
        return tag
    progress("image: the files of the lab")
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        for file in files():
            # A folder /bin in the copy would take the place of the link to /usr/bin.
            place = re.sub(r"^/(bin|sbin|lib)/", r"/usr/\1/", file.place)
            target = folder / "root" / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)
            target.chmod(file.mode)
        (folder / "debs").mkdir()
        for deb in kernel:
            shutil.copy(deb, folder / "debs")
        lines = [
            f"dpkg-divert --quiet --local --rename --divert {place}.distrib --add {place}"
            for place in diversions()
        ]
        (folder / "divert").write_text("\n".join(["set -eu", *lines]) + "\n")
        (folder / "Containerfile").write_text(f"FROM {base}\n{_STEPS}")
        engine(
            "build", "--network", "none", *engine.options, "-t", tag,
            "-f", folder / "Containerfile", folder, timeout_s=300,
        )  # fmt: skip
    return tag


_STEPS = """COPY divert /tmp/divert
RUN sh /tmp/divert && rm /tmp/divert
COPY root/ /
COPY debs/ /tmp/debs/
RUN dpkg -i /tmp/debs/*.deb && rm -r /tmp/debs
ENTRYPOINT ["/usr/lib/lab/boot"]
"""
