"""Facts that the BMC tells: sensors and Redfish resources.

``None``: the text does not say. It never means zero or off.
"""

from __future__ import annotations

from fabric_tools.models.base import Fact, Model


class IpmiSensor(Model):
    """One row; ``value`` is None for "no reading" and for rows that are no number."""

    line: int
    name: str
    value: float | None
    unit: str | None = None
    text: str
    status: str


class IpmiSensors(Fact):
    """``ipmitool sdr list`` or ``sdr elist``."""

    sensors: tuple[IpmiSensor, ...]


class RedfishReading(Model):
    """One sensor. ``value`` is None where it is absent: an absent fan reads 0, it did not stop."""

    line: int
    name: str
    value: float | None
    unit: str
    state: str | None = None
    health: str | None = None


class RedfishGpuSensor(Model):
    """One member of Dell's GPU sensor collection. Milliwatts are converted."""

    line: int
    id: str
    gpu_c: float | None = None
    memory_c: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    supply: str | None = None
    brake: str | None = None
    thermal_alert: str | None = None


class Redfish(Fact):
    """One Redfish resource. ``resource`` is the schema's name; fields that it lacks are None."""

    resource: str
    line: int
    path: str | None = None
    id: str | None = None
    model: str | None = None
    firmware: str | None = None
    processor_type: str | None = None
    enabled: bool | None = None
    state: str | None = None
    health: str | None = None
    health_rollup: str | None = None
    pci_bus: int | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_lanes: int | None = None
    pcie_correctable: int | None = None
    related: tuple[str, ...] = ()
    temperatures: tuple[RedfishReading, ...] = ()
    fans: tuple[RedfishReading, ...] = ()
    readings: tuple[RedfishReading, ...] = ()
    gpu_sensors: tuple[RedfishGpuSensor, ...] = ()
    throttle: tuple[str, ...] = ()
    implausible: tuple[str, ...] = ()
