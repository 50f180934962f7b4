"""`k3s check-config`: kernel options and system settings.

Evidence: real texts of three hosts, one cut and one elided by its author. The failing STATUS line
follows the script's source (format unverified).
"""

from __future__ import annotations

import re
from typing import Literal

from fabric_tools.models.cluster import K3sCheckConfig, K3sConfigItem
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "k3s_check_config"

_SECTION = re.compile(
    r"(System|Limits|Generally Necessary|Optional Features|Verifying binaries)\b.*:$"
)
_ITEM = re.compile(r"\s*- (\"?[^:]{1,300}?\"?):(?: (.{1,300}))?$")
_STATUS = re.compile(r"STATUS: (pass|fail|\d{1,4}(?: \(fail\))?)$", re.ASCII)
_ELIDED = re.compile(r"\s*(?:\.\.\.|\u2026|\[\.\.\.\])$")
_NEEDED = {"System", "Generally Necessary", "Optional Features"}


def parse_k3s_check_config(text: str) -> K3sCheckConfig:
    """Items by section, and the STATUS line at the end."""
    items: list[K3sConfigItem] = []
    sections: list[str] = []
    status: tuple[Literal["pass", "fail"], int] | None = None
    elided = False
    for number, line in numbered(read_lines(PROBE, text, max_lines=5000)):
        if match := _SECTION.match(line):
            sections.append(match[1])
        elif match := _STATUS.match(line.strip()):
            if status is not None:
                raise ParseError(PROBE, number, "two STATUS lines")
            status = ("pass" if match[1] in ("pass", "0") else "fail", number)
        elif line.startswith("STATUS:"):
            raise ParseError(PROBE, number, f"unknown status {line[:60]!r}")
        elif _ELIDED.match(line):
            elided = True
        elif sections and (match := _ITEM.match(line)):
            items.append(
                K3sConfigItem(
                    line=number, section=sections[-1], name=match[1].strip('"'),
                    state=(match[2] or "").strip(),
                )
            )  # fmt: skip
    if not items or not _NEEDED & set(sections):
        raise ParseError(PROBE, 0, "not the output of k3s check-config")
    if len(set(sections)) != len(sections):
        raise ParseError(PROBE, 0, "a section stands there twice")
    return K3sCheckConfig(
        status=status[0] if status else None,
        status_line=status[1] if status else None,
        items=tuple(items),
        complete=status is not None and not elided and set(sections) >= _NEEDED,
    )
