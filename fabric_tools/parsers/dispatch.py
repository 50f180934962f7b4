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
from fabric_tools.parsers.fabricmanager_status import parse_fabricmanager_status
from fabric_tools.parsers.kernel_log import parse_kernel_log
from fabric_tools.parsers.lspci import parse_pci_devices
from fabric_tools.parsers.nvlink import parse_nvlink_status
from fabric_tools.parsers.nvlink_errors import parse_nvlink_errors
from fabric_tools.parsers.saved import bare, bare_lines
from fabric_tools.parsers.smi_fabric import BANNER, is_xml, parse_fabric_states
from fabric_tools.parsers.smi_text import MAX_LINES, parse_gpu_inventory_text
from fabric_tools.parsers.smi_xml import parse_gpu_inventory_xml

_COUNTER = re.compile(r"\s*Link \d{1,3}: [A-Z][\w -]{0,60}: ")


def parse_smi_q(text: str) -> Fact:
    """``nvidia-smi -q``, as XML or as text; of an excerpt its Fabric blocks."""
    if text.count("\n") >= MAX_LINES:
        raise ParseError("nvidia_smi_q", 0, f"more than {MAX_LINES} lines")
    text = bare(text)
    if is_xml(text):
        return parse_gpu_inventory_xml(text)
    if BANNER in text:
        return parse_gpu_inventory_text(text)
    return parse_fabric_states(text)


def parse_nvlink(text: str) -> Fact:
    """``nvidia-smi nvlink``, with ``-s`` or ``-e``."""
    lines = bare_lines("nvidia_smi_nvlink", text, 50_000)
    counters = any(_COUNTER.match(line) for line in lines)
    return parse_nvlink_errors(text) if counters else parse_nvlink_status(text)


def parse_fabricmanager(text: str) -> Fact:
    """Version, state of the service, or log of the fabric manager."""
    forms: tuple[tuple[str, tuple[str, ...], Callable[[str], Fact]], ...] = (
        ("version", ("Fabric Manager version",), parse_fabricmanager_version),
        ("service", ("Active: ", "ActiveState=", "could not be found"), parse_fabricmanager_status),
        ("log", ("",), parse_fabricmanager_log),
    )
    reasons = []
    for name, words, parse in forms:
        if not any(word in text for word in words):
            continue
        try:
            return parse(text)
        except ParseError as error:
            reasons.append(f"{name}: {error.why[:80]}")
    raise ParseError("fabricmanager", 0, "; ".join(reasons))


def parse_lspci(text: str) -> Fact:
    """``lspci``, or the kernel's own words about a slot that is narrower than its card."""
    try:
        return parse_pci_devices(text)
    except ParseError:
        if "available PCIe bandwidth" not in text:
            raise
        return parse_kernel_log(text)
