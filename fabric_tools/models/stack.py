"""The stack lock: which versions make up one node, and the matrix that says what may go together.

A lock is one complete flat file; nothing is inherited. A value that nobody has established is None
and says why in ``source``.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fabric_tools.models.base import Model

#: ``580.173.02``: what NVIDIA prints, without the packaging part.
DriverVersion = Annotated[str, Field(pattern=r"^\d{3}\.\d{2,3}(\.\d{2})?$")]
BranchNumber = Annotated[int, Field(ge=100, le=999)]
ModuleKind = Literal["open", "proprietary"]
Text = Annotated[str, Field(min_length=1)]
StackId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
#: Where the driver's packages come from. ``dgx-os``: the vendor's own set, verified and never set.
PackageSource = Literal["cuda-repo", "ubuntu-archive", "dgx-os"]

#: How a version is kept: the vendor's pinning package (which must not be combined with holds), a
#: preferences file of ours (with holds), dnf versionlock, or nothing where the vendor owns the set.
PinMethod = Literal["package", "preferences", "versionlock", "vendor"]


class Component(Model):
    """One version of a stack, and where it comes from.

    ``version`` None: not fixed, ``source`` says why. ``confirmed`` False: unverified, nobody has
    seen it at work in this combination.
    """

    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+~_-]*$")] | None
    source: Text
    confirmed: bool = True


class DriverLock(Model):
    """The driver. ``evidence`` is where the choice comes from, ``source`` where its packages do."""

    version: DriverVersion
    branch: BranchNumber
    module: ModuleKind
    source: PackageSource
    evidence: Text
    confirmed: bool = True

    @model_validator(mode="after")
    def _of_its_branch(self) -> DriverLock:
        if self.version.split(".")[0] != str(self.branch):
            raise ValueError(f"{self.version} is not of branch {self.branch}")
        return self


class StackLock(Model):
    """One stack. ``fabric_manager`` is the driver's version to the last digit, always.

    ``nvlsm``, the subnet manager of NVLink 5 switches, is versioned by date, never by the driver.
    ``dgx_os``: the release in which the vendor ships this driver branch.
    """

    schema_version: Literal[1]
    kind: Literal["fabric-tools/stack"]
    id: StackId
    title: Text
    driver: DriverLock
    fabric_manager: Component
    nvlsm: Component
    cuda: Component
    nccl: Component
    dcgm: Component
    container_toolkit: Component
    k3s: Component
    containerd: Component
    dgx_os: Component

    @model_validator(mode="after")
    def _whole(self) -> StackLock:
        manager = self.fabric_manager.version
        if manager != self.driver.version:
            raise ValueError(
                f"fabric_manager is {manager}, the driver {self.driver.version}: one version, to "
                "the last digit, or the fabric manager does not start"
            )
        if self.k3s.version is not None and self.kubernetes is None:
            raise ValueError(f"k3s {self.k3s.version} is no version such as v1.36.5+k3s1")
        return self

    @property
    def kubernetes(self) -> str | None:
        """The Kubernetes minor of ``k3s``: ``1.36``; None where it names none."""
        parts = (self.k3s.version or "").removeprefix("v").split(".")
        good = len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit()
        return ".".join(parts[:2]) if good else None

    @property
    def components(self) -> dict[str, Component]:
        """What the lock fixes beside the driver, by its name in the file."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: part for name, part in found.items() if isinstance(part, Component)}


class Life(Model):
    """How long something is maintained.

    ``eol``: the last day. The vendors tell months; the last day of the month is taken. None: no day
    is known; ``ended`` then says whether it is over.
    """

    eol: date | None
    ended: bool = False
    source: Text

    def is_over(self, as_of: date) -> bool:
        """Whether it is past its end of life on that day."""
        return self.ended if self.eol is None else self.eol < as_of

    def shown(self) -> str:
        """For people: ``2028-06-30``."""
        if self.eol is not None:
            return self.eol.isoformat()
        return "passed" if self.ended else "not known"


class Branch(Life):
    """One driver branch. ``cuda``: the CUDA version that it reports.

    ``type``: LTS (long term), PB (production) or NFB (new feature). ``known_good``: full version ->
    where it was seen at work. ``modules``: kinds of kernel module that it comes with.
    ``nvlsm_min``: the least subnet manager that its NVLink 5 package asks for, where that is told.
    """

    number: BranchNumber
    type: Literal["LTS", "PB", "NFB"]
    cuda: Text
    modules: Annotated[tuple[ModuleKind, ...], Field(min_length=1)]
    known_good: dict[DriverVersion, Text] = {}
    nvlsm_min: str | None = None


