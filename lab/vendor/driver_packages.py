"""The vendor's packages, one set for each driver version, under the names of the CUDA repository.

Names and rules: facts of the CUDA repository (debian12 has the names of Ubuntu's) and the vendor's
list of renames for branch 590. Up to 575 fabric manager, NSCQ, IMEX and NVSDM carry the branch in
their name, the driver's own parts up to 580. The driver's parts depend on each other exactly; the
fabric manager does not depend on the driver, so that a mismatch can be installed. Where a daemon's
unit or a file's place is not known from a recording it is the plainest that works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.vendor import units
from lab.vendor.deb import Deb, Entry
from lab.vendor.node.driver import PARTS, UDEV_RULE

LIB = "/usr/lib/x86_64-linux-gnu"
#: The last branches whose number stands in the names of the driver's parts and of the fabric's.
LAST_NAMED_DRIVER = 580
LAST_NAMED_FABRIC = 575
NVLSM = "2025.10.14-1"
NVLSM_MIN = "2025.10.12"


@dataclass(frozen=True)
class Release:
    """One published driver. ``pinned``: the vendor has a pinning package for this version."""

    version: str
    revision: str = "1"
    flavours: tuple[str, ...] = ("open", "proprietary")
    pinned: bool = True

    @property
    def full(self) -> str:
        """The version of its packages."""
        return f"{self.version}-{self.revision}"

    @property
    def branch(self) -> int:
        """580 of 580.173.02."""
        return int(self.version.partition(".")[0])

    def driver(self, name: str) -> str:
        """The name of one of the driver's own parts."""
        return f"{name}-{self.branch}" if self.branch <= LAST_NAMED_DRIVER else name

    def fabric(self, name: str) -> str:
        """The name of fabric manager, NSCQ, NVSDM or IMEX."""
        return f"{name}-{self.branch}" if self.branch <= LAST_NAMED_FABRIC else name

    def kind(self, name: str, flavour: str) -> str:
        """One of the driver's parts that there is once for each kind of module.

        nvidia-dkms-580-open, nvidia-dkms-580, nvidia-dkms-open, nvidia-dkms.
        """
        return self.driver(name) + ("-open" if flavour == "open" else "")


#: What is published. 570.86.15 has no pinning package; 620 has no proprietary module.
RELEASES = (
    Release("570.86.15", pinned=False),
    Release("570.172.08"),
    Release("580.126.09"),
    Release("580.173.02"),
    Release("595.91.07"),
    Release("620.70.06", flavours=("open",)),
)
#: A second revision of one version, in a repository of its own: for a driver that moves.
LATER = (Release("580.173.02", revision="2"),)

Doubles = Mapping[str, bytes]


def _launcher(tool: str, version: str) -> Entry:
    """Python itself, so that the process list shows the program by its own name."""
    text = (
        '#!/usr/bin/python3\nimport sys\n\nsys.path.insert(0, "/usr/lib/lab")\n'
        "from vendorlib.main import main\n\n"
        f'sys.exit(main(["{tool}", "{version}", *sys.argv[1:]]))\n'
    )
    return Entry(text.encode(), 0o755)


def _readme(name: str) -> dict[str, Entry]:
    return {f"/usr/share/doc/{name}/README": Entry(b"Stand-in of the lab.\n")}


