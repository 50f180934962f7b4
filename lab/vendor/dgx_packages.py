"""What a DGX is delivered with: driver, fabric manager, kernel and settings of one repository.

Names: facts of DGX OS 7 (NVIDIA/deepops roles/nvidia-dgx) and, for what sets the system up, of DGX
OS 6 (its user guide, appendix C). Not known from a recording, and so the plainest that works: what
is in the packages that set the system up, their versions, and that the module is built by DKMS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.vendor import kernel_packages as kernel
from lab.vendor.deb import Deb, Entry
from lab.vendor.driver_packages import Doubles, Release, Set

#: Where it lies below apt/: the path of the vendor's repository of Ubuntu 24.04.
PATH = "dgx/baseos/ubuntu/noble"
#: R580 is what DGX OS 7 ships; of the patches the one that the default stack has.
RELEASE = Release("580.173.02", flavours=("open",), pinned=False)
#: Meta packages of the CUDA repository.
_ELSEWHERE = ("nvidia-open", "cuda-drivers", "nvlink5")
_SYSTEM_VERSION = "7.0-1"

_NOUVEAU = b"blacklist nouveau\noptions nouveau modeset=0\n"
_LIMITS = b"".join(
    f"{who} {kind} {item} {value}\n".encode()
    for who in ("*", "root")
    for kind in ("soft", "hard")
    for item, value in (("memlock", "unlimited"), ("nofile", "1048576"))
)
_NO_UPDATES = b'APT::Periodic::Update-Package-Lists "0";\nAPT::Periodic::Unattended-Upgrade "0";\n'
_POST = '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n'
#: Name, what it needs, what it brings, what it does when it is installed.
_SYSTEM: tuple[tuple[str, str, Mapping[str, bytes], str], ...] = (
    ("nvidia-system-core", "initramfs-tools", {"/etc/modprobe.d/nvidia-dgx.conf": _NOUVEAU},
     "update-initramfs -u\n"),
    ("nvidia-system-utils", "nvidia-system-core", {}, ""),
    ("nvidia-system-extra", "nvidia-system-core", {}, ""),
    ("nv-limits", "", {"/etc/security/limits.d/nv-limits.conf": _LIMITS}, ""),
    ("nv-update-disable", "", {"/etc/apt/apt.conf.d/99nv-update-disable": _NO_UPDATES}, ""),
    ("nvidia-peermem-loader", "",
     {"/etc/modules-load.d/nvidia-peermem-loader.conf": b"nvidia-peermem\n"}, ""),
    ("nvidia-fm-enable", "nvidia-fabricmanager", {},
     "systemctl enable nvidia-fabricmanager.service\n"),
    ("nv-persistence-mode", "nvidia-persistenced", {},
     "systemctl enable nvidia-persistenced.service\n"),
    *((name, "", {}, "") for name in (
        "nvidia-acs-disable", "nv-iommu-pt", "nvidia-relaxed-ordering-gpu",
        "nvidia-relaxed-ordering-nvme", "nv-cpu-governor")),
)  # fmt: skip
_BOARD = "dgx-h100-system-configurations"
#: What the delivered system is: with these come all the others.
INSTALLED = ("nvidia-driver-580-open", "libnvidia-nscq", "linux-nvidia", _BOARD)


def driver(doubles: Doubles) -> Iterator[Deb]:
    """Driver, fabric manager, NSCQ and their like, without the CUDA repository's own packages."""
    for deb in Set(RELEASE, doubles).all():
        if not deb.name.startswith(_ELSEWHERE):
            yield deb


def system() -> Iterator[Deb]:
    """The packages that set a DGX H100 up."""
    for name, needs, files, does in _SYSTEM:
        here = {path: Entry(data) for path, data in files.items()} or _readme(name)
        scripts = {"postinst": _POST + does} if does else {}
        yield _deb(name, f"{name} of DGX OS", needs, here, scripts)
    yield _deb(_BOARD, "what a DGX H100 is set up with",
               ", ".join(name for name, *_ in _SYSTEM), _readme(_BOARD), {})  # fmt: skip


def kernels(release: str, sign: kernel.Sign) -> Iterator[Deb]:
    """The running kernel alone, and the meta package of the vendor's flavour."""
    wanted = {kernel.package_name(kind, release) for kind in ("image", "headers")}
    parts = [deb for deb in kernel.kernels(release, sign) if deb.name in wanted]
    yield from parts
    yield kernel.initramfs_tools()
    depends = ", ".join(f"{deb.name} (= {deb.version})" for deb in parts)
    yield Deb("linux-nvidia", parts[0].version, "NVIDIA kernel of DGX OS (meta-package)",
              {"Depends": depends}, _readme("linux-nvidia"), section="kernel")  # fmt: skip


def _deb(
    name: str, says: str, needs: str, files: Mapping[str, Entry], scripts: Mapping[str, str]
) -> Deb:
    return Deb(name, _SYSTEM_VERSION, says, {"Depends": needs}, files, scripts, arch="all")


def _readme(name: str) -> dict[str, Entry]:
    return {f"/usr/share/doc/{name}/README": Entry(b"Stand-in of the lab.\n")}
