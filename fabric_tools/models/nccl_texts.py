"""Facts: every text of NCCL that a snapshot holds, by whether it speaks of one node or of several.

A text is what one file says: tests of nccl-tests, NCCL's own log, or both.
"""

from __future__ import annotations

from fabric_tools.models.base import Fact
from fabric_tools.models.nccl import NcclDebug, NcclRun, TextNote


class NcclText(Fact):
    """One text. ``failures``: lines with which NCCL or a test says that it failed.

    ``several``: whether the log is of several hosts; None where it does not tell. ``unread``: why
    the table beside a log could not be read. ``aside``: a log that only explains the tests of
    another text.
    """

    runs: tuple[NcclRun, ...] = ()
    log: NcclDebug | None = None
    failures: tuple[TextNote, ...] = ()
    several: bool | None = None
    unread: str = ""
    aside: bool = False


class NcclTexts(Fact):
    """All texts that could be read. ``unread``: why another one could not."""

    texts: tuple[NcclText, ...]
    unread: tuple[str, ...] = ()


class NodeNcclTests(NcclTexts):
    """Tests inside one node, and logs that tell of a failure there."""


class ClusterNcclTests(NcclTexts):
    """Tests over several hosts, and logs that tell of a failure there."""


class NodeNcclLogs(NcclTexts):
    """Logs that are not known to be of several hosts."""


class ClusterNcclLogs(NcclTexts):
    """Logs of several hosts, and those that name a network and do not tell on how many hosts."""
