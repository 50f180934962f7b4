"""Verdicts and waivers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, StringConstraints

from fabric_tools.models.base import Model


class Status(StrEnum):
    """What a check says of one subject."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class Evidence(Model):
    """Where it was read: the probe, the line of its output (0: the whole), and that text."""

    probe: str
    line: int = 0
    text: str = ""


class Verdict(Model):
    """One check on one subject (``node``, ``GPU 3``, ``GPU2-GPU5``).

    ``because``: the checks of which a failure would explain this one (``check@subject``: of that
    subject). ``follows``: the one of them that did fail here. The verdict is then UNKNOWN: what it
    would say without that fault, nobody can know before the fault is mended. ``settles_s``: a
    healthy node says the same for up to so many seconds after a boot or a restart.
    """

    check: str
    subject: str
    status: Status
    expected: str = ""
    actual: str = ""
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    because: tuple[str, ...] = ()
    follows: str = ""
    settles_s: int = 0
    waived_by: str = ""  # reason and owner of the waiver that lets this verdict pass the gate


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Waiver(Model):
    """A known fault that somebody answers for until a date. Printed in every report.

    ``host`` is an exact inventory name or ``*``. ``break_glass`` marks one given on the command
    line at night; it is shown red and lasts at most 24 h.
    """

    check: str
    host: str = "*"
    subject: str = "*"
    reason: Text
    owner: Text
    expires: AwareDatetime
    kind: Literal["waiver", "break_glass"] = "waiver"
