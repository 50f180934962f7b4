"""What a site declares about one host. Nothing here follows from the hardware."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from fabric_tools.models.base import Model
from fabric_tools.models.verdict import Waiver


class Profile(Model):
    """What the site has chosen. ``fabric: none`` makes the roce phase not applicable."""

    fabric: Literal["roce", "infiniband", "none"] = "roce"
    k3s: Literal["embedded", "external", "none"] = "embedded"
    proxy: str | None = None
    ca_bundle: str | None = None


class Rail(Model):
    """One compute NIC: its netdev, RDMA device, planned address and subnet."""

    name: str
    netdev: str
    rdma_device: str
    address: str
    subnet: str


class HostVars(Model):
    """The variable ``fabric_host`` of one inventory host.

    ``platform`` is a platform id; without it the node is identified from its hardware.
    """

    schema_version: Literal[1] = 1
    platform: str | None = None
    stack: str | None = None
    profile: Profile = Profile()
    address: str | None = None
    rails: tuple[Rail, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    @field_validator("waivers")
    @classmethod
    def _no_broken_glass(cls, waivers: tuple[Waiver, ...]) -> tuple[Waiver, ...]:
        """Breaking the glass is for the command line, where it lasts 24 h at most."""
        if any(waiver.kind == "break_glass" for waiver in waivers):
            raise ValueError("break_glass is for the command line only")
        return waivers
