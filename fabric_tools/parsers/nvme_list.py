"""``nvme list -o json``: flat (nvme-cli 1.x and 2.0 to 2.10) or by subsystem (``-v``, 2.11).

Evidence: texts in public reports and in tests of other tools, none of a GPU node: format
unverified.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric_tools.models.storage import NvmeDevices, NvmeNamespace
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    first_words,
    int_of,
    json_start,
    list_of,
    load_json,
    object_of,
    read_lines,
    text_of,
)

PROBE = "nvme_list"
_MAX = 5000

Json = dict[str, Any]


def _objects(value: Any, what: str) -> list[Json]:
    return [object_of(PROBE, item, what) for item in list_of(PROBE, value or [], what)]


def _size(item: Json, key: str) -> int | None:
    """Some releases printed the low 32 bits with a sign: that is no size."""
    value = int_of(PROBE, item, key)
    return value if value is not None and value >= 0 else None


def _word(item: Json, key: str) -> str | None:
    value = (text_of(PROBE, item, key) or "").strip()
    return value or None


def _namespace(item: Json, owner: Json, path: str, nsid: int | None) -> NvmeNamespace:
    return NvmeNamespace(
        line=0,
        path=path,
        nsid=nsid,
        serial=_word(owner, "SerialNumber"),
        model=_word(owner, "ModelNumber"),
        firmware=_word(owner, "Firmware"),
        transport=_word(owner, "Transport"),
        address=_word(owner, "Address"),
        size_bytes=_size(item, "PhysicalSize"),
        used_bytes=_size(item, "UsedBytes"),
        sector_bytes=_size(item, "SectorSize"),
    )


def _nested(host: Json) -> Iterator[NvmeNamespace | str]:
    for subsystem in _objects(host.get("Subsystems"), "a subsystem"):
        controllers = _objects(subsystem.get("Controllers"), "a controller")
        shared = _objects(subsystem.get("Namespaces"), "a namespace")
        for controller in controllers:
            own = _objects(controller.get("Namespaces"), "a namespace")
            for item in own:
                yield _below(item, controller)
            if not own and not shared and not controller.get("Paths"):
                yield _word(controller, "Controller") or ""
        for item in shared:
            yield _below(item, controllers[0] if controllers else {})


def _below(item: Json, controller: Json) -> NvmeNamespace:
    name = _word(item, "NameSpace") or _word(item, "Namespace")
    if name is None:
        raise ParseError(PROBE, 0, "a namespace without a name")
    return _namespace(item, controller, f"/dev/{name}", int_of(PROBE, item, "NSID"))


def parse_nvme_list(text: str) -> NvmeDevices:
    """Every namespace. An empty list is an answer: none."""
    lines = read_lines(PROBE, text, max_line=4 * 1024 * 1024)
    start = json_start(lines)
    if start is None:
        raise ParseError(PROBE, 0, f"no JSON: {first_words(lines)!r}")
    body = "\n".join(lines[start:])
    root = object_of(PROBE, load_json(PROBE, body, before=start), "the text")
    if "Devices" not in root:
        raise ParseError(PROBE, start + 1, "no Devices: not nvme list")
    found: list[NvmeNamespace] = []
    bare: list[str] = []
    finder = Finder("\n".join(lines))
    for item in _objects(root["Devices"], "a device"):
        if "Subsystems" in item:
            entries = list(_nested(item))
        elif (path := _word(item, "DevicePath")) is not None:
            nsid = item.get("NameSpace")
            entries = [_namespace(item, item, path, nsid if isinstance(nsid, int) else None)]
        else:
            raise ParseError(PROBE, 0, "a device with neither DevicePath nor Subsystems")
        for entry in entries:
            if isinstance(entry, str):
                bare.append(entry)
                continue
            key = entry.path if "Subsystems" not in item else entry.path.removeprefix("/dev/")
            found.append(entry.model_copy(update={"line": finder.key(key)}))
        if len(found) > _MAX:
            raise ParseError(PROBE, 0, f"more than {_MAX} namespaces")
    if len({entry.path for entry in found}) != len(found):
        raise ParseError(PROBE, 0, "a namespace stands there twice")
    return NvmeDevices(namespaces=tuple(found), bare=tuple(bare))
