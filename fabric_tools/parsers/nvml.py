"""JSON of the collector's NVML child (``node.nvml``).

Evidence: our own format; the calls behind it were run against a C double of the library, not yet
against a real GPU (format unverified on hardware).
"""

from __future__ import annotations

from pydantic import ValidationError

from fabric_tools.models.facts import NvmlInventory
from fabric_tools.parsers.base import ParseError


def parse_nvml(text: str) -> NvmlInventory:
    """What NVML said. Raises ``ParseError`` on anything but the child's whole JSON object."""
    try:
        return NvmlInventory.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "text"
        raise ParseError("nvml", 0, f"{field}: {first['msg']}"[:200]) from error
