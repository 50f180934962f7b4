"""Typed facts: what tools said, without judgement. Units are in the names; ``line`` counts from 1.

``None`` means that the tool printed N/A or nothing for the field. It never means zero.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class TopologyRow(Model):
    """One printed row of ``nvidia-smi topo -m``. ``cells`` maps a column heading to its cell."""

    name: str
    line: int
    cells: dict[str, str]
    cpu_affinity: str | None = None
    numa_affinity: str | None = None
    gpu_numa_id: str | None = None


class Topology(Fact):
    """The matrix of ``nvidia-smi topo -m``.

    ``gpus`` and ``nics`` are the column headings, in order; ``nic_names`` is the NIC legend
    (``NIC0`` -> ``mlx5_0``), empty where it was not printed. ``gpu_rows_whole``: every GPU column
    has a row with a cell for each GPU. ``nic_rows_whole``: the same for NIC rows.
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...] = ()
    rows: tuple[TopologyRow, ...]
    nic_names: dict[str, str] = {}
    gpu_rows_whole: bool
    nic_rows_whole: bool

    def row(self, name: str) -> TopologyRow | None:
        """The row of that name, or None where it was not printed."""
        return next((row for row in self.rows if row.name == name), None)


class EccErrors(Model):
    """Counters of one period; None where the tool printed N/A."""

    correctable: int | None = None
    sram_uncorrectable: int | None = None
    dram_uncorrectable: int | None = None
    sram_threshold_exceeded: bool | None = None


class GpuFabric(Model):
    """Registration with the NVLink fabric as the driver reports it. It is latched by the driver.

    ``health`` has every line under Health that is not N/A, by its name in lower case with ``_`` for
    blanks (``summary``, ``bandwidth``, ``route_unhealthy`` ...), as printed.
    """

    state: str | None = None
    status: str | None = None
    clique_id: str | None = None
    cluster_uuid: str | None = None
    health: dict[str, str] = {}


class GpuFacts(Model):
    """One GPU as ``nvidia-smi -q`` describes it. ``line`` is where its block begins.

    ``throttle`` maps what may hold the clocks down (``hw_slowdown``, ``sw_power_cap`` ... as in
    ``smi_fields.THROTTLE``) to whether it does now. ``tlimit_c`` is the distance to the slowdown
    temperature (T.Limit, from Hopper on). ``power_limit_w`` is the limit in force.

    ``unreadable`` names the fields for which the driver printed an error (``Unknown Error``, ``GPU
    requires reset``) and that error: a failed reading is not the same as a field that is not there.
    """

    index: int
    line: int
    bus_id: str
    product: str | None = None
    uuid: str | None = None
    pci_device_id: str | None = None  # "10de:2330"
    vbios_version: str | None = None
    unreadable: dict[str, str] = {}
    mig_mode: str | None = None
    mig_pending: str | None = None
    persistence_mode: str | None = None
    ecc_mode_current: str | None = None
    ecc_mode_pending: str | None = None
    ecc_volatile: EccErrors = EccErrors()
    ecc_aggregate: EccErrors = EccErrors()
    remap_correctable: int | None = None
    remap_uncorrectable: int | None = None
    remap_pending: str | None = None  # "Yes" | "No"
    remap_failure: str | None = None
    reset_required: str | None = None
    drain_and_reset: str | None = None  # "Yes": the driver recommends it
    recovery_action: str | None = None
    pcie_gen_max: int | None = None
    pcie_gen_current: int | None = None
    pcie_width_max: int | None = None
    pcie_width_current: int | None = None
    throttle: dict[str, bool] = {}
    power_draw_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    temperature_c: int | None = None
    tlimit_c: int | None = None
    memory_temperature_c: int | None = None
    module_id: int | None = None  # the place on the board
    pcie_replays: int | None = None
    retired_pages: int | None = None  # before Ampere
    retired_pending: str | None = None  # "Yes" | "No", before Ampere
    virtualization: str | None = None  # None, Pass-Through, VGPU ... as printed
    mig_devices: int | None = None  # XML only
    fabric: GpuFabric = GpuFabric()


class GpuInventory(Fact):
    """All GPUs of one ``nvidia-smi -q``. ``attached_gpus`` is the tool's own count."""

    driver_version: str | None = None
    cuda_version: str | None = None
    attached_gpus: int | None = None
    gpus: tuple[GpuFacts, ...]


