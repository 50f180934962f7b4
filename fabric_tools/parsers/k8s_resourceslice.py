"""``kubectl get resourceslices`` as YAML, JSON or table: devices that DRA drivers offer.

Evidence: one real YAML list of two nodes (resource.k8s.io/v1). JSON is the same object; the nested
``basic`` of v1beta1 and the table follow the API (format unverified).
"""

from __future__ import annotations

from typing import Any

from fabric_tools.models.cluster import DraDevice, ResourceSlice, ResourceSlices
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import Finder, as_int, list_of, load_json, object_of, text_of
from fabric_tools.parsers.k8s_table import cell, last_line_ends, read_table
from fabric_tools.parsers.k8s_yaml import Block, load_yaml

PROBE = "k8s_resourceslice"
_MAX = 5000


def _line(item: dict[str, Any], name: str, finder: Finder) -> int:
    """Where the object has its name."""
    return item.lines.get("name", 0) if isinstance(item, Block) else finder.key(name)


def _object(value: Any, what: str) -> dict[str, Any]:
    return {} if value is None else object_of(PROBE, value, what)


def _attributes(device: dict[str, Any]) -> dict[str, str]:
    """Attribute -> value, without the domain in front; each is {string: x}, {version: x} ..."""
    found: dict[str, str] = {}
    for name, value in _object(device.get("attributes"), "attributes").items():
        for word in _object(value, name[:60]).values():
            if isinstance(word, str | int):
                found[name.rpartition("/")[2]] = str(word)
    return found


def _memory(device: dict[str, Any]) -> str | None:
    value = _object(device.get("capacity"), "capacity").get("memory")
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) and value else None


def _device(value: Any, finder: Finder) -> DraDevice:
    item = object_of(PROBE, value, "a device")
    name = text_of(PROBE, item, "name")
    if name is None:
        raise ParseError(PROBE, 0, "a device without a name (cut?)")
    body = _object(item["basic"], "basic") if "basic" in item else item
    said = _attributes(body)
    return DraDevice(
        line=_line(item, name, finder),
        name=name,
        type=said.get("type"),
        uuid=said.get("uuid"),
        product=said.get("productName"),
        driver_version=said.get("driverVersion"),
        pci_bus_id=said.get("pciBusID"),
        memory=_memory(body),
    )


def _slice(value: Any, finder: Finder) -> ResourceSlice:
    item = object_of(PROBE, value, "an entry")
    if item.get("kind", "ResourceSlice") != "ResourceSlice":
        raise ParseError(PROBE, 0, f"not a ResourceSlice but {item.get('kind')!r:.60}")
    metadata = _object(item.get("metadata"), "metadata")
    spec = _object(item.get("spec"), "spec")
    pool = _object(spec.get("pool"), "pool")
    name, driver = text_of(PROBE, metadata, "name"), text_of(PROBE, spec, "driver")
    if name is None or driver is None or text_of(PROBE, pool, "name") is None:
        raise ParseError(PROBE, 0, f"{name}: no name, driver or pool (cut?)")
    line = _line(metadata, name, finder)
    devices = list_of(PROBE, spec.get("devices") or [], "devices")
    return ResourceSlice(
        line=line,
        name=name,
        driver=driver,
        node=text_of(PROBE, spec, "nodeName"),
        pool=text_of(PROBE, pool, "name"),
        generation=as_int(pool.get("generation")),
        pool_slices=as_int(pool.get("resourceSliceCount")),
        devices=tuple(_device(device, finder) for device in devices),
    )


def _pools_whole(slices: list[ResourceSlice]) -> bool:
    counted: dict[tuple[str, str | None, int | None], list[ResourceSlice]] = {}
    for item in slices:
        counted.setdefault((item.driver, item.pool, item.generation), []).append(item)
    newest: dict[tuple[str, str | None], int] = {}
    for driver, pool, generation in counted:
        newest[driver, pool] = max(newest.get((driver, pool), 0), generation or 0)
    return all(
        all(item.pool_slices == len(items) for item in items)
        for (driver, pool, generation), items in counted.items()
        if newest[driver, pool] == (generation or 0)
    )


def _from_table(text: str) -> ResourceSlices:
    rows = read_table(PROBE, text, ("NAME", "NODE", "DRIVER", "POOL"))
    slices = tuple(
        ResourceSlice(
            line=number, name=row["NAME"], driver=row["DRIVER"], node=cell(row, "NODE"),
            pool=cell(row, "POOL"),
        )
        for number, row in rows
    )  # fmt: skip
    return ResourceSlices(slices=slices, complete=last_line_ends(text))


def parse_k8s_resourceslice(text: str) -> ResourceSlices:
    """Slices in order, with their devices where the form lists them."""
    as_json = text.lstrip("\ufeff \t\r\n")[:1] == "{"
    if not as_json and "apiVersion:" not in text:
        return _from_table(text)
    root = object_of(PROBE, (load_json if as_json else load_yaml)(PROBE, text), "the text")
    finder = Finder(text)
    whole = root.get("kind") is not None
    items = list_of(PROBE, root["items"] or [], "items") if "items" in root else [root]
    if "items" not in root and root.get("kind") != "ResourceSlice":
        raise ParseError(PROBE, 0, f"neither a list nor a ResourceSlice: {root.get('kind')!r:.60}")
    if len(items) > _MAX:
        raise ParseError(PROBE, 0, f"more than {_MAX} slices")
    slices = [_slice(item, finder) for item in items]
    if len({item.name for item in slices}) != len(slices):
        raise ParseError(PROBE, 0, "a slice stands there twice")
    return ResourceSlices(slices=tuple(slices), complete=whole and _pools_whole(slices))
