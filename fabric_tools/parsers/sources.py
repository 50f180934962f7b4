"""Which probe answers for which fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fabric_tools.models import facts
from fabric_tools.models.base import Fact
from fabric_tools.parsers import (
    fabricmanager,
    host,
    kernel_log,
    kernel_modules,
    lspci,
    nvidia_module,
    nvlink,
    nvml,
    smi_answer,
    smi_text,
    smi_version,
    smi_xml,
    systemd,
    topo,
)

Parser = Callable[[str], Fact]


@dataclass(frozen=True, slots=True)
class Source:
    """One probe that can give a fact.

    ``reads_failures``: the output of a failed command counts when the fact read from it satisfies
    this (an error text is an answer; a good-looking text of a failed command is not).
    """

    probe: str
    parse: Parser
    reads_failures: Callable[[Fact], bool] | None = None


def _is_error(fact: Fact) -> bool:
    return isinstance(fact, facts.SmiAnswer) and fact.error is not None


_SMI_PROBES = (
    "nvidia_smi_q_xml",
    "nvidia_smi_q",
    "nvidia_smi_topo",
    "nvidia_smi_nvlink",
    "nvidia_smi_version",
)

#: Best source first; the first that can be read is used, except for those in ``COMBINED``.
SOURCES: dict[type[Fact], tuple[Source, ...]] = {
    facts.GpuInventory: (
        Source("nvidia_smi_q_xml", smi_xml.parse_gpu_inventory_xml),
        Source("nvidia_smi_q", smi_text.parse_gpu_inventory_text),
    ),
    facts.SmiAnswer: tuple(
        Source(probe, smi_answer.parse_smi_answer, reads_failures=_is_error)
        for probe in _SMI_PROBES
    ),
    facts.Topology: (Source("nvidia_smi_topo", topo.parse_topology),),
    facts.NvlinkStatus: (Source("nvidia_smi_nvlink", nvlink.parse_nvlink_status),),
    facts.SmiVersion: (Source("nvidia_smi_version", smi_version.parse_smi_version),),
    facts.NvmlInventory: (Source("nvml", nvml.parse_nvml),),
    facts.LoadedModule: (Source("nvidia_module", nvidia_module.parse_loaded_module),),
    facts.KernelModules: (Source("kernel_modules", kernel_modules.parse_kernel_modules),),
    facts.FabricManagerVersion: (
        Source("fabricmanager_version", fabricmanager.parse_fabricmanager_version),
    ),
    facts.UnitState: (Source("fabricmanager_unit", systemd.parse_unit_state),),
    facts.KernelLogs: (
        Source("kernel_journal", kernel_log.parse_kernel_log),
        Source("dmesg", kernel_log.parse_kernel_log),
    ),
    facts.PciDevices: (Source("lspci", lspci.parse_pci_devices),),
    facts.DmiProduct: (Source("dmi_product", host.parse_dmi_product),),
    facts.OsRelease: (Source("os_release", host.parse_os_release),),
    facts.KernelRelease: (Source("kernel_release", host.parse_kernel_release),),
}

#: Facts for which every source counts, not only the best (see ``reader``).
COMBINED: tuple[type[Fact], ...] = (facts.SmiAnswer, facts.KernelLogs)
