"""What every output format shows: the decision of each gate and all that led to it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fabric_tools.models.base import Model
from fabric_tools.models.nodemap import NodeMap
from fabric_tools.models.snapshot import HostIdentity, ProbeStatus, Source
from fabric_tools.models.verdict import Verdict, Waiver


class Decision(Model):
    """One gate. ``reasons`` say why it is closed, most severe first; empty when it is open.

    ``passive_only``: the phase also has to be measured under load, and that was not done here.
    ``not_measured``: checks that had nothing to judge and are not part of this decision, and why.
    ``settles_s``: closed only by what a healthy node also says for up to so many seconds after a
    boot; 0: no time will open it.
    """

    phase: str
    open: bool
    passive_only: bool = False
    not_measured: tuple[str, ...] = ()
    exit_code: int
    settles_s: int = 0
    reasons: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class ProbeSummary(Model):
    """One probe as the reader saw it. ``note``: why it gave no facts, where it gave none."""

    id: str
    status: ProbeStatus
    note: str = ""
    duration_s: float = 0.0


class PlatformChoice(Model):
    """Which platform file was used and why. ``id`` is empty where none could be chosen."""

    id: str = ""
    title: str = ""
    why: str


class HostReport(Model):
    """Everything about one node. ``map`` is for drawing; it takes no part in any decision."""

    host: str
    moment: str = ""  # where one folder holds several readings
    waiver_name: str = ""  # the name that waivers were matched with; "" matches only "*"
    identity: HostIdentity = HostIdentity()
    source: Source = Source()
    taken_at: datetime | None = None
    redacted: bool = False
    platform: PlatformChoice
    decisions: tuple[Decision, ...]
    probes: tuple[ProbeSummary, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    map: NodeMap = NodeMap()


class Report(Model):
    """What ``validate --format json`` prints."""

    schema_version: Literal[1] = 1
    kind: Literal["fabric-tools/report"] = "fabric-tools/report"
    tool_version: str
    as_of: datetime
    as_of_given: bool = False  # judged as of another time than the present
    hosts: tuple[HostReport, ...]
    exit_code: int
