"""What every node's operating system is set to: the one table for the roles and for the checks.

Data with sources. The roles read it as plain values through ``as_vars``; the checks read it here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fabric_tools.models.platform import SiteSpec


class SysctlSetting(NamedTuple):
    """A kernel setting and the least value that is enough."""

    name: str
    minimum: int
    why: str
    source: str


class LimitSetting(NamedTuple):
    """A limit of login sessions, soft and hard, for everybody (``*``) and for root.

    ``minimum`` is None for unlimited. ``needed``: less is a fault; else it is worth a warning.
    """

    item: str
    minimum: int | None
    needed: bool
    why: str
    source: str

    @property
    def value(self) -> str:
        """As ``limits.conf`` wants it."""
        return "unlimited" if self.minimum is None else str(self.minimum)


# Per-rail settings (arp_*, rp_filter) are of the roce phase, those of the kubelet of the k3s phase.
SYSCTLS: tuple[SysctlSetting, ...] = (
    SysctlSetting(
        "fs.inotify.max_user_instances", 8192,
        "the kubelet and what runs beside it use more than the kernel's 128",
        "K3s requirements; value: kubernetes/kops#2913, kubernetes-sigs/kubespray#13075",
    ),
)  # fmt: skip

#: PAM gives root nothing of ``*``, so root is a domain of its own: limits.conf(5).
LIMIT_DOMAINS = ("*", "root")
LIMITS: tuple[LimitSetting, ...] = (
    LimitSetting(
        "memlock", None, True,
        "RDMA pins its buffers; without it: ibv_reg_mr: Cannot allocate memory",
        "NCCL troubleshooting documentation",
    ),
    LimitSetting(
        "nofile", 1048576, False,
        "every connection of every rank is an open file",
        "the most that the kernel gives a process (fs.nr_open); a choice of ours",
    ),
)  # fmt: skip

#: Beginnings of package names that must never move by themselves (driver, CUDA, kernel, nvlsm).
UNATTENDED_BLACKLIST: tuple[str, ...] = (
    "nvidia-", "libnvidia-", "cuda-", "linux-image-", "linux-headers-", "linux-modules-", "nvlsm",
)  # fmt: skip

#: What never goes through a proxy.
NO_PROXY_ALWAYS = ("localhost", "127.0.0.1")
#: Names and default ranges of pods and services of K3s.
NO_PROXY_CLUSTER = (".svc", ".cluster.local", "10.42.0.0/16", "10.43.0.0/16")


def no_proxy(site: SiteSpec, addresses: Iterable[str]) -> tuple[str, ...]:
    """What must bypass the proxy on a node with these addresses, in order, each once.

    The node's IPv4 addresses count; its IPv6 ones may change by themselves.
    """
    cluster = NO_PROXY_CLUSTER if site.profile.k3s != "none" else ()
    own = tuple(address for address in addresses if ":" not in address)
    rails = tuple(rail.address.partition("/")[0] for rail in site.rails)
    wanted = (*NO_PROXY_ALWAYS, *own, *rails, *cluster, *site.profile.no_proxy)
    return tuple(dict.fromkeys(wanted))


def as_vars() -> dict[str, object]:
    """The table as plain values, for the roles."""
    return {
        "sysctls": {item.name: item.minimum for item in SYSCTLS},
        "limits": [
            {"domain": domain, "item": item.item, "value": item.value}
            for item in LIMITS
            for domain in LIMIT_DOMAINS
        ],
        "unattended_blacklist": list(UNATTENDED_BLACKLIST),
    }
