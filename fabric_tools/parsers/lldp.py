"""``lldpcli show neighbors -f json0`` (every value a list) and ``-f json`` (objects by name).

Evidence: real json0 of two sites (servers and SONiC leaves as neighbours); json re-rendered from
facts. The text form is read in ``lldp_text``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric_tools.models.network import LldpNeighbour, LldpNeighbours
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import Finder, load_json, object_of
from fabric_tools.parsers.lldp_text import parse_lldp_text

PROBE = "lldp"
_MAX = 2000


def _object(value: Any, what: str) -> dict[str, Any]:
    return object_of(PROBE, value, what)


def _one(value: Any, what: str) -> Any:
    """json0 puts one thing into a list of one."""
    if not isinstance(value, list):
        return value
    if len(value) > 1:
        raise ParseError(PROBE, 0, f"more than one {what}")
    return value[0] if value else None


def _text(value: Any, what: str) -> str | None:
    """A string, bare or as {"value": ...}, alone or in a list of one."""
    value = _one(value, what)
    if isinstance(value, dict):
        value = value.get("value")
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ParseError(PROBE, 0, f"{what} is not a string")
    return value


def _texts(value: Any, what: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(word for item in items[:64] if (word := _text(item, what)) is not None)


def _id(value: Any, what: str) -> tuple[str | None, str | None]:
    item = _one(value, what)
    if item is None:
        return None, None
    pair = _object(item, what)
    return _text(pair.get("value"), what), _text(pair.get("type"), what)


def _capabilities(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [] if value is None else [value]
    enabled: list[str] = []
    for item in items[:64]:
        pair = _object(item, "capability")
        name, on = _text(pair.get("type"), "capability type"), pair.get("enabled")
        if not isinstance(on, bool):
            raise ParseError(PROBE, 0, "capability: enabled is neither true nor false")
        if on and name:
            enabled.append(name)
    return tuple(enabled)


def _chassis(value: Any) -> dict[str, Any]:
    """json keys it by the system's name; json0 (and json without a name) holds it directly."""
    item = _object(_one(value, "chassis"), "chassis")
    held = item.get("id")
    if isinstance(held, list) or (isinstance(held, dict) and "type" in held):
        return item
    if len(item) != 1:
        raise ParseError(PROBE, 0, "chassis: no id and no single system name")
    (name, inner), *_ = item.items()
    return {"name": name, **_object(inner, "chassis")}


def _interfaces(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    items = value if isinstance(value, list) else [value]
    for item in items:
        entry = _object(item, "interface")
        name = entry.get("name")
        if isinstance(name, str):
            yield name, entry
            continue
        for key, inner in entry.items():
            yield key, _object(inner, f"interface {key[:40]}")


def _neighbour(name: str, entry: dict[str, Any], line: int) -> LldpNeighbour:
    if "chassis" not in entry or "port" not in entry:
        raise ParseError(PROBE, line, f"{name[:40]}: no chassis or no port")
    chassis, port = _chassis(entry["chassis"]), _object(_one(entry["port"], "port"), "port")
    chassis_id, chassis_type = _id(chassis.get("id"), "chassis id")
    port_id, port_type = _id(port.get("id"), "port id")
    return LldpNeighbour(
        line=line,
        interface=name,
        via=_text(entry.get("via"), "via"),
        system_name=_text(chassis.get("name"), "system name"),
        system_descr=_text(chassis.get("descr"), "system description"),
        chassis_id=chassis_id,
        chassis_id_type=chassis_type,
        port_id=port_id,
        port_id_type=port_type,
        port_descr=_text(port.get("descr"), "port description"),
        management_addresses=_texts(chassis.get("mgmt-ip"), "mgmt-ip"),
        capabilities=_capabilities(chassis.get("capability")),
    )


def parse_lldp(text: str) -> LldpNeighbours:
    """Every neighbour; an interface may have several."""
    if text.lstrip("\ufeff \t\r\n")[:1] != "{":
        return parse_lldp_text(text)
    top = _object(load_json(PROBE, text), "the text")
    if "lldp" not in top:
        raise ParseError(PROBE, 0, "no lldp object: not lldpcli show neighbors")
    json0 = isinstance(top["lldp"], list)
    body = _one(top["lldp"], "lldp")
    body = {} if body is None else _object(body, "lldp")
    if set(body) - {"interface"}:
        raise ParseError(PROBE, 0, f"not the neighbours but {sorted(body)[0][:40]!r}")
    lines = Finder(text)
    found: list[LldpNeighbour] = []
    for name, entry in _interfaces(body.get("interface", [])):
        if len(found) >= _MAX:
            raise ParseError(PROBE, 0, f"more than {_MAX} neighbours")
        found.append(_neighbour(name, entry, lines.key(name)))
    return LldpNeighbours(format="json0" if json0 else "json", neighbours=tuple(found))
