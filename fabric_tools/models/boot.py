"""Facts of the next boot, and of what may move packages before it.

``None``: it could not be told. It never means no.
"""

from __future__ import annotations

from fabric_tools.models.base import Fact, Model
from fabric_tools.models.system import Package


class BootModule(Model):
    """The nvidia module file of one kernel. Empty strings where modinfo prints nothing."""

    filename: str
    version: str
    license: str = ""
    signer: str = ""
    sig_id: str = ""

    @property
    def dkms(self) -> bool:
        """Whether DKMS built it here; a precompiled one lies elsewhere in the kernel's folder."""
        return "/dkms/" in self.filename


class BootKernel(Model):
    """One kernel of the node. ``headers``: the folder that modules are built against is whole.

    ``module_note`` says why ``module`` is None: ``not found``, ``not asked`` (neither the running
    nor the next kernel), or what modinfo said.
    """

    release: str
    image: str | None
    initramfs: str | None
    modules: bool
    headers: bool
    module: BootModule | None
    module_note: str = ""


class ConfLine(Model):
    """One line of the modprobe configuration that speaks of nouveau."""

    file: str
    line: str

    @property
    def forbids(self) -> bool:
        """Whether it keeps nouveau from being loaded by itself."""
        words = self.line.split()
        return words[:2] == ["blacklist", "nouveau"] or (
            words[:2] == ["install", "nouveau"] and words[2:3] in (["/bin/false"], ["/bin/true"])
        )


class Initramfs(Model):
    """The next kernel's initramfs. ``conf``: names of the modprobe files inside it."""

    path: str | None
    nouveau: bool | None
    conf: tuple[str, ...] = ()
    note: str = ""


class NextBoot(Fact):
    """What the next boot will be. ``next`` is None where it cannot be told; ``how`` says why.

    ``reboot_required``: packages that asked for a reboot, None where none is pending.
    ``lines``: the line of some keys, for evidence.
    """

    running: str
    next: str | None
    how: str
    efi: bool
    kernels: tuple[BootKernel, ...]
    modprobe: tuple[ConfLine, ...]
    initramfs: Initramfs
    reboot_required: tuple[str, ...] | None
    lines: dict[str, int] = {}

    @property
    def next_one(self) -> BootKernel | None:
        """The kernel that boots next."""
        return next((k for k in self.kernels if k.release == self.next), None)


class DgxOs(Fact):
    """Whether the node runs DGX OS; ``line`` is where its release file was listed."""

    present: bool
    line: int = 0


class KernelPackages(Fact):
    """``dpkg-query -W 'linux-*'``: what is installed of it."""

    packages: tuple[Package, ...]


class AptPin(Model):
    """One stanza of apt's preferences. ``packages`` are globs; ``pin`` is ``version 580.*``."""

    line: int
    file: str
    packages: tuple[str, ...]
    pin: str
    priority: int


class AptPins(Fact):
    """All preferences that apt reads; none is an answer."""

    pins: tuple[AptPin, ...]


class RpmLocks(Fact):
    """``dnf versionlock list``: name of each locked package to line; none is an answer."""

    lines: dict[str, int]


class Move(Model):
    """One package that an upgrade would change. ``old`` is None for a new one, ``new`` for one that
    would be removed.
    """

    line: int
    name: str
    old: str | None
    new: str | None


class UpgradePlan(Fact):
    """A simulated ``apt-get dist-upgrade``, whole: its own totals agree with its lines."""

    moves: tuple[Move, ...]
    kept_back: int
    line: int


class MokKeys(Fact):
    """Subjects (common names) of the enrolled machine owner keys, to line."""

    lines: dict[str, int]


#: What stands among the repositories for dpkg's own list of what is installed.
DPKG_STATUS = "/var/lib/dpkg/status"


class AptReleases(Fact):
    """``apt-cache policy``: repository (``URI suite/component``) to the origin that it names.

    The origin is what the signed release file says (``o=Ubuntu``); empty where it says none.
    """

    origins: dict[str, str]
