"""Any output of `dcgmi`: which command printed it is told by what stands in it.

Evidence: see the modules ``dcgm_diag_text``, ``dcgm_diag_json``, ``dcgm_nvlink``, ``dcgm_tables``.
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import (
    DcgmDiag,
    DcgmDiscovery,
    DcgmHealth,
    DcgmNvlinkErrors,
    DcgmNvlinkStatus,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, read_lines
from fabric_tools.parsers.dcgm_diag_json import parse_dcgm_diag_json
from fabric_tools.parsers.dcgm_diag_text import parse_dcgm_diag_text
from fabric_tools.parsers.dcgm_nvlink import parse_dcgm_nvlink_errors, parse_dcgm_nvlink_status
from fabric_tools.parsers.dcgm_nvlink_table import parse_dcgm_nvlink_table
from fabric_tools.parsers.dcgm_tables import parse_dcgm_discovery, parse_dcgm_health
from fabric_tools.parsers.saved import bare

PROBE = "dcgmi"

_FOUND = re.compile(r"(?m)^\s*\d{1,4} GPUs? found\.", re.ASCII)
_LINKS = re.compile(r"(?m)^\s{0,20}gpuId \d{1,4}:\s*$", re.ASCII)


def parse_dcgm_diag(text: str) -> DcgmDiag:
    """`dcgmi diag` in either form."""
    if '"DCGM Diagnostic"' in text or '"DCGM GPU Diagnostic"' in text:
        return parse_dcgm_diag_json(text)
    return parse_dcgm_diag_text(text)


def parse_dcgmi(
    text: str,
) -> DcgmDiag | DcgmNvlinkStatus | DcgmNvlinkErrors | DcgmHealth | DcgmDiscovery:
    """The fact of whichever command it was."""
    lines = read_lines(PROBE, bare(text), max_lines=200_000, max_line=4 * MIB)
    if '"DCGM ' in text or any(line.strip().startswith("| Diagnostic ") for line in lines):
        return parse_dcgm_diag(text)
    if '"NVLINK Error Counts"' in text:
        return parse_dcgm_nvlink_errors(text)
    if "NVLINK Error Counts" in text:
        return parse_dcgm_nvlink_table(text)
    if "Overall Health" in text or "Health watches not enabled" in text:
        return parse_dcgm_health(text)
    if any(_FOUND.match(line) for line in lines):
        return parse_dcgm_discovery(text)
    if any(_LINKS.match(line) for line in lines):
        return parse_dcgm_nvlink_status(text)
    said = next((line.strip() for line in lines if line.lstrip().startswith("Error")), None)
    raise ParseError(PROBE, 0, f"not a known answer of dcgmi{f': {said[:200]}' if said else ''}")
