"""Facts of the operating system around the driver: package sources, clock, proxy, limits, mounts.

``None``: the text does not say. It never means zero, off or empty.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model

SourceTrouble = Literal[
    "unreachable", "not found", "no public key", "bad signature", "not signed", "expired",
    "not yet valid", "certificate", "refused", "other",
]  # fmt: skip


class AptSource(Model):
    """One configured repository of packages.

    ``uri`` is that of its signed index without credentials. ``trouble`` is None where it answered
    and its signature was good; ``said`` is apt's own line about the trouble.
    """

    line: int
    uri: str
    trouble: SourceTrouble | None = None
    said: str = ""


class AptUpdate(Fact):
    """What `apt-get update` found. ``config``: the lists of sources themselves cannot be read."""

    sources: tuple[AptSource, ...]
    rc: int
    config: str | None = None
    line: int = 0


class DnfRepos(Fact):
    """What `dnf makecache` found. ``trouble`` is dnf's own line, None where all answered."""

    trouble: str | None = None
    line: int = 0


class ClockTracking(Fact):
    """`chronyc -c tracking`. ``offset_s`` of the system clock, its sign left out.

    ``bound_s`` is chrony's own bound on the clock's error: offset, root dispersion and half the
    root delay. ``reference`` is an address, or the name of a reference clock; ``own``: it follows
    nothing but itself. ``leap`` is as printed.
    """

    reference: str
    own: bool
    stratum: int
    offset_s: float
    bound_s: float
    leap: str
    line: int = 1


class TimeState(Fact):
    """`timedatectl show`. ``synchronized`` is what the kernel says, whichever daemon told it."""

    synchronized: bool
    ntp: bool | None = None
    line: int = 0


class Setting(Model):
    """One value and where it stands."""

    line: int
    value: str


class Environment(Fact):
    """``/etc/environment``: name to value, the last of a name. May be empty."""

    values: dict[str, Setting]


class AptConfig(Fact):
    """`apt-config dump`: names in lower case, lists under their name with ``::`` at the end."""

    values: dict[str, Setting]
    lists: dict[str, tuple[Setting, ...]]


class Sysctls(Fact):
    """`sysctl -a`: name to value."""

    values: dict[str, Setting]


class LimitLine(Model):
    """One line of ``limits.conf``. ``kind`` is soft, hard or ``-`` (both)."""

    path: str
    line: int
    domain: str
    kind: Literal["soft", "hard", "-"]
    item: str
    value: str


class Limits(Fact):
    """All limit lines in the order in which PAM reads them: a later one wins."""

    lines: tuple[LimitLine, ...]


class Mount(Model):
    """One mount. ``source`` may be a tag (``UUID=...``) where it could not be looked up."""

    line: int
    target: str
    source: str | None
    fstype: str | None
    options: tuple[str, ...] = ()


class Mounts(Fact):
    """`findmnt -J`: what is mounted now, parents before what lies in them."""

    mounts: tuple[Mount, ...]


class Fstab(Fact):
    """`findmnt --fstab -J`: what is to be mounted at boot. May be empty."""

    mounts: tuple[Mount, ...]


class DeviceLinks(Fact):
    """Stable names below ``/dev`` -> the kernel's name (``/dev/md/fabric`` -> ``md127``)."""

    names: dict[str, Setting]


class Addresses(Fact):
    """Addresses of the node's interfaces, without prefix length, link-local ones left out."""

    addresses: tuple[str, ...]


class TrustStore(Fact):
    """SHA-256 of every certificate in the system's bundle, in hex, to its line."""

    path: str
    fingerprints: dict[str, int]
