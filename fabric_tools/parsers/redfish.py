"""Redfish resources of a BMC: thermal, PCIe device, processor, metrics, sensor, Dell GPU sensors.

Evidence: six real replies (Supermicro HGX A100, Dell XE9680 with H200, an HGX H100 baseboard).
"""

from __future__ import annotations

import re

from fabric_tools.models.bmc import Redfish, RedfishGpuSensor, RedfishReading
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_bool,
    as_dict,
    as_float,
    as_int,
    as_list,
    as_str,
    json_start,
    load_json,
    read_lines,
)

PROBE = "redfish"

_TYPE = re.compile(r"#(\w{1,80})\.(?:v\d{1,3}_\d{1,3}_\d{1,3}\.)?\w{1,80}$", re.ASCII)
_GEN = re.compile(r"Gen([1-9])$", re.ASCII)
_PCI_PATH = re.compile(r"/PCIeDevices/(\d{1,3})-\d{1,3}(?:/|$)", re.ASCII)

Json = dict[str, object]


def _reading(entry: Json, key: str, unit: str, line: int) -> RedfishReading:
    status = as_dict(entry.get("Status"))
    state = as_str(status.get("State"))
    absent = state in ("Absent", "Disabled", "UnavailableOffline", "StandbyOffline")
    name = as_str(entry.get("Name")) or as_str(entry.get("FanName"))
    if name is None:
        raise ParseError(PROBE, line, "a sensor without a name")
    return RedfishReading(
        line=line,
        name=name,
        value=None if absent else as_float(entry.get(key)),
        unit=as_str(entry.get("ReadingUnits")) or unit,
        state=state,
        health=as_str(status.get("Health")),
    )


def _readings(root: Json, name: str, key: str, unit: str, text: str) -> tuple[RedfishReading, ...]:
    finder = Finder(text)
    finder.key(name)
    entries = [as_dict(entry) for entry in as_list(root.get(name))]
    return tuple(
        _reading(entry, key, unit, finder.key(as_str(entry.get("Name")) or "Name"))
        for entry in entries
    )


def _watts(entry: Json, key: str) -> float | None:
    value = as_float(entry.get(key))
    return None if value is None else value / 1000


def _gpu_sensors(root: Json, text: str) -> tuple[RedfishGpuSensor, ...]:
    finder, found = Finder(text), []
    for member in as_list(root.get("Members")):
        entry = as_dict(member)
        name = as_str(entry.get("Id"))
        if name is None:
            raise ParseError(PROBE, finder.current, "members without their contents; use $expand")
        found.append(
            RedfishGpuSensor(
                line=finder.key(name),
                id=name,
                gpu_c=as_float(entry.get("PrimaryGPUTemperatureCelsius")),
                memory_c=as_float(entry.get("MemoryTemperatureCelsius")),
                power_w=_watts(entry, "PowerConsumptionmW"),
                power_cap_w=_watts(entry, "CurrentPowerCapLimitMilliWatts"),
                supply=as_str(entry.get("BoardPowerSupplyStatus")),
                brake=as_str(entry.get("PowerBrakeStatus")),
                thermal_alert=as_str(entry.get("ThermalAlertStatus")),
            )
        )
    count = as_int(root.get("Members@odata.count"))
    if count is not None and count != len(found):
        raise ParseError(PROBE, 0, f"{len(found)} members where {count} are announced")
    return tuple(found)


def _gen(value: object) -> int | None:
    """``Gen5`` and 5; ``Gen-1`` and ``Gen0`` mean unknown."""
    number = as_int(value)
    if number is None:
        match = _GEN.match(as_str(value) or "")
        number = int(match[1]) if match else None
    return number if number is not None and 0 < number < 10 else None


def _pcie(root: Json, vendor: Json) -> dict[str, int | None]:
    interface = as_dict(root.get("PCIeInterface"))
    lanes = as_int(interface.get("LanesInUse"))
    errors = as_dict(root.get("PCIeErrors"))
    return {
        "pcie_gen": _gen(interface.get("PCIeType", vendor.get("CurrentPCIeLinkSpeed"))),
        "pcie_gen_max": _gen(interface.get("MaxPCIeType", vendor.get("MaxSupportedPCIeLinkSpeed"))),
        "pcie_lanes": lanes if lanes is not None and lanes > 0 else None,
        "pcie_correctable": as_int(errors.get("CorrectableErrorCount")),
    }


