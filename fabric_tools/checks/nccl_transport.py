"""One log of NCCL: by what did the data travel?"""

from __future__ import annotations

from fabric_tools.checks.nccl_said import Said, here
from fabric_tools.models.nccl import NcclDebug
from fabric_tools.models.nccl_texts import NcclText
from fabric_tools.models.platform import Target
from fabric_tools.models.verdict import Status

_LAYERS = {"roce": "RoCE", "infiniband": "IB"}
_NVLS_REMEDY = (
    "see fabric.manager and fabric.state; a manager that was restarted needs a reset of all GPUs: "
    "drain, stop it, `nvidia-smi -r`, start it"
)
_FULL = "save the whole log of a run with NCCL_DEBUG=INFO"


def _has_nvls(log: NcclDebug, spec: Target) -> bool:
    return any(
        gate.algorithm == "nvls" and log.ranks in (None, gate.ranks)
        for gate in spec.nccl
        if gate.nodes == (log.nodes or 1)
    )


def nvls(text: NcclText, spec: Target, must_say: bool) -> Said:
    """NVLS: available where the platform has a figure for it, and never failed."""
    log = text.log
    assert log is not None
    place = here(text, log.nvls_line)
    if log.nvls == "failed":
        return Said(Status.FAIL, "NVLS failed", place, remedy=_NVLS_REMEDY)
    if not _has_nvls(log, spec):
        return Said(Status.PASS, "NVLS is not expected", place)
    if log.nvls == "unavailable":
        return Said(Status.FAIL, "NVLS is not available", place, remedy=_NVLS_REMEDY)
    if log.nvls == "disabled_by_environment":
        remedy = "no fault; take NCCL_NVLS_ENABLE=0 away to measure NVLS"
        return Said(Status.WARN, "NVLS is disabled by NCCL_NVLS_ENABLE", place, remedy=remedy)
    if log.nvls is None and must_say:
        return Said(Status.WARN, "the log does not say whether NVLS is used", place, remedy=_FULL)
    return Said(Status.PASS, f"NVLS {log.nvls or 'not mentioned'}", place)


def inside(text: NcclText, spec: Target) -> list[Said]:
    """A log of one node, or one that does not tell."""
    log = text.log
    assert log is not None
    said = [nvls(text, spec, must_say=True)]
    place = here(text, log.network_line)
    if text.several is None and _sockets(log):
        actual = "NET/Socket, and the log does not tell on how many nodes: over several it is TCP"
        said.append(Said(Status.UNKNOWN, actual, place, remedy=_FULL))
    full = spec.nvlink.mesh.value == "full"
    if full and (log.channels.shm or log.channels.net):
        way = "host memory (SHM)" if log.channels.shm else "a NIC (NET)"
        actual = f"data between GPUs of one node goes over {way}, not over NVLink"
        remedy = "NCCL_P2P_DISABLE must not be set; see nvlink.full_mesh"
        said.append(Said(Status.WARN, actual, place, remedy=remedy))
    return said


def between(text: NcclText, spec: Target, several: bool) -> list[Said]:
    """A log of several hosts; ``several`` is False where that is not sure."""
    log = text.log
    assert log is not None
    if spec.fabric.imex.value and not log.channels.net:
        return [nvls(text, spec, must_say=False)]  # NVLink spans the hosts, the network is idle
    failed = text.several is True and log.nvls == "failed"
    said = [nvls(text, spec, must_say=False)] if failed else []
    return [*said, *_network(text, log, several), *_link_layer(text, log, spec)]


def _sockets(log: NcclDebug) -> bool:
    return "Socket" in log.networks


def _network(text: NcclText, log: NcclDebug, several: bool) -> list[Said]:
    place = here(text, log.network_line or next((nic.line for nic in log.nics), 0))
    if _sockets(log):
        actual = "NET/Socket: the data goes over TCP"
        if log.verbs_missing:
            actual += ", because libibverbs is missing"
        elif log.no_ib_device:
            actual += ", because no RDMA device was found"
        return [_sure(Said(Status.FAIL, actual, place), several)]
    plugin = log.network not in (None, "IB")
    if (log.verbs_missing or log.no_ib_device) and not plugin:
        what = "libibverbs is missing" if log.verbs_missing else "no RDMA device was found"
        return [_sure(Said(Status.FAIL, what, place), several)]
    if not (log.networks or log.nics or log.channels.net):
        actual = "the log does not say which network was used"
        return [Said(Status.UNKNOWN, actual, place, remedy=_FULL)]
    named = log.network or "/".join(log.networks) or "NET"
    if log.gdrdma is False:
        remedy = (
            "dma-buf (open module, kernel 5.12 or later) or nvidia-peermem must be there, ACS off, "
            "and the NIC close to the GPU: see pci.acs and topo.rails"
        )
        actual = f"{named} without GPUDirect RDMA on every channel"
        return [Said(Status.FAIL, actual, place, remedy=remedy)]
    if log.gdrdma is None:
        actual = f"{named}; GPUDirect RDMA is not proved (no channel line is there)"
        return [Said(Status.WARN, actual, place, remedy=_FULL)]
    return [Said(Status.PASS, f"{named} with GPUDirect RDMA", place)]


def _sure(said: Said, several: bool) -> Said:
    if several:
        return said
    actual = f"{said.actual}; the log does not tell on how many nodes"
    return Said(Status.UNKNOWN, actual, said.evidence, remedy=_FULL)


def _link_layer(text: NcclText, log: NcclDebug, spec: Target) -> list[Said]:
    """Against what the inventory declares of the fabric."""
    wanted = _LAYERS.get(spec.site.profile.fabric)
    odd = [nic for nic in log.nics if nic.link_layer not in (None, wanted)]
    if wanted is None or not odd:
        return []
    names = ", ".join(f"{nic.name}:{nic.port} is {nic.link_layer}" for nic in odd[:4])
    remedy = "cable or port type (mlxconfig LINK_TYPE), profile.fabric, or NCCL_IB_HCA is wrong"
    actual = f"{names}; the inventory says {wanted}"
    return [Said(Status.FAIL, actual, here(text, odd[0].line), remedy=remedy)]
