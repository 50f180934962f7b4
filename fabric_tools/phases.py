"""The one list of phases: order, playbook, what each needs, and how long its proof lasts.

Light on purpose (no pydantic): the CLI reads it to answer ``--help``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Phase ids in the order in which a node passes them."""

    PREFLIGHT = "preflight"
    BASE = "base"
    DRIVER = "driver"
    CUDA = "cuda"
    CONTAINERD = "containerd"
    K3S = "k3s"
    NVLINK = "nvlink"
    ROCE = "roce"
    WEIGHTS = "weights"
    SERVING = "serving"
    OBSERVABILITY = "observability"


@dataclass(frozen=True, slots=True)
class PhaseInfo:
    """One row of the phase table.

    ``needs``: phases that must be proved before. ``may_reboot``: its roles may restart the node.
    ``active``: its gate puts load on the node (a passive gate only reads). ``scenario``: the
    molecule scenario. ``proof_max_age_h``: hours after which an active proof is void; None for a
    passive gate, which is judged anew every time. ``boot_bound``: what was measured ends with the
    boot (a server that answered), so a reboot voids the proof.
    """

    id: Phase
    playbook: str
    says: str
    looks_at: str
    needs: tuple[Phase, ...] = ()
    may_reboot: bool = False
    active: bool = False
    scenario: str | None = None
    proof_max_age_h: int | None = None
    boot_bound: bool = False


# A week: the age after which sites in the field repeat their NCCL and perftest burn-in
# (a choice of ours, to be overridden by the inventory).
_WEEK_H = 168

PHASES: tuple[PhaseInfo, ...] = (
    PhaseInfo(
        Phase.PREFLIGHT, "00-preflight.yml", "nothing",
        "hardware on the bus, platform, kernel and OS, package sources",
    ),
    PhaseInfo(
        Phase.BASE, "10-base.yml", "packages, kernel hold, limits, sysctl, time, NVMe, users",
        "the same, read back",
        needs=(Phase.PREFLIGHT,), may_reboot=True, scenario="node_base",
    ),
    PhaseInfo(
        Phase.DRIVER, "20-driver.yml", "driver, fabric manager, persistence, pins",
        "loaded module = userspace = fabric manager; GPUs, ECC, row remap, Xid, PCIe; "
        "NVLink matrix and fabric state (passive)",
        needs=(Phase.BASE,), may_reboot=True, scenario="nvidia_driver",
    ),
    PhaseInfo(
        Phase.CUDA, "30-cuda.yml", "CUDA, NCCL, nccl-tests, DCGM", "versions, DCGM quick diag",
        needs=(Phase.DRIVER,), scenario="nvidia_cuda",
    ),
    PhaseInfo(
        Phase.CONTAINERD, "40-containerd.yml", "NVIDIA container toolkit, CDI, runtime",
        "toolkit packages one version, CDI devices",
        needs=(Phase.CUDA,), scenario="nvidia_container",
    ),
    PhaseInfo(
        Phase.K3S, "50-k3s.yml", "K3s, RuntimeClass, device plugin, labels",
        "node Ready, 8 allocatable, a GPU container starts",
        needs=(Phase.CONTAINERD,), scenario="k3s",
    ),
    PhaseInfo(
        Phase.NVLINK, "60-nvlink.yml", "nothing",
        "topology and link state again, error deltas, NCCL inside the node",
        needs=(Phase.K3S,), active=True, proof_max_age_h=_WEEK_H,
    ),
    PhaseInfo(
        Phase.ROCE, "70-roce.yml", "MTU, PFC, ECN, DSCP, GID, sysctls",
        "the contract on both ends, path MTU, perftest, NCCL across nodes",
        needs=(Phase.NVLINK,), active=True, scenario="roce", proof_max_age_h=_WEEK_H,
    ),
    PhaseInfo(
        Phase.WEIGHTS, "80-weights.yml", "signed weights on local NVMe",
        "signature, digest, identity, containment",
        needs=(Phase.K3S,), scenario="model_weights",
    ),
    PhaseInfo(
        Phase.SERVING, "90-serving.yml", "vLLM, router",
        "the model answers through the router; plan equals what runs",
        needs=(Phase.ROCE, Phase.WEIGHTS), active=True, scenario="serving",
        proof_max_age_h=_WEEK_H, boot_bound=True,
    ),
    PhaseInfo(
        Phase.OBSERVABILITY, "95-observability.yml",
        "Prometheus, exporters, Grafana, Loki, Tempo, alerts",
        "targets up, rules loaded, dashboards resolve",
        needs=(Phase.SERVING,), scenario="observability",
    ),
)  # fmt: skip

BY_ID = {info.id: info for info in PHASES}