SmiErrorKind = Literal[
    "driver_library_mismatch",
    "driver_not_loaded",
    "no_devices",
    "gpu_lost",
    "gpu_unreadable",
    "nvml_unknown_error",
    "insufficient_permissions",
    "library_not_found",
]


class SmiAnswer(Fact):
    """Whether nvidia-smi could talk to the driver at all. ``error`` is None when it could."""

    error: SmiErrorKind | None = None
    text: str = ""
    line: int = 1


class NvlinkLink(Model):
    """One line of ``nvidia-smi nvlink -s``. ``gbytes_s`` is None for an ``<inactive>`` link."""

    index: int
    line: int
    gbytes_s: float | None


class NvlinkGpu(Model):
    """Links of one GPU. ``state``: links (listed), unsupported, inactive (all), mig (not told)."""

    index: int
    line: int
    name: str
    uuid: str | None = None
    state: Literal["links", "unsupported", "inactive", "mig"]
    links: tuple[NvlinkLink, ...] = ()


class NvlinkStatus(Fact):
    """``nvidia-smi nvlink -s``. ``complete`` is False where a line was elided or cut."""

    gpus: tuple[NvlinkGpu, ...]
    complete: bool


class LoadedModule(Fact):
    """``/proc/driver/nvidia/version``: the module that runs now, whatever is on disk."""

    version: str
    flavour: Literal["open", "proprietary"]
    line: int = 1


class KernelModules(Fact):
    """Names in ``/proc/modules``, with the line each stands on."""

    lines: dict[str, int]


class RosterGpu(Model):
    """One GPU of a roster. ``index`` is the tool's number, None where it prints none."""

    line: int
    index: int | None = None
    product: str | None = None
    uuid: str | None = None
    bus_id: str | None = None


class GpuRoster(Fact):
    """Which GPUs one tool listed: the least that every form of nvidia-smi tells.

    ``driver_version`` is what the running driver told that tool. ``attached_gpus`` is the tool's
    own count where it prints one. ``complete`` is False for an excerpt: more may be there.
    """

    gpus: tuple[RosterGpu, ...]
    driver_version: str | None = None
    attached_gpus: int | None = None
    complete: bool = True


class GpuRosters(Fact):
    """Every list of GPUs that was recorded, best first. They must agree."""

    rosters: tuple[GpuRoster, ...]

    @property
    def best(self) -> GpuRoster:
        """The most detailed one."""
        return self.rosters[0]


class SmiVersion(Fact):
    """``nvidia-smi --version``: the userspace that is installed. Lines as printed."""

    smi_version: str
    nvml_version: str | None = None
    driver_version: str | None = None
    line: int = 1


class FabricManagerVersion(Fact):
    """``nv-fabricmanager --version``: the package that is installed."""

    version: str
    line: int = 1


class UnitState(Fact):
    """A systemd unit, from ``systemctl show`` or ``systemctl status``.

    ``active`` is ActiveState (``active``, ``failed``, ``inactive``, ...); ``load`` is LoadState
    (``loaded``, ``not-found``, ``masked``); ``result`` is why it failed (``signal``, ...).
    """

    unit: str
    load: str | None = None
    active: str | None = None
    sub: str | None = None
    enabled: str | None = None
    result: str | None = None
    line: int = 1


class XidEvent(Model):
    """One ``NVRM: Xid`` line. ``fatal`` is set only where the text says Fatal or Nonfatal."""

    line: int
    xid: int
    pci: str
    text: str
    fatal: bool | None = None


class SxidEvent(Model):
    """One NVSwitch error (Severity and Data lines follow it). ``fatal`` is None where the line says
    neither Fatal nor Non-fatal, as thermal and SOE messages do.
    """

    line: int
    switch: str
    pci: str
    sxid: int
    fatal: bool | None
    port: int | None = None
    text: str


KernelNoteKind = Literal[
    "probe_failed",
    "init_failed",
    "api_mismatch",
    "gsp_timeout",
    "reset_required",
    "device_inaccessible",
    "hung_task",
    "fabric_out_of_sync",
    "fallen_off_bus",
    "pcie_limited",
    "aer_fatal",
]


