"""Which GPUs a tool lists, from any of the forms in which people save it.

Evidence: that of the parsers behind it.
"""

from __future__ import annotations

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import GpuInventory, GpuRoster, RosterGpu, SmiVersion
from fabric_tools.models.smi import SmiTable
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcgm_tables import parse_dcgm_discovery
from fabric_tools.parsers.k8s_resourceslice import parse_k8s_resourceslice
from fabric_tools.parsers.metrics import parse_metrics
from fabric_tools.parsers.smi_query import parse_smi_query
from fabric_tools.parsers.smi_table import parse_nvidia_smi


def roster_of_inventory(inventory: Fact) -> GpuRoster:
    """``nvidia-smi -q``, as XML or as text, already parsed."""
    assert isinstance(inventory, GpuInventory)
    return GpuRoster(
        gpus=tuple(
            RosterGpu(line=g.line, index=g.index, product=g.product, uuid=g.uuid, bus_id=g.bus_id)
            for g in inventory.gpus
        ),
        driver_version=inventory.driver_version,
        attached_gpus=inventory.attached_gpus,
    )


def roster_of_table(text: str) -> GpuRoster:
    """``nvidia-smi``, ``nvidia-smi -L`` or one line of an excerpt.

    A name that the table shortened (``...``) is no product name.
    """
    table = parse_nvidia_smi(text)
    return GpuRoster(
        gpus=tuple(
            RosterGpu(
                line=g.line,
                index=g.index,
                product=_product(g.name),
                uuid=g.uuid,
                bus_id=g.bus_id,
            )
            for g in table.gpus
        ),
        driver_version=table.driver_version,
        complete=table.form != "excerpt" and (table.form == "list" or table.complete),
    )


def _product(name: str | None) -> str | None:
    """A name that is cut, or stands for an error, is no product."""
    return None if name is None or name.endswith("...") or "ERR!" in name.upper() else name


def roster_of_query(text: str) -> GpuRoster:
    """``nvidia-smi --query-gpu=... --format=csv`` with a header that names the GPU."""
    query = parse_smi_query(text)
    names = {heading.name for heading in query.columns}
    if not names & {"name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index"}:
        raise ParseError("nvidia_smi_query", 0, "no column says which GPU a row is of")
    versions = {query.cell(row, "driver_version") for row in query.rows} - {None}
    if len(versions) > 1:
        raise ParseError("nvidia_smi_query", 0, "two driver versions in one answer")

    def cell(row: int, *columns: str) -> str | None:
        found = (query.cell(query.rows[row], column) for column in columns)
        return next((text for text in found if text is not None), None)

    return GpuRoster(
        gpus=tuple(
            RosterGpu(
                line=row.line,
                index=int(index) if (index := cell(n, "index") or "").isdecimal() else None,
                product=cell(n, "name", "gpu_name"),
                uuid=cell(n, "uuid", "gpu_uuid"),
                bus_id=cell(n, "pci.bus_id", "gpu_bus_id"),
            )
            for n, row in enumerate(query.rows)
        ),
        driver_version=next(iter(versions), None),
        complete=query.complete and not query.errors,
    )


def roster_of_discovery(text: str) -> GpuRoster:
    """``dcgmi discovery -l``."""
    found = parse_dcgm_discovery(text)
    return GpuRoster(
        gpus=tuple(
            RosterGpu(line=g.line, index=g.id, product=g.name, uuid=g.uuid, bus_id=g.bus_id)
            for g in found.gpus
        ),
        attached_gpus=found.gpu_count,
        complete=found.complete,
    )


def roster_of_metrics(text: str) -> GpuRoster:
    """A scrape of the DCGM exporter of one node: the GPUs that its samples are labelled with.

    The driver's version stands in the labels where the exporter was told to add it.
    """
    gpus: dict[str, RosterGpu] = {}
    hosts: set[str] = set()
    versions: set[str] = set()
    for sample in parse_metrics(text).samples:
        labels = sample.labels
        if not sample.name.startswith("DCGM_") or not labels.get("UUID", "").startswith("GPU-"):
            continue
        hosts.add(labels.get("Hostname", ""))
        versions.add(labels.get("DCGM_FI_DRIVER_VERSION", ""))
        index = labels.get("gpu", "")
        gpus.setdefault(
            labels["UUID"],
            RosterGpu(
                line=sample.line,
                index=int(index) if index.isascii() and index.isdecimal() else None,
                product=labels.get("modelName") or None,
                uuid=labels["UUID"],
                bus_id=labels.get("pci_bus_id") or None,
            ),
        )
    if not gpus:
        raise ParseError("dcgm_metrics", 0, "no sample of a GPU")
    if len(hosts) > 1:
        raise ParseError("dcgm_metrics", 0, f"samples of {len(hosts)} nodes: which one is it?")
    told = versions - {""}
    return GpuRoster(
        gpus=tuple(gpus.values()),
        driver_version=told.pop() if len(told) == 1 else None,
        # A part of a scrape still lists its GPUs in every family.
        complete=True,
    )


def roster_of_resourceslices(text: str) -> GpuRoster:
    """``kubectl get resourceslices`` of one node, or of several that all have as many GPUs."""
    found = parse_k8s_resourceslice(text)
    by_node: dict[str, list[RosterGpu]] = {}
    for item in found.slices:
        for device in item.devices or ():
            if device.type == "gpu" and item.node:
                gpu = RosterGpu(line=device.line, product=device.product, uuid=device.uuid)
                by_node.setdefault(item.node, []).append(gpu)
    if not by_node:
        raise ParseError("k8s_resourceslice", 0, "no GPU of a node")
    if len({len(gpus) for gpus in by_node.values()}) > 1:
        raise ParseError("k8s_resourceslice", 0, "nodes with different numbers of GPUs: which one?")
    return GpuRoster(gpus=tuple(next(iter(by_node.values()))), complete=found.complete)


def smi_version_of_table(table: Fact) -> SmiVersion:
    """The versions in the heading of the plain table: nvidia-smi's own and the driver's."""
    assert isinstance(table, SmiTable)
    if table.smi_version is None:
        raise ParseError("nvidia_smi", 0, "no heading with a version")
    return SmiVersion(smi_version=table.smi_version, driver_version=table.driver_version)
