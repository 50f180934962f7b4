"""Outputs that people save under one name in several forms: which parser is it for?

Told by content only; what is none of the forms is refused with the reason of each.
Evidence: that of the parsers behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fabric_tools.models.base import Fact
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.fabricmanager import parse_fabricmanager_version
from fabric_tools.parsers.fabricmanager_log import parse_fabricmanager_log
from fabric_tools.parsers.nvlink import parse_nvlink_status
from fabric_tools.parsers.nvlink_errors import parse_nvlink_errors
from fabric_tools.parsers.smi_text import parse_gpu_inventory_text
from fabric_tools.parsers.smi_xml import parse_gpu_inventory_xml
from fabric_tools.parsers.systemd import parse_unit_state

_COUNTER = re.compile(r"(?m)^\s*Link \d{1,3}: [A-Z][\w ]{0,40}Errors?: ")


def parse_smi_q(text: str) -> Fact:
    """``nvidia-smi -q``, as XML or as text."""
    if "<nvidia_smi_log" in text or text.lstrip("\ufeff \t\r\n").startswith("<?xml"):
        return parse_gpu_inventory_xml(text)
    return parse_gpu_inventory_text(text)


def parse_nvlink(text: str) -> Fact:
    """``nvidia-smi nvlink``, with ``-s`` or ``-e``."""
    return parse_nvlink_errors(text) if _COUNTER.search(text) else parse_nvlink_status(text)


def parse_fabricmanager(text: str) -> Fact:
    """Version, state of the service, or log of the fabric manager."""
    forms: tuple[tuple[str, Callable[[str], Fact]], ...] = (
        ("version", parse_fabricmanager_version),
        ("service", parse_unit_state),
        ("log", parse_fabricmanager_log),
    )
    reasons = []
    for name, parse in forms:
        try:
            return parse(text)
        except ParseError as error:
            reasons.append(f"{name}: {error.why[:80]}")
    raise ParseError("fabricmanager", 0, "; ".join(reasons))
