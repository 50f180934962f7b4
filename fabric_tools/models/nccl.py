"""Facts about NCCL: what nccl-tests measured and what NCCL's own log says of its transport.

``None`` means that the text prints N/A or nothing for the field. It never means zero.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class TextNote(Model):
    """A line worth showing as it was printed (a warning, a failure)."""

    line: int
    text: str


class NcclDevice(Model):
    """One ``Rank`` line of nccl-tests. ``bus_id`` as printed (``0000:0f:00`` or ``0x0f``)."""

    line: int
    rank: int
    group: int | None = None
    pid: int | None = None
    host: str
    device: int
    bus_id: str
    name: str


class NcclMeasure(Model):
    """One half of a row. ``wrong`` counts wrong elements ("#wrong" layouts); ``max_delta`` is the
    largest difference found ("error" layout: a delta, no count). Both None: not validated.
    """

    time_us: float | None = None
    algbw_gbytes_s: float | None = None
    busbw_gbytes_s: float | None = None
    wrong: float | None = None
    max_delta: float | None = None


class NcclRow(Model):
    """One size of one test. ``root`` as printed: -1 where the collective has none."""

    line: int
    size_bytes: int
    count: int
    type: str
    redop: str | None = None
    root: int | None = None
    out_of_place: NcclMeasure | None = None
    in_place: NcclMeasure | None = None


class NcclRun(Model):
    """One test.

    ``ranks`` is the highest printed rank plus one. ``error_column`` is the heading of the check
    column. ``rows_missing`` says why rows are known to be missing (None: no sign of it);
    ``unreadable_lines`` are rows that are cut or garbled. ``complete``: the table has rows, nothing
    is known to be missing and the out-of-bounds line stands below it. ``failures`` may name a test
    that failed although its table is whole.
    """

    line: int
    layout: Literal["text", "json"]
    collective: str | None = None
    ranks: int | None = None
    devices: tuple[NcclDevice, ...] = ()
    tests_version: str | None = None
    nccl_version: str | None = None
    validation: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    error_column: str | None = None
    rows: tuple[NcclRow, ...] = ()
    unreadable_lines: tuple[int, ...] = ()
    rows_missing: str | None = None
    out_of_bounds: int | None = None
    out_of_bounds_ok: bool | None = None
    out_of_bounds_line: int | None = None
    avg_busbw_gbytes_s: float | None = None
    avg_busbw_ok: bool | None = None
    avg_busbw_line: int | None = None
    failures: tuple[TextNote, ...] = ()
    complete: bool = False


class NcclTests(Fact):
    """Every test in the text, in order."""

    runs: tuple[NcclRun, ...]


class NcclNic(Model):
    """One device of a ``NET/IB : Using`` line. ``index`` is NCCL's own, not mlx5's number."""

    line: int
    index: int
    name: str
    port: int
    link_layer: str | None = None


class NcclChannels(Model):
    """How many channel lines name a transport. ``net`` counts all lines ``via NET/``."""

    net: int = 0
    net_gdrdma: int = 0
    p2p: int = 0
    shm: int = 0


NvlsState = Literal["available", "unavailable", "disabled_by_environment", "failed"]


class NcclDebug(Fact):
    """NCCL's log (``NCCL_DEBUG=INFO``).

    ``network``: ``IB``, ``Socket`` or a plugin's name; None where nothing is said or ranks differ
    (``networks`` has all). ``gdrdma``: True only if every NET channel shows GDRDMA; False where
    one does not, where it is said to be disabled or where the network is a socket; None unknown.
    ``nvls``: the worst that is said. ``cuda_errors``: error numbers in warnings (802).
    """

    network: str | None = None
    networks: tuple[str, ...] = ()
    network_line: int | None = None
    nics: tuple[NcclNic, ...] = ()
    link_layer: str | None = None
    socket_interfaces: tuple[str, ...] = ()
    no_ib_device: bool = False
    verbs_missing: bool = False
    channels: NcclChannels = NcclChannels()
    gdrdma: bool | None = None
    dmabuf: bool | None = None
    nvls: NvlsState | None = None
    nvls_line: int | None = None
    nccl_version: str | None = None
    ranks: int | None = None
    nodes: int | None = None
    fabric_states: tuple[int, ...] = ()  # "MNNVL ... state N", each once
    environment: dict[str, str] = {}
    warnings: tuple[TextNote, ...] = ()
    cuda_errors: tuple[int, ...] = ()
