"""Facts of the fabric manager's log and of DCGM. ``None``: the text does not say."""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model
from fabric_tools.models.facts import UnitState

FmEventKind = Literal[
    "sxid",
    "version_mismatch",
    "nvswitch_count",
    "nothing_to_do",
    "multicast_handle",
    "error",
    "configured",
    "started",
    "failed",
    "stopped",
]


class FmEvent(Model):
    """One line that says something about the fabric manager's state.

    ``level`` is printed in the log file only (ERROR, CRITICAL). The numbers are set for the kinds
    that have them; ``driver_version`` is the driver that was loaded then.
    """

    line: int
    kind: FmEventKind
    level: str | None = None
    time: str | None = None
    text: str
    sxid: int | None = None
    fatal: bool | None = None
    pci: str | None = None
    port: int | None = None
    fm_version: str | None = None
    driver_version: str | None = None


class FabricManagerLog(Fact):
    """``/var/log/fabricmanager.log`` or its journal.

    ``state`` is what the last line that says so says: active, failed, inactive. ``errors`` counts
    the lines of level ERROR or above. ``nvlsm``: the subnet manager of NVLink 5 speaks here too.
    """

    events: tuple[FmEvent, ...]
    errors: int
    state: Literal["active", "failed", "inactive"] | None = None
    nvlsm: bool = False
    line_count: int

    def of_kind(self, kind: FmEventKind) -> tuple[FmEvent, ...]:
        """Events of that kind, in order."""
        return tuple(event for event in self.events if event.kind == kind)


class FabricManagerStatus(UnitState):
    """``systemctl status`` of the fabric manager: the unit and what the lines below it say.

    ``signal`` killed the main process (``KILL``). ``nvlsm``: the subnet manager of NVLink 5 runs or
    speaks here. ``events`` are those of the last lines of its journal, which may be cut.
    """

    signal: str | None = None
    nvlsm: bool = False
    events: tuple[FmEvent, ...] = ()


DcgmStatus = Literal["pass", "fail", "warn", "skip", "not_run"]


class DcgmResult(Model):
    """One result of one test. ``gpus`` is None where the text says All or names none."""

    line: int
    category: str
    test: str
    status: DcgmStatus
    gpus: tuple[int, ...] | None = None
    messages: tuple[str, ...] = ()
    error_ids: tuple[int, ...] = ()


class DcgmDiag(Fact):
    """``dcgmi diag``. No result at all means that no test ran, whatever the head line says."""

    form: Literal["text", "json"]
    dcgm_version: str | None = None
    driver_version: str | None = None
    gpu_device_ids: tuple[str, ...] = ()
    results: tuple[DcgmResult, ...] = ()
    error: str | None = None
    complete: bool

    def tests(self, *statuses: DcgmStatus) -> tuple[str, ...]:
        """Names of the tests with such a result, each once."""
        return tuple(dict.fromkeys(r.test for r in self.results if r.status in statuses))


DcgmLinkState = Literal["up", "down", "disabled", "not_supported"]


class DcgmLinks(Model):
    """Links of one GPU or switch, by position."""

    id: int
    line: int
    links: tuple[DcgmLinkState, ...]

    def at(self, state: DcgmLinkState) -> tuple[int, ...]:
        """Positions of the links in that state."""
        return tuple(i for i, found in enumerate(self.links) if found == state)


class DcgmNvlinkStatus(Fact):
    """``dcgmi nvlink -s``. ``switches`` is None where the text does not speak of them."""

    gpus: tuple[DcgmLinks, ...]
    switches: tuple[DcgmLinks, ...] | None = None
    complete: bool


class DcgmLinkErrors(Model):
    """Counters of one link by their printed names; None: not a number."""

    index: int
    line: int
    counts: dict[str, int | None]


class DcgmNvlinkErrors(Fact):
    """``dcgmi nvlink -e -g N -j``."""

    gpu: int
    links: tuple[DcgmLinkErrors, ...]


class DcgmHealth(Fact):
    """``dcgmi health -c``. ``overall`` is None where no watch was set; it speaks only for those."""

    overall: str | None = None
    details: tuple[str, ...] = ()
    error: str | None = None
    complete: bool
    line: int = 1


class DcgmGpu(Model):
    """One GPU of ``dcgmi discovery -l``."""

    id: int
    line: int
    name: str
    bus_id: str
    uuid: str | None = None


class DcgmDiscovery(Fact):
    """``dcgmi discovery -l``. Counts are the tool's own; None where it prints none."""

    gpu_count: int
    gpus: tuple[DcgmGpu, ...]
    nvswitch_count: int | None = None
    cpu_count: int | None = None
    complete: bool
