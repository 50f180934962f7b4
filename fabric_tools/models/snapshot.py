"""What one collector run brought back from one node: raw text and a status for each probe."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from fabric_tools.models.base import Model

SCHEMA_VERSION = 1


class ProbeStatus(StrEnum):
    """How a probe ended. Only ``OK`` can be evidence for a PASS."""

    OK = "ok"
    ABSENT = "absent"  # no such tool or file
    DENIED = "denied"  # the tool or file refused this user
    TIMEOUT = "timeout"  # did not end in time and was killed
    CUT = "cut"  # more output than the limit, or the end of it was never seen
    FAILED = "failed"  # ended with an exit status that the probe does not accept
    ERROR = "error"  # could not be started or read for another reason


class ProbeResult(Model):
    """Raw outcome of one probe. Text is UTF-8 with undecodable bytes replaced."""

    status: ProbeStatus
    argv: tuple[str, ...] = ()
    rc: int | None = None
    stdout: str = ""
    stderr: str = ""
    duration_s: float = Field(default=0.0, ge=0)
    note: str = ""


class HostIdentity(Model):
    """Who answered. Empty strings where the node did not say."""

    hostname: str = ""
    machine_id: str = ""
    boot_id: str = ""
    uid: int | None = None


class CollectorInfo(Model):
    """Which collector took the snapshot."""

    version: str
    python: str = ""


class Source(Model):
    """Where the snapshot comes from, so that a simulated or edited one says so in every report.

    ``node``: a collector run. ``files``: a folder of outputs saved by hand. ``lab``: a simulated
    node. ``recorded``: an example or test case assembled from recordings; ``note`` says of what.
    """

    kind: Literal["node", "files", "lab", "recorded"] = "node"
    note: str = ""


class Snapshot(Model):
    """One node at one moment. ``started_at`` is None where a hand-made folder does not say."""

    schema_version: Literal[1]
    kind: Literal["fabric-tools/snapshot"]
    collector: CollectorInfo
    source: Source = Source()
    host: HostIdentity = HostIdentity()
    started_at: AwareDatetime | None = None
    duration_s: float = 0.0
    redacted: bool = False
    probes: dict[str, ProbeResult] = Field(default_factory=dict)
