"""Facts that the smaller calls of nvidia-smi print. ``None``: N/A or not printed, never zero.

``unreadable`` names what the driver could not read (``ERR!``, ``GPU requires reset``): that is not
the same as N/A.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model
from fabric_tools.models.facts import GpuFabric


class SmiNote(Model):
    """A line outside the output proper: a warning or an error of nvidia-smi.

    ``gpu`` and ``bus_id`` are the GPU it names, as printed there.
    """

    line: int
    text: str
    gpu: int | None = None
    bus_id: str | None = None


class SmiTableGpu(Model):
    """One GPU of the plain table. ``name`` may be shortened by the tool ("... ")."""

    line: int
    index: int | None
    name: str | None
    uuid: str | None = None
    bus_id: str | None = None
    persistence: str | None = None
    driver_model: str | None = None  # Windows only: WDDM, TCC, MCDM
    ecc_uncorrectable_volatile: int | None = None
    ecc_off: bool = False  # the old table prints "Off" in the place of the count
    fan_percent: int | None = None
    temperature_c: int | None = None
    pstate: str | None = None
    power_draw_w: int | None = None
    power_cap_w: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    utilization_percent: int | None = None
    compute_mode: str | None = None
    mig_mode: str | None = None  # "Enabled*": a change is pending
    unreadable: tuple[str, ...] = ()


class SmiMigDevice(Model):
    """One MIG device, of the table or of ``nvidia-smi -L``."""

    line: int
    gpu: int | None
    device: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    profile: str | None = None
    uuid: str | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None


class SmiProcess(Model):
    """One row under Processes."""

    line: int
    gpu: int
    pid: int
    kind: str  # C, G, C+G, M+C
    name: str
    memory_mib: int | None = None


class SmiTable(Fact):
    """``nvidia-smi`` (``form`` table), ``nvidia-smi -L`` (list), or what an author kept (excerpt).

    ``complete``: the table is whole, with its process list. A list of ``-L`` does not show its end.
    """

    form: Literal["table", "list", "excerpt"]
    smi_version: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[SmiTableGpu, ...]
    mig_devices: tuple[SmiMigDevice, ...] = ()
    processes: tuple[SmiProcess, ...] | None = None
    warnings: tuple[SmiNote, ...] = ()
    complete: bool


class SmiQueryColumn(Model):
    """A heading of the CSV: ``memory.used [MiB]`` has the unit ``MiB``."""

    name: str
    unit: str | None = None


class SmiQueryRow(Model):
    """One row. ``cells`` are as printed, None for N/A; ``unreadable`` maps a position to why.

    A unit that stands in the heading is taken off the cell.
    """

    line: int
    cells: tuple[str | None, ...]
    unreadable: dict[int, str] = {}

    @property
    def lost(self) -> bool:
        """Not one cell could be read."""
        return len(self.unreadable) == len(self.cells)


class SmiQuery(Fact):
    """``nvidia-smi --query-gpu=... --format=csv``. ``columns`` is empty without a header."""

    columns: tuple[SmiQueryColumn, ...] = ()
    rows: tuple[SmiQueryRow, ...]
    errors: tuple[SmiNote, ...] = ()
    complete: bool

    def cell(self, row: SmiQueryRow, column: str) -> str | None:
        """The cell under that heading; None where it is N/A or there is no such heading."""
        names = [heading.name for heading in self.columns]
        return row.cells[names.index(column)] if column in names else None


class NvlinkCounters(Model):
    """Counters of one link by their printed names; ``rates`` are those printed as a number."""

    index: int
    line: int
    counts: dict[str, int | None]
    rates: dict[str, float] = {}


class NvlinkErrorGpu(Model):
    """Counters of one GPU. ``state`` as in ``nvlink -s``."""

    index: int
    line: int
    name: str
    uuid: str | None = None
    state: Literal["links", "unsupported", "inactive", "mig"]
    links: tuple[NvlinkCounters, ...] = ()


class NvlinkErrors(Fact):
    """``nvidia-smi nvlink -e``. ``complete`` is False where a line was elided or cut."""

    gpus: tuple[NvlinkErrorGpu, ...]
    complete: bool


class ResetGpu(Model):
    """A GPU that was reset."""

    line: int
    bus_id: str


class GpuReset(Fact):
    """``nvidia-smi --gpu-reset``. ``refused`` has the lines that say why not; ``done``: its end."""

    reset: tuple[ResetGpu, ...] = ()
    refused: tuple[SmiNote, ...] = ()
    done: bool


class P2pRow(Model):
    """One row of the matrix: heading of a column to its cell."""

    name: str
    line: int
    cells: dict[str, str]


class TopologyP2p(Fact):
    """``nvidia-smi topo -p2p``. The text does not say which capability was asked for."""

    gpus: tuple[str, ...]
    rows: tuple[P2pRow, ...]
    legend: dict[str, str] = {}
    complete: bool


class FabricBlock(Model):
    """One ``Fabric`` block of ``nvidia-smi -q``. ``line`` is its heading.

    ``gpu`` is the index of the GPU, None where the text is an excerpt and does not tell it.
    """

    line: int
    gpu: int | None
    fabric: GpuFabric


class FabricStates(Fact):
    """Every ``Fabric`` block of a text, in order. ``complete``: a whole ``-q`` with all its GPUs.

    An excerpt (``grep -A2 -i fabric``) is never complete: it does not show what was left out.
    """

    blocks: tuple[FabricBlock, ...]
    complete: bool