class Set:
    """Builds the packages of one release."""

    def __init__(self, release: Release, doubles: Doubles) -> None:
        self.release = release
        self.doubles = doubles

    def _deb(
        self,
        name: str,
        description: str,
        depends: str = "",
        *,
        relations: Mapping[str, str] | None = None,
        files: Mapping[str, Entry] | None = None,
        scripts: Mapping[str, str] | None = None,
    ) -> Deb:
        """One package of this release's version; without files of its own it has a README."""
        fields = {"Depends": depends, **(relations or {})}
        here = files or _readme(name)
        return Deb(name, self.release.full, description, fields, here, scripts or {})

    def _exact(self, *names: str) -> str:
        return ", ".join(f"{name} (= {self.release.full})" for name in names)

    def _branch(self, base: str, last: int = LAST_NAMED_DRIVER) -> dict[str, str]:
        """Parts of two branches do not stand beside each other, whichever of them is older.

        ``last``: up to this branch the part carries the branch in its name.
        """
        if self.release.branch <= last:
            return _only(base)
        older = sorted({one.branch for one in RELEASES if one.branch <= last})
        names = ", ".join(f"{base}-{branch}" for branch in older)
        return {"Conflicts": names, "Replaces": names}

    def _flavour(self, base: str, flavour: str) -> dict[str, str]:
        """Of the two kinds of module of one branch one is installed at a time.

        Branches are kept apart by nvidia-kernel-common: apt resolves no conflict deeper down.
        """
        others = [kind for kind in self.release.flavours if kind != flavour]
        names = ", ".join(self.release.kind(base, kind) for kind in others)
        return {"Conflicts": names, "Replaces": names}

    def all(self) -> Iterator[Deb]:
        """Every package of the release."""
        yield from self._userspace()
        for flavour in self.release.flavours:
            yield from self._kernel(flavour)
        yield from self._metas()
        yield from self._fabric()
        if self.release.pinned:
            yield pinning(self.release.version, f"{self.release.version}-*", self.release.full)

    def _userspace(self) -> Iterator[Deb]:
        release, name = self.release, self.release.driver
        libraries: dict[str, Entry] = {}
        for soname in ("libnvidia-ml.so.1", "libcuda.so.1"):
            real = f"{soname[:-2]}.{release.version}"
            libraries[f"{LIB}/{real}"] = Entry(self.doubles.get(soname, b""))
            libraries[f"{LIB}/{soname}"] = Entry(link=real)
        yield self._deb(
            name("libnvidia-cfg1"), "NVIDIA binary OpenGL/GLX configuration library",
            relations=self._branch("libnvidia-cfg1"),
        )  # fmt: skip
        yield self._deb(
            name("nvidia-kernel-common"), "Shared files used with the kernel module",
            relations=self._branch("nvidia-kernel-common"),
            files={UDEV_RULE: Entry(units.UDEV)},
        )  # fmt: skip
        yield self._deb(
            name("libnvidia-compute"), "NVIDIA libcompute package",
            self._exact(name("libnvidia-cfg1")), files=libraries,
            scripts={"triggers": "activate-noawait ldconfig\n"},
            relations=self._branch("libnvidia-compute"),
        )  # fmt: skip
        smi = f'#!/bin/sh\nexec /usr/lib/lab/standin {release.version} nvidia-smi "$@"\n'
        yield self._deb(
            name("nvidia-utils"), "NVIDIA driver support binaries",
            f"{self._exact(name('libnvidia-compute'))}, python3",
            files={"/usr/bin/nvidia-smi": Entry(smi.encode(), 0o755)},
            relations=self._branch("nvidia-utils"),
        )  # fmt: skip
        yield self._deb(
            "nvidia-persistenced", "daemon to maintain persistent software state", "python3",
            files={
                "/usr/bin/nvidia-persistenced": _launcher("persistenced", release.version),
                "/lib/systemd/system/nvidia-persistenced.service": Entry(units.PERSISTENCED),
            },
            scripts=units.scripts("nvidia-persistenced.service", enable=True),
        )  # fmt: skip
        yield self._deb(
            name("nvidia-compute-utils"), "NVIDIA compute utilities",
            self._exact(name("libnvidia-compute"), "nvidia-persistenced"),
            relations=self._branch("nvidia-compute-utils"),
        )  # fmt: skip

    def _kernel(self, flavour: str) -> Iterator[Deb]:
        release, suffix = self.release, "-open" if flavour == "open" else ""
        source, dkms = (
            release.kind("nvidia-kernel-source", flavour),
            release.kind("nvidia-dkms", flavour),
        )
        common = release.driver("nvidia-kernel-common")
        folder = f"/usr/src/nvidia-{release.version}"
        yield self._deb(
            source, "NVIDIA kernel source package", self._exact(common),
            relations=self._flavour("nvidia-kernel-source", flavour),
            files={f"{folder}/dkms.conf": Entry(_dkms_conf(release.version, flavour).encode()),
                   f"{folder}/Kbuild": Entry(b"# stand-in of the lab\n")},
        )  # fmt: skip
        yield self._deb(
            dkms, f"NVIDIA DKMS package{' (open kernel module)' if suffix else ''}",
            f"{self._exact(common, source)}, dkms",
            relations=self._flavour("nvidia-dkms", flavour),
            scripts={
                "postinst": units.DKMS_POSTINST.format(version=release.version),
                "prerm": units.DKMS_PRERM.format(version=release.version),
            },
        )  # fmt: skip

    def _metas(self) -> Iterator[Deb]:
        release, name = self.release, self.release.driver
        for flavour in release.flavours:
            driver = release.kind("nvidia-driver", flavour)
            parts = [name(part) for part in
                     ("nvidia-kernel-common", "libnvidia-compute", "nvidia-utils",
                      "nvidia-compute-utils")]  # fmt: skip
            yield self._deb(
                driver, "NVIDIA driver metapackage",
                self._exact(release.kind("nvidia-dkms", flavour), *parts),
                relations=self._flavour("nvidia-driver", flavour),
            )  # fmt: skip
            meta = "nvidia-open" if flavour == "open" else "cuda-drivers"
            yield self._deb(name(meta), "NVIDIA driver meta-package", self._exact(driver))
            if name(meta) != meta:
                yield self._deb(meta, "NVIDIA driver meta-package", self._exact(name(meta)))

    def _fabric(self) -> Iterator[Deb]:
        release, name = self.release, self.release.fabric
        manager = name("nvidia-fabricmanager")
        unit = "/lib/systemd/system/nvidia-fabricmanager.service"
        yield self._deb(
            manager, "NVIDIA Fabric Manager for NVSwitch systems", "python3",
            relations=self._branch("nvidia-fabricmanager", LAST_NAMED_FABRIC),
            files={
                "/usr/bin/nv-fabricmanager": _launcher("fabricmanager", release.version),
                "/usr/share/nvidia/nvswitch/fabricmanager.cfg": Entry(units.FABRIC_CONFIG),
                unit: Entry(units.FABRIC_MANAGER),
            },
            scripts=units.scripts("nvidia-fabricmanager.service", enable=False),
        )  # fmt: skip
        names = {part: name(part) for part in ("libnvidia-nscq", "libnvsdm", "nvidia-imex")}
        for part, full in names.items():
            yield self._deb(full, f"NVIDIA {part}", relations=self._branch(part, LAST_NAMED_FABRIC))
        if release.branch <= LAST_NAMED_FABRIC:
            meta = f"cuda-drivers-fabricmanager-{release.branch}"
            driver = f"cuda-drivers-{release.branch}"
            yield self._deb(meta, "NVIDIA driver and Fabric Manager", self._exact(manager, driver))
        yield self._deb(
            self.release.driver("nvlink5"), "NVIDIA NVLink 5 meta-package",
            self._exact(manager, *names.values(), release.kind("nvidia-dkms", "open"))
            + f", nvlsm (>= {NVLSM_MIN})",
        )  # fmt: skip