class KernelNote(Model):
    """A kernel line about the driver that is neither Xid nor SXid and is known to be a fault.

    The two rates are those of ``pcie_limited``: what the link has, and what the device could use.
    """

    line: int
    kind: KernelNoteKind
    pci: str | None = None
    available_gbits_s: float | None = None
    capable_gbits_s: float | None = None
    text: str


class KernelLog(Fact):
    """Kernel messages of one boot, the last one in the text.

    ``from_boot``: the log reaches back to the start of that boot. ``lost_line``: where the log says
    that messages were lost (0: it does not). ``driver_loading``: the line where the NVIDIA module
    announced itself is there, so the log is not cut before it.
    """

    from_boot: bool
    lost_line: int = 0
    driver_loading: bool = False
    kernel: str | None = None  # release in the "Linux version" line
    line_count: int
    xids: tuple[XidEvent, ...] = ()
    sxids: tuple[SxidEvent, ...] = ()
    notes: tuple[KernelNote, ...] = ()


class KernelLogs(Fact):
    """Every kernel log that could be read: the journal loses messages, and the ring buffer too."""

    logs: tuple[KernelLog, ...]


class PciDevice(Model):
    """One function of ``lspci -D -nn -vv``. ``access_denied``: capabilities hidden from this user.

    ``answers`` is False where the device reads as all ones (``rev ff``, ``Unknown header type``):
    it is listed from memory but has fallen off the bus. Speeds in GT/s; None where the line was not
    printed. ``acs``: names with ``+`` in ACSCtl, empty where all are off, None without that line.
    ``buses``: secondary and subordinate bus of a bridge, which leads to all buses between them.
    """

    line: int
    bus_id: str  # "0000:18:00.0", domain always written
    device_class: str | None  # "0302"; None where lspci ran without -nn
    class_name: str
    vendor_device: str | None  # "10de:2330"
    name: str
    driver: str | None = None
    access_denied: bool = False
    answers: bool = True
    link_cap_gt_s: float | None = None
    link_cap_width: int | None = None
    link_sta_gt_s: float | None = None
    link_sta_width: int | None = None
    link_line: int | None = None
    acs: tuple[str, ...] | None = None
    acs_line: int | None = None
    acs_capable: bool = False
    max_payload_bytes: int | None = None  # DevCtl: what is set, not what the device could do
    max_read_request_bytes: int | None = None
    buses: tuple[int, int] | None = None


class PciDevices(Fact):
    """Every device that ``lspci`` listed. ``detailed``: at least one has its capability lines."""

    devices: tuple[PciDevice, ...]
    detailed: bool


class OsRelease(Fact):
    """``/etc/os-release``."""

    id: str
    version_id: str
    pretty_name: str = ""
    line: int = 1


class DmiProduct(Fact):
    """``/sys/class/dmi/id/product_name``: the chassis."""

    product_name: str
    line: int = 1


class KernelRelease(Fact):
    """``uname -r``."""

    release: str
    line: int = 1


class NvmlGpu(Model):
    """One GPU as the NVML library describes it; fields are None where a call was refused.

    ``reachable`` is False where not even a handle was given. ``nvlinks_active`` has one entry a
    link.
    """

    index: int
    reachable: bool
    product: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    pci_device_id: str | None = None
    ecc_mode: tuple[bool, bool] | None = None  # current, pending
    ecc_volatile_uncorrectable: int | None = None
    remapped_rows: tuple[int, int, int, int] | None = None  # corr, uncorr, pending, failure
    pcie_width_current: int | None = None
    fabric_state: str | None = None
    nvlinks_active: tuple[bool, ...] | None = None


class NvmlRefusal(Model):
    """An NVML call that failed. ``gpu`` is None for a call about the whole node."""

    gpu: int | None
    field: str
    error: str


class NvmlInventory(Fact):
    """What the collector's NVML child printed."""

    driver_version: str | None
    nvml_version: str | None
    count: int | None
    gpus: tuple[NvmlGpu, ...]
    errors: tuple[NvmlRefusal, ...] = ()


class CudaInit(Fact):
    """Whether a CUDA program could start. ``code`` is the CUresult: 0 it could, 802 and so on.

    ``code`` is None where only an error text without a known number was saved. ``devices`` is None
    where it was not asked for.
    """

    code: int | None
    name: str = ""
    devices: int | None = None
    text: str = ""
    line: int = 1
