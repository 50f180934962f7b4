"""What a platform should be. One complete flat YAML file each, every value with its source."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from fabric_tools.models.base import Model
from fabric_tools.models.inventory import AllowEol, Array, Mirror, Profile, Rail
from fabric_tools.models.stack import StackLock
from fabric_tools.models.verdict import Status

T = TypeVar("T")
Count = Annotated[int, Field(ge=0, le=64)]
PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]


class Sourced(Model, Generic[T]):
    """A value and where it comes from. There is no value without a source.

    ``confirmed`` is False for a value that nobody has seen on a node yet: a node that differs may
    be right, so that is UNKNOWN and no fault.
    """

    value: T
    source: str = Field(min_length=1)
    confirmed: bool = True

    @property
    def differs(self) -> Status:
        """The verdict on a node that shows another value."""
        return Status.FAIL if self.confirmed else Status.UNKNOWN


class Match(Model):
    """Which chassis this platform is. The GPU is matched by ``gpu.models``; all is exact.

    ``dmi_products``: chassis names that this platform is; ``not_dmi_products``: chassis that have
    a file of their own.
    """

    dmi_products: tuple[str, ...] = ()
    not_dmi_products: tuple[str, ...] = ()


class GpuSpec(Model):
    """GPUs of the node.

    ``models``: PCI id -> product name of nvidia-smi; all GPUs of one node are of one of them.
    ``count`` is None for cards that a chassis may hold any number of: the inventory says.
    ``pcie_width`` in lanes; ``pcie_gen`` is the PCI Express generation. ``power_limit_w``: the
    limits that the vendor ships, in W. ``tlimit_margin_min_c``: the least distance to the slowdown
    temperature that an idle GPU keeps, where the driver prints T.Limit (from Hopper on);
    ``temperature_max_c`` and ``memory_temperature_max_c`` are absolute, for all others.
    """

    count: Sourced[Annotated[int, Field(ge=1, le=64)] | None]
    models: Sourced[Annotated[dict[PciId, str], Field(min_length=1)]]
    pcie_gen: Sourced[int]
    pcie_gt_s: Sourced[float]
    pcie_width: Sourced[int]
    ecc: Sourced[Literal["Enabled", "Disabled"]]
    row_remap: Sourced[bool]
    power_limit_w: Sourced[Annotated[tuple[float, ...], Field(min_length=1)]]
    tlimit_margin_min_c: Sourced[int]
    temperature_max_c: Sourced[int]
    memory_temperature_max_c: Sourced[int]

    @property
    def number(self) -> int:
        """The count, which a target that is judged always has."""
        assert self.count.value is not None, "no target without a count is judged"
        return self.count.value


class NvlinkSpec(Model):
    """NVLink inside the node.

    ``mesh``: ``full`` (any two GPUs by ``pair_kind``), ``listed`` (each pair as in ``pairs``),
    ``bridged`` (every GPU has one partner by ``pair_kind``, which one is the chassis' choice, and
    reaches the others over PCIe) or ``none``. ``pair_kind`` is what ``topo -m`` prints.
    """

    mesh: Sourced[Literal["full", "listed", "bridged", "none"]]
    pair_kind: Sourced[str | None]
    pairs: Sourced[dict[str, str]] | None = None
    links_per_gpu: Sourced[Count]
    link_gbytes_s: Sourced[float | None]
    link_gbytes_s_min: Sourced[float | None]

    @model_validator(mode="after")
    def _whole(self) -> NvlinkSpec:
        has = self.mesh.value != "none"
        values = (self.pair_kind.value, self.link_gbytes_s.value, self.link_gbytes_s_min.value)
        needed = values[1:] if self.mesh.value == "listed" else values
        if has and (None in needed or not self.links_per_gpu.value):
            raise ValueError("a mesh needs links_per_gpu, link_gbytes_s, its minimum, pair_kind")
        if (self.mesh.value == "listed") != (self.pairs is not None):
            raise ValueError("pairs belongs to the mesh listed, and only to it")
        return self


class FabricSpec(Model):
    """NVSwitch fabric. ``reports_state``: the driver prints Fabric State (not before Hopper).

    ``subnet_manager``: nvlsm runs the NVLink 5 switches over InfiniBand management (ib_umad).
    ``imex``: the node is a tray of a rack-wide NVLink domain, with nvidia-imex in the place of a
    fabric manager. ``nvswitch_pci_id`` is None where the switches are no PCI functions of NVIDIA.
    """

    manager: Sourced[bool]
    subnet_manager: Sourced[bool]
    imex: Sourced[bool]
    reports_state: Sourced[bool]
    nvswitch_count: Sourced[Count]
    nvswitch_pci_id: Sourced[PciId | None]

    @model_validator(mode="after")
    def _visible(self) -> FabricSpec:
        if self.nvswitch_count.value and self.nvswitch_pci_id.value is None:
            raise ValueError("nvswitch_count counts PCI functions, so it needs nvswitch_pci_id")
        return self


class DriverSpec(Model):
    """Which drivers can run these GPUs. ``modules``: kinds of kernel module, best first.

    ``branch_min`` and ``branch_max`` are driver branches (535, 580); None: no upper bound known.
    ``version_min`` is a full version where the branch alone is not enough. ``versions_bad``: full
    version -> what is wrong with it. ``kernel_min``: the least kernel series (``5.17``) that can.
    """

    branch_min: Sourced[int]
    branch_max: Sourced[int | None]
    version_min: Sourced[str | None]
    modules: Sourced[tuple[Literal["open", "proprietary"], ...]]
    versions_bad: Sourced[dict[str, str]] | None = None
    kernel_min: Sourced[str] | None = None


class NicSpec(Model):
    """Compute NICs that the vendor builds in. None: the maker's choice, so the inventory says."""

    count: Sourced[Count | None]
    port_gbits_s: Sourced[int | None]


