"""Facts of the host around the driver: packages, modules, firmware, containers.

``None``: the text does not say. It never means zero or off.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class ModuleFile(Fact):
    """``modinfo nvidia``: the module FILE that the next load would take, not the loaded module.

    ``flavour`` follows the license: NVIDIA is proprietary, Dual MIT/GPL open; else None.
    """

    version: str
    line: int
    license: str | None = None
    flavour: Literal["open", "proprietary"] | None = None
    filename: str | None = None
    kernel: str | None = None
    dkms: bool | None = None
    srcversion: str | None = None
    signer: str | None = None


class Package(Model):
    """One package. ``installed`` is None where the listing does not tell the state.

    ``version`` is as printed; ``upstream`` is without epoch and without the distribution's part.
    """

    line: int
    name: str
    arch: str | None = None
    version: str | None
    upstream: str | None
    state: str | None = None  # dpkg: "ii", "hi", "rc", "iU" ...
    installed: bool | None = None
    held: bool = False
    probe: str = ""

    @property
    def half_done(self) -> bool:
        """Whether dpkg stopped in the middle of it: unpacked, half-configured, to be reinstalled.

        Waiting for a trigger (W, t) is installed but for a cache.
        """
        return self.state is not None and (self.state[1] in "HUF" or self.state.endswith("R"))


class Packages(Fact):
    """``dpkg -l``, ``dpkg-query -W`` or ``rpm -qa``. ``absent``: patterns without a package."""

    packages: tuple[Package, ...]
    absent: tuple[str, ...] = ()

    def installed(self, prefix: str = "") -> tuple[Package, ...]:
        """Installed packages whose name begins so."""
        return tuple(p for p in self.packages if p.installed and p.name.startswith(prefix))


class DkmsModule(Model):
    """One line of ``dkms status``. ``kernel`` is None for a module that is only added."""

    line: int
    name: str
    version: str
    kernel: str | None = None
    arch: str | None = None
    state: str
    note: str | None = None


class DkmsStatus(Fact):
    """``dkms status``. "installed" proves that it was built, not that it loads. May be empty."""

    modules: tuple[DkmsModule, ...]


class SecureBoot(Fact):
    """``mokutil --sb-state``. ``enabled`` is None where there is no EFI to ask.

    ``shim_validation`` is False where shim was told not to validate; else None.
    """

    efi: bool
    enabled: bool | None = None
    setup_mode: bool = False
    shim_validation: bool | None = None
    line: int = 1


class AptHolds(Fact):
    """``apt-mark showhold``: name to line. No output means that nothing is held."""

    lines: dict[str, int]


class AptVersion(Model):
    """One version that apt knows.

    ``sources``: repositories that offer it (``URI suite/component``), not dpkg's own list.
    ``installed``: the installed one; where two repositories have packages of one version that
    differ, they are two versions of one name to apt.
    """

    version: str
    priority: int
    sources: tuple[str, ...]
    installed: bool = False


class AptCandidate(Model):
    """One package of ``apt-cache policy``; None is printed as "(none)".

    ``versions`` is the version table, empty where it was not recorded.
    """

    line: int
    name: str
    installed: str | None
    candidate: str | None
    versions: tuple[AptVersion, ...] = ()

    def sources_of(self, version: str | None) -> tuple[str, ...]:
        """The repositories that offer this version; of several of one name the first, as apt."""
        return next((v.sources for v in self.versions if v.version == version), ())

    @property
    def sources_installed(self) -> tuple[str, ...]:
        """The repositories that offer what is installed."""
        marked = (v.sources for v in self.versions if v.installed)
        return next(marked, self.sources_of(self.installed))


class AptPolicy(Fact):
    """``apt-cache policy``. ``unknown``: names for which apt knows no package."""

    packages: tuple[AptCandidate, ...]
    unknown: tuple[str, ...] = ()


class CdiDevices(Fact):
    """``nvidia-ctk cdi list``: name to line. ``announced`` is the tool's own count."""

    lines: dict[str, int]
    announced: int | None = None
    complete: bool

    def named(self, kind: str = "nvidia.com/gpu") -> tuple[str, ...]:
        """What stands behind ``=`` for devices of that kind."""
        return tuple(n.partition("=")[2] for n in self.lines if n.partition("=")[0] == kind)


class DockerRuntimes(Fact):
    """Runtimes in ``docker info``."""

    runtimes: tuple[str, ...]
    default: str | None
    line: int = 1


class Virtualization(Fact):
    """``systemd-detect-virt``: ``none`` on bare metal."""

    kind: str
    virtual: bool
    line: int = 1


class CudaError(Fact):
    """An error of the CUDA runtime or driver. ``code`` is None where the words are unknown."""

    code: int | None
    text: str
    line: int = 1


class DeviceNode(Model):
    """One node below /dev. A plain ``ls`` tells neither mode nor numbers."""

    line: int
    path: str
    mode: str | None = None
    major: int | None = None
    minor: int | None = None


class DeviceNodes(Fact):
    """``ls -l /dev/nvidia*``. ``absent``: ls said that there is none."""

    nodes: tuple[DeviceNode, ...]
    absent: bool = False

    @property
    def gpu_nodes(self) -> tuple[str, ...]:
        """``/dev/nvidia0`` and so on."""
        return tuple(n.path for n in self.nodes if n.path.removeprefix("/dev/nvidia").isdigit())


SignatureCause = Literal[
    "files_mismatch",
    "invalid_signature",
    "no_signatures",
    "bundle_kind",
    "identity",
    "missing_file",
    "other",
]


class SignatureCheck(Fact):
    """``model_signing verify`` or ``cosign verify``. ``tlog_skipped``: not checked against it."""

    tool: Literal["model_signing", "cosign"]
    ok: bool
    cause: SignatureCause | None = None
    text: str
    tlog_skipped: bool = False
    line: int