class Release(Life):
    """A minor release of Kubernetes or containerd: ``1.36``, ``2.3``."""

    release: Annotated[str, Field(pattern=r"^\d+\.\d+$")]


class Kernel(Life):
    """A kernel series (``6.8``) of one distribution (``ubuntu 24.04``)."""

    os: Text
    series: Annotated[str, Field(pattern=r"^\d+\.\d+$")]


class DgxOs(Model):
    """A release of DGX OS: what it is built on and the driver branches that the vendor ships."""

    release: Annotated[str, Field(pattern=r"^\d+$")]
    base: Text
    branches: Annotated[tuple[BranchNumber, ...], Field(min_length=1)]
    source: Text


class Naming(Model):
    """How packages are called, per source, operating systems and branches.

    ``{branch}`` in a name stands for the branch. None: there is no such package, or its name is not
    established. ``stream``: the module stream of dnf by kind of module. ``seen``: branches for
    which these names were seen (empty: for all); for others they follow the pattern. ``refused``:
    why nothing may be installed from there.
    """

    source: PackageSource
    os: Annotated[tuple[str, ...], Field(min_length=1)]
    branch_min: BranchNumber
    branch_max: BranchNumber | None
    driver: dict[ModuleKind, str] = {}
    stream: dict[ModuleKind, str] = {}
    fabric_manager: str | None = None
    nscq: str | None = None
    persistence: str | None = None
    nvlink5: str | None = None
    nvsdm: str | None = None
    nvlsm: str | None = None
    imex: str | None = None
    prebuilt_modules: str | None = None
    pin: PinMethod | None = None
    seen: tuple[BranchNumber, ...] = ()
    refused: str = ""
    evidence: Text

    def covers(self, source: str, os_id: str, branch: int) -> bool:
        """Whether this row is about these packages."""
        last = self.branch_max or branch
        here = self.source == source and os_id in self.os
        return here and self.branch_min <= branch <= last


class Blocked(Model):
    """A version that must not be used. ``kernel``: only with releases that begin so; "": with any.

    What is wrong with a version on one board alone stands in that board's platform file.
    """

    version: DriverVersion
    kernel: str = ""
    reason: Text
    source: Text
    checked: date


class Matrix(Model):
    """What may go together. ``checked``: the day on which its dates were compared with the sources.

    The least driver and the kinds of module per GPU stand in the platform files, and only there.
    """

    schema_version: Literal[1]
    kind: Literal["fabric-tools/matrix"]
    checked: date
    branches: tuple[Branch, ...]
    kubernetes: tuple[Release, ...]
    containerd: tuple[Release, ...]
    kernels: tuple[Kernel, ...]
    dgx_os: tuple[DgxOs, ...]
    naming: tuple[Naming, ...]
    blocked: tuple[Blocked, ...]

    @model_validator(mode="after")
    def _once(self) -> Matrix:
        """Two rows for one thing would leave the choice to their order."""
        rows: list[tuple[object, ...]] = [("branch", item.number) for item in self.branches]
        rows += [("kubernetes", item.release) for item in self.kubernetes]
        rows += [("containerd", item.release) for item in self.containerd]
        rows += [("kernel", item.os, item.series) for item in self.kernels]
        rows += [("dgx_os", item.release) for item in self.dgx_os]
        for item in self.naming:
            last = item.branch_max or 999
            numbers = range(item.branch_min, last + 1)
            rows += [("naming", item.source, os, n) for os in item.os for n in numbers]
        twice = {row for row in rows if rows.count(row) > 1} if len(set(rows)) < len(rows) else {}
        if twice:
            raise ValueError(f"stands twice: {' '.join(map(str, sorted(twice, key=str)[0]))}")
        return self

    def branch(self, number: int) -> Branch | None:
        """The row of a driver branch."""
        return next((item for item in self.branches if item.number == number), None)


class Problem(Model):
    """One thing that stands against a stack. An error refuses it, a warning is printed."""

    severity: Literal["error", "warning"]
    what: Text
    source: str = ""
    try_next: str = ""