class NcclGate(Model):
    """One threshold on bus bandwidth, in GB/s, for one size and one algorithm.

    ``nodes`` is the number of hosts; ``ranks`` of all together. ``min_bytes``: the least message
    size at which the figure holds. ``algorithm``: ``nvls`` (the switches add) or ``ring``.
    ``fabric``: what carries the traffic (``nvlink`` inside the node, ``8x400g`` ...).
    ``fail_below`` and ``warn_below`` in GB/s.
    """

    collective: Literal["all_reduce"]
    nodes: Annotated[int, Field(ge=1)] = 1
    ranks: Annotated[int, Field(ge=2)]
    algorithm: Literal["nvls", "ring"]
    fabric: str
    min_bytes: int
    fail_below: float
    warn_below: float
    source: str = Field(min_length=1)


class OsSpec(Model):
    """Distributions that this product puts state on, as ``ID VERSION_ID`` of os-release."""

    supported: Sourced[tuple[str, ...]]


class PlatformSpec(Model):
    """One platform file."""

    schema_version: Literal[1]
    kind: Literal["fabric-tools/platform"]
    id: str
    title: str
    match: Match
    gpu: GpuSpec
    nvlink: NvlinkSpec
    fabric: FabricSpec
    driver: DriverSpec
    nic: NicSpec
    nccl: tuple[NcclGate, ...] = ()
    os: OsSpec


class SiteSpec(Model):
    """What the inventory declares of this host, as checks see it. ``source`` says where.

    ``lock`` is the stack lock of the id in ``stack``, None where no lock of that id is known.
    """

    profile: Profile = Profile()
    rails: tuple[Rail, ...] = ()
    stack: str | None = None
    lock: StackLock | None = None
    allow_eol: AllowEol | None = None
    mirror: Mirror | None = None
    array: Array | None = None
    source: str = "no inventory was given: the defaults"


class Target(PlatformSpec):
    """What a node is judged by: its platform file and what the inventory declares."""

    site: SiteSpec = SiteSpec()
