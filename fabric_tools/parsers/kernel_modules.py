"""`/proc/modules`, the table of `lsmod`, or `/sys/module`: modules that are loaded now.

Evidence: the format of proc(5), checked on a Linux host without NVIDIA hardware; of sysfs the
kernel's own description (Documentation/ABI/testing/sysfs-module).
"""

from __future__ import annotations

import re

from fabric_tools.models.facts import KernelModules
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import load_json, object_of, text_of
from fabric_tools.parsers.saved import bare_lines

PROBE = "kernel_modules"

# name size refs deps state address [taint]
_PROC = re.compile(
    r"(\w[\w-]{0,127}) \d+ (?:\d+|-) \S+ (?:Live|Loading|Unloading) 0x[0-9a-f]{8,16}"
    r"(?: \([A-Z+-]+\))?$",
    re.ASCII,
)
_LSMOD_HEAD = re.compile(r"Module\s+Size\s+Used by$")
_LSMOD = re.compile(r"(\w[\w-]{0,127})\s+\d+\s+-?\d+(?:\s+\S+)?$", re.ASCII)


def parse_kernel_modules(text: str) -> KernelModules:
    """Every line must be whole: a module missing from a cut list would read as not loaded."""
    lines = bare_lines(PROBE, text)
    start = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    row = _PROC
    if start < len(lines) and _LSMOD_HEAD.match(lines[start]):
        start, row = start + 1, _LSMOD
        if lines[-1]:
            raise ParseError(PROBE, len(lines), "cut: the last line has no newline")
    names: dict[str, int] = {}
    for number, line in enumerate(lines[start:], start=start + 1):
        if not line:
            continue
        match = row.match(line)
        if match is None:
            raise ParseError(PROBE, number, f"not a line of /proc/modules: {line[:80]!r}")
        if match[1] in names:
            raise ParseError(PROBE, number, f"{match[1]} stands there twice")
        names[match[1]] = number
    if not names:
        raise ParseError(PROBE, 0, "no module at all")
    return KernelModules(lines=names)


_INITSTATE = re.compile(r"/sys/module/(\w[\w-]{0,127})/initstate$", re.ASCII)


def parse_sys_modules(text: str) -> KernelModules:
    """JSON of ``/sys/module/NAME/initstate``: only what was loaded has that file.

    A module that is on its way in or out counts as loaded, as it does in ``/proc/modules``.
    """
    files = object_of("sys_modules", load_json("sys_modules", text), "the text")
    names: dict[str, int] = {}
    for path in files:
        match = _INITSTATE.match(path)
        state = text_of("sys_modules", object_of("sys_modules", files[path], path[:80]), "text")
        if match is None or state not in ("live\n", "coming\n", "going\n"):
            raise ParseError("sys_modules", 0, f"{path[:80]} says {(state or '')[:40]!r}")
        names[match[1]] = 0
    if not names:
        raise ParseError("sys_modules", 0, "no module at all")
    return KernelModules(lines=names)