def _vendor(root: Json) -> Json:
    merged: Json = {}
    for part in as_dict(root.get("Oem")).values():
        merged.update(as_dict(part))
    return merged


def _metrics(root: Json, resource: str, text: str) -> tuple[RedfishReading, ...]:
    found = []
    named = (
        ("TemperatureCelsius", "Cel"),
        ("ConsumedPowerWatt", "W"),
        ("OperatingSpeedMHz", "MHz"),
    )
    for key, unit in named:
        value = as_float(root.get(key))
        if value is not None:
            line = Finder(text).key(key)
            found.append(RedfishReading(line=line, name=key, value=value, unit=unit))
    if resource == "Sensor":
        found.append(_reading(root, "Reading", "", Finder(text).key("Reading")))
    return tuple(found)


def _implausible(vendor: Json) -> tuple[str, ...]:
    """Percents that are none."""
    percents = {k: as_float(v) for k, v in vendor.items() if k.endswith("Percent")}
    return tuple(k for k, v in percents.items() if v is not None and not 0 <= v <= 100)


def _pci_bus(root: Json) -> int | None:
    """Dell links the PCI device by its bus number in decimal."""
    links = as_dict(root.get("Links"))
    link = as_dict(links.get("PCIeDevice")) or as_dict(
        next(iter(as_list(as_dict(as_dict(links.get("Oem")).get("Dell")).get("PCIeDevices"))), None)
    )
    match = _PCI_PATH.search(as_str(link.get("@odata.id")) or "")
    return int(match[1]) if match else None


def parse_redfish(text: str) -> Redfish:
    """One resource; the fields that its kind has."""
    lines = read_lines(PROBE, text, max_lines=200_000, max_line=4 * MIB)
    start = json_start(lines)
    if start is None:
        raise ParseError(PROBE, 0, "no JSON")
    text = "\n".join(lines)
    root = as_dict(load_json(PROBE, "\n".join(lines[start:])))
    if "error" in root:
        said = as_str(as_dict(root["error"]).get("message")) or as_str(
            as_dict(root["error"]).get("code")
        )
        raise ParseError(PROBE, start + 1, f"the BMC said: {(said or 'error')[:160]}")
    match = _TYPE.match(as_str(root.get("@odata.type")) or "")
    if match is None:
        raise ParseError(PROBE, start + 1, "no @odata.type of a Redfish resource")
    status, vendor = as_dict(root.get("Status")), _vendor(root)
    related = [as_str(as_dict(item).get("@odata.id")) for item in as_list(root.get("RelatedItem"))]
    return Redfish.model_validate(
        {
            "resource": match[1],
            "line": Finder(text).key("@odata.type"),
            "path": as_str(root.get("@odata.id")),
            "id": as_str(root.get("Id")),
            "model": as_str(root.get("Model")),
            "firmware": as_str(root.get("FirmwareVersion")),
            "processor_type": as_str(root.get("ProcessorType")),
            "enabled": as_bool(root.get("Enabled")),
            "state": as_str(status.get("State")),
            "health": as_str(status.get("Health")),
            "health_rollup": as_str(status.get("HealthRollup")),
            "pci_bus": _pci_bus(root),
            **_pcie(root, vendor),
            "related": tuple(path for path in related if path),
            "temperatures": _readings(root, "Temperatures", "ReadingCelsius", "Cel", text),
            "fans": _readings(root, "Fans", "Reading", "RPM", text),
            "readings": _metrics(root, match[1], text),
            "gpu_sensors": _gpu_sensors(root, text)
            if match[1] == "DellGPUSensorCollection"
            else (),
            "throttle": tuple(w for w in map(as_str, as_list(vendor.get("ThrottleReasons"))) if w),
            "implausible": _implausible(vendor),
        }
    )
