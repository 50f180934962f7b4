"""`modinfo nvidia`: the module file on disk.

Evidence: real texts of the proprietary 535, the open 580 and a B300 node's 610 (a selection of
lines each).
"""

from __future__ import annotations

import re
from typing import Literal

from fabric_tools.models.system import ModuleFile
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines
from fabric_tools.parsers.saved import bare

PROBE = "modinfo"

_FIELD = re.compile(r"([a-z_]{2,20}):\s+(\S.*)$")
_READ = ("version", "license", "filename", "srcversion", "vermagic", "signer", "name")
_VERSION = re.compile(r"\d{3,4}(?:\.\d{1,6}){1,3}", re.ASCII)
_PATH = re.compile(r"/lib/modules/([^/]{1,120})/")
_FLAVOURS: dict[str, Literal["open", "proprietary"]] = {
    "NVIDIA": "proprietary",
    "Dual MIT/GPL": "open",
}


def parse_modinfo(text: str) -> ModuleFile:
    """The fields of the one module."""
    found: dict[str, tuple[str, int]] = {}
    lines = read_lines(PROBE, bare(text))
    for number, line in numbered(lines):
        if "modinfo: ERROR" in line or "command not found" in line:
            raise ParseError(PROBE, number, f"modinfo said: {line.strip()[:160]}")
        match = _FIELD.match(line.strip())
        if match is None or match[1] not in _READ:
            continue
        if match[1] in found:
            raise ParseError(PROBE, number, f"{match[1]} stands there twice (two modules?)")
        found[match[1]] = (match[2].strip(), number)

    def get(name: str) -> str | None:
        return found.get(name, (None, 0))[0]

    version = get("version")
    if version is None:
        raise ParseError(PROBE, 0, "no line 'version:'")
    if found["version"][1] == len(lines):
        raise ParseError(PROBE, len(lines), "cut: the last line has no newline")
    if not _VERSION.fullmatch(version):
        raise ParseError(PROBE, found["version"][1], f"not a driver version: {version[:40]!r}")
    filename, vermagic = get("filename"), get("vermagic")
    if filename is not None and not re.search(r"/nvidia\.ko(?:\.\w{2,4})?$", filename):
        raise ParseError(PROBE, found["filename"][1], f"not nvidia.ko: {filename[:80]!r}")
    path = _PATH.search(filename or "")
    return ModuleFile(
        version=version,
        line=found["version"][1],
        license=get("license"),
        flavour=_FLAVOURS.get(get("license") or ""),
        filename=filename,
        kernel=vermagic.split()[0] if vermagic else path[1] if path else None,
        dkms=None if filename is None else "/dkms/" in filename,
        srcversion=get("srcversion"),
        signer=get("signer"),
    )
