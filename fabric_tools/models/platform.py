"""What a platform should be. One complete flat YAML file each, every value with its source."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from fabric_tools.models.base import Model

T = TypeVar("T")


class Sourced(Model, Generic[T]):
    """A value and where it comes from. There is no value without a source."""

    value: T
    source: str = Field(min_length=1)


class Match(Model):
    """How the detector knows this platform. All given lists must hold; matches are exact.

    ``dmi_products``: chassis names that this platform is; ``not_dmi_products``: chassis that have
    a file of their own.
    """

    gpu_products: tuple[str, ...] = Field(min_length=1)
    gpu_pci_ids: tuple[str, ...] = Field(min_length=1)
    dmi_products: tuple[str, ...] = ()
    not_dmi_products: tuple[str, ...] = ()


class GpuSpec(Model):
    """GPUs of the node. ``pcie_width`` in lanes; ``pcie_gen`` is the PCI Express generation."""

    count: Sourced[Annotated[int, Field(ge=1, le=64)]]
    product: Sourced[str]
    pci_id: Sourced[str]
    pcie_gen: Sourced[int]
    pcie_gt_s: Sourced[float]
    pcie_width: Sourced[int]
    ecc: Sourced[Literal["Enabled", "Disabled"]]
    row_remap: Sourced[bool]


class NvlinkSpec(Model):
    """NVLink inside the node. ``pair_kind`` is what ``topo -m`` prints between any two GPUs."""

    pair_kind: Sourced[str]
    links_per_gpu: Sourced[Annotated[int, Field(ge=0, le=64)]]
    link_gbytes_s: Sourced[float]
    link_gbytes_s_min: Sourced[float]


class FabricSpec(Model):
    """NVSwitch fabric. ``reports_state``: the driver prints Fabric State (not before Hopper)."""

    manager: Sourced[bool]
    reports_state: Sourced[bool]
    nvswitch_count: Sourced[Annotated[int, Field(ge=0, le=64)]]
    nvswitch_pci_id: Sourced[str]


class OsSpec(Model):
    """Distributions that this product puts state on, as ``ID VERSION_ID`` of os-release."""

    supported: Sourced[tuple[str, ...]]


class PlatformSpec(Model):
    """One platform file."""

    schema_version: Literal[1]
    kind: Literal["fabric-tools/platform"]
    id: str
    title: str
    match: Match
    gpu: GpuSpec
    nvlink: NvlinkSpec
    fabric: FabricSpec
    os: OsSpec
