"""What a site declares about one host. Nothing here follows from the hardware."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fabric_tools.models.base import Model
from fabric_tools.models.verdict import Waiver


class Qos(Model):
    """The lossless class of a RoCE fabric, the same on hosts and switches.

    Defaults are NVIDIA's recipe (doroce-linux): trust DSCP, priority 3 for RoCE with DSCP 26.
    """

    trust: Literal["dscp", "pcp"] = "dscp"
    pfc_priority: Annotated[int, Field(ge=0, le=7)] = 3
    dscp: Annotated[int, Field(ge=0, le=63)] = 26


class Profile(Model):
    """What the site has chosen. ``fabric: none`` makes the roce phase not applicable.

    ``proxy``: URL of the HTTP proxy that the node must use, None for none. Whoever logs in on the
    node can read it, so give it credentials only where nothing else will do. ``no_proxy``: what
    must bypass it, beside what always does (localhost, the node's own addresses, the cluster's
    ranges).
    ``ca_bundle``: PEM text of the site's own certificate authorities, which the node must trust.
    ``time_servers``: whom the node's clock follows; empty: the distribution's own.
    """

    fabric: Literal["roce", "infiniband", "none"] = "roce"
    k3s: Literal["embedded", "external", "none"] = "embedded"
    proxy: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://[^\s\"\\]+$")] | None = None
    no_proxy: tuple[str, ...] = ()
    ca_bundle: str | None = None
    time_servers: tuple[str, ...] = ()
    qos: Qos = Qos()


class Mirror(Model):
    """The one place that everything is downloaded from.

    ``url``: its base, without a slash at the end; packages lie at ``URL/apt/NAME`` and
    ``URL/rpm/NAME``. ``key_fingerprint``: the OpenPGP fingerprint (40 or 64 hex digits) of the key
    that signs its package lists; the key itself lies at ``URL/keys/fabric.asc``. Credentials do not
    belong in the address, which is shown and lies in files that everybody can read.
    """

    url: Annotated[str, Field(pattern=r"^https?://[^\s/@]+(/[^\s]*[^\s/])?$")]
    key_fingerprint: Annotated[str, Field(pattern=r"^(?:[0-9A-F]{40}|[0-9A-F]{64})$")]


class Array(Model):
    """The NVMe array for weights and caches.

    ``devices``: the drives by their stable names (/dev/disk/by-id/...). ``wipe_consent``: serial
    numbers of the drives on which data may be destroyed, each named by hand; a drive that holds
    anything and is not named here is never touched.
    """

    devices: Annotated[tuple[str, ...], Field(min_length=1)]
    level: Literal["raid0", "raid1", "raid10"] = "raid0"
    device: str = "/dev/md/fabric"
    filesystem: Literal["xfs", "ext4"] = "xfs"
    mount: str = "/var/lib/fabric"
    wipe_consent: tuple[str, ...] = ()


class AllowEol(Model):
    """Consent to a stack whose driver or Kubernetes branch is past its end of life."""

    reason: Annotated[str, Field(min_length=10)]


class Rail(Model):
    """One compute NIC: its netdev, RDMA device, planned address and subnet.

    ``mtu_bytes`` of the netdev and ``port_gbits_s`` of the link as planned.
    """

    name: str
    netdev: str
    rdma_device: str
    address: str
    subnet: str
    mtu_bytes: Annotated[int, Field(ge=1500, le=9978)] = 9000
    port_gbits_s: Annotated[int, Field(ge=1)] | None = None


class HostVars(Model):
    """The variable ``fabric_host`` of one inventory host.

    ``platform`` is a platform id; without it the node is identified from its hardware.
    ``gpu_count``: how many GPUs this host has, where the platform file leaves that open (PCIe
    cards) or where this host is a virtual machine that was given fewer than the board holds.
    ``stack``: a stack lock's id; where none is declared the playbooks take the default one and a
    plain ``validate`` compares with none. ``array`` and ``mirror``: where the site has them.
    ``fabric_manager``: ``elsewhere`` in a virtual machine whose host keeps the NVSwitches.
    ``simulated``: of a host that is no real node, what of it is simulated; every report says so,
    and no verdict changes by it.
    """

    schema_version: Literal[1] = 1
    platform: str | None = None
    stack: str | None = None
    allow_eol: AllowEol | None = None
    mirror: Mirror | None = None
    array: Array | None = None
    profile: Profile = Profile()
    address: str | None = None
    fabric_manager: Literal["here", "elsewhere"] = "here"
    gpu_count: Annotated[int, Field(ge=1, le=64)] | None = None
    simulated: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    rails: tuple[Rail, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    @field_validator("waivers")
    @classmethod
    def _no_broken_glass(cls, waivers: tuple[Waiver, ...]) -> tuple[Waiver, ...]:
        """Breaking the glass is for the command line, where it lasts 24 h at most."""
        if any(waiver.kind == "break_glass" for waiver in waivers):
            raise ValueError("break_glass is for the command line only")
        return waivers

    @model_validator(mode="after")
    def _rails_apart(self) -> HostVars:
        """Two rails of one NIC would hide the NIC that no rail names."""
        for name in ("name", "netdev", "rdma_device", "address"):
            seen: set[str] = set()
            for rail in self.rails:
                value = getattr(rail, name).partition("/")[0]
                if value in seen:
                    raise ValueError(f"rails: {name} {value} is declared twice")
                seen.add(value)
        if self.rails and self.profile.fabric == "none":
            raise ValueError("rails are declared, but profile.fabric is none")
        return self