def _only(name: str) -> dict[str, str]:
    """Packages of two branches own the same files: one at a time."""
    return {"Provides": name, "Conflicts": name, "Replaces": name}


def _dkms_conf(version: str, flavour: str) -> str:
    lines = [
        'PACKAGE_NAME="nvidia"', f'PACKAGE_VERSION="{version}"', 'AUTOINSTALL="yes"',
        f'MAKE[0]="/usr/lib/lab/vendor build-modules ${{kernelver}} {version} {flavour}"',
        'CLEAN="true"',
    ]  # fmt: skip
    for number, part in enumerate(PARTS):
        lines += [
            f'BUILT_MODULE_NAME[{number}]="{part.name}"',
            f'DEST_MODULE_LOCATION[{number}]="/kernel/drivers/char/drm"',
            f'STRIP[{number}]="no"',
        ]
    return "\n".join(lines) + "\n"


def pinning(what: str, glob: str, version: str) -> Deb:
    """nvidia-driver-pinning-WHAT: a preferences file, priority 1000, one such package at a time.

    The names that the vendor's file covers are not known from a recording; these are the names of
    this repository that carry a driver's version.
    """
    names = "*nvidia* libnvidia* cuda-drivers* libnvsdm* nvlink5*"
    text = f"Package: {names}\nPin: version {glob}\nPin-Priority: 1000\n"
    return Deb(
        f"nvidia-driver-pinning-{what}", version, f"NVIDIA driver pinning to {what}",
        _only("nvidia-driver-pinning"),
        {"/etc/apt/preferences.d/nvidia-driver-pinning": Entry(text.encode())}, arch="all",
    )  # fmt: skip


def extras(releases: tuple[Release, ...]) -> Iterator[Deb]:
    """nvlsm, versioned by date, and the pinning package of each branch."""
    yield Deb("nvlsm", NVLSM, "NVIDIA NVLink subnet manager", {}, _readme("nvlsm"))
    for branch in sorted({release.branch for release in releases}):
        newest = [release for release in releases if release.branch == branch][-1]
        yield pinning(str(branch), f"{branch}.*", newest.full)
