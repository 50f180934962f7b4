"""Who the host is: `/etc/os-release`, the DMI product name, `uname -r`.

Evidence: os-release(5) and a Linux host; one DMI product name re-rendered from facts (a VM).
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import DmiProduct, KernelRelease, OsRelease
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

_ASSIGN = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)$")
_ESCAPED = re.compile(r'\\([\\"$`])')
_ERROR = re.compile(
    r".*(?:No such file or directory|Permission denied|Is a directory|Input/output error"
    r"|command not found|cannot open|cannot access)"
)
_RELEASE = re.compile(r"\d{1,3}\.\d{1,4}[\w.+~-]{0,120}", re.ASCII)


def _unquoted(value: str, number: int) -> str:
    value = value.strip()
    if not value or value[0] not in "\"'":
        return value
    if len(value) < 2 or value[-1] != value[0]:
        raise ParseError("os_release", number, "a quote that does not end")
    inner = value[1:-1]
    return _ESCAPED.sub(r"\1", inner) if value[0] == '"' else inner


def parse_os_release(text: str) -> OsRelease:
    """ID and VERSION_ID must be there; a rolling release without VERSION_ID is not supported."""
    values: dict[str, tuple[str, int]] = {}
    for number, line in numbered(read_lines("os_release", text, max_lines=1000)):
        if line.lstrip().startswith("#"):
            continue
        match = _ASSIGN.match(line.strip())
        if match is None:
            raise ParseError("os_release", number, f"not NAME=value: {line[:60]!r}")
        values[match[1]] = (_unquoted(match[2], number), number)
    ident, version = values.get("ID", ("", 0)), values.get("VERSION_ID", ("", 0))
    if not ident[0] or not version[0]:
        raise ParseError("os_release", 0, "ID or VERSION_ID is missing")
    return OsRelease(
        id=ident[0],
        version_id=version[0],
        pretty_name=values.get("PRETTY_NAME", ("", 0))[0],
        line=ident[1],
    )


def _one_line(text: str, probe: str) -> tuple[str, int]:
    told = [(line.strip(), n) for n, line in numbered(read_lines(probe, text, max_lines=1000))]
    if len(told) != 1:
        raise ParseError(probe, 0, f"{len(told)} lines where one is printed")
    if _ERROR.match(told[0][0]):
        raise ParseError(probe, told[0][1], f"not readable: {told[0][0][:80]}")
    return told[0]


def parse_dmi_product(text: str) -> DmiProduct:
    """The name as the firmware tells it, also where it is a placeholder."""
    name, line = _one_line(text, "dmi_product")
    if len(name) > 200 or not name.isprintable():
        raise ParseError("dmi_product", line, "not a product name")
    return DmiProduct(product_name=name, line=line)


def parse_kernel_release(text: str) -> KernelRelease:
    """One word such as ``6.8.0-71-generic``; ``uname -a`` has more and is refused."""
    release, line = _one_line(text, "kernel_release")
    if not _RELEASE.fullmatch(release):
        raise ParseError("kernel_release", line, f"not the answer of uname -r: {release[:60]!r}")
    return KernelRelease(release=release, line=line)
