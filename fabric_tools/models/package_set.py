"""What a stack means in packages on one operating system."""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Model
from fabric_tools.models.stack import ModuleKind, PackageSource, PinMethod, Text


class Package(Model):
    """One package to install.

    ``version``: the exact upstream version, of which the installer finds one package revision or
    refuses. None: versioned apart from the driver and not fixed by the lock; then it is at least
    ``version_min`` and is held at what was installed. ``role``: what it is for.
    """

    name: Text
    role: Literal[
        "driver", "fabric_manager", "nscq", "persistence", "nvlink5", "nvsdm", "nvlsm", "imex"
    ]
    version: str | None
    version_min: str | None = None


class Pin(Model):
    """How the versions are kept from moving.

    ``package``: the vendor's pinning package. ``globs``: names that a pin must cover; ``version``:
    the upstream version that they are pinned to; ``apart``: names that are held at what is
    installed, because they are not of the driver's version. ``hold``: hold packages as well.
    """

    method: PinMethod
    package: str | None = None
    version: str | None = None
    globs: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    hold: bool = False


class PackageSet(Model):
    """What must be installed on one node, and how it is kept there.

    ``owner`` vendor: DGX OS, nothing is installed and nothing pinned, only verified. ``stream``:
    the module stream of dnf to enable first. ``prebuilt_modules``: signed modules for the archive's
    kernels, ``{flavour}`` stands for the running kernel's. ``notes``: what is unverified.
    """

    owner: Literal["fabric-tools", "vendor"]
    source: PackageSource
    driver_version: str
    module: ModuleKind
    packages: tuple[Package, ...] = ()
    stream: str | None = None
    prebuilt_modules: str | None = None
    pin: Pin
    notes: tuple[str, ...] = ()
