"""Which probe answers for which fact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fabric_tools.models import (
    boot,
    dcgm,
    fabric_ports,
    facts,
    nccl_texts,
    network,
    os_state,
    rdma,
    smi,
    storage,
    system,
)
from fabric_tools.models.base import Fact
from fabric_tools.parsers import (
    apt_hold,
    apt_policy,
    apt_preferences,
    apt_releases,
    apt_update,
    clock,
    cuda_init,
    dgx_release,
    dkms,
    dpkg,
    fabricmanager,
    fabricmanager_log,
    host,
    ib_write_bw,
    ip_link,
    kernel_log,
    kernel_modules,
    lldp,
    lspci,
    mdadm,
    modinfo,
    mok_enrolled,
    mokutil,
    mounts,
    next_boot,
    nvidia_module,
    nvlink,
    nvlink_errors,
    nvml,
    port_qos,
    ports,
    roster,
    rpm_locks,
    settings,
    smi_answer,
    smi_fabric,
    smi_query,
    smi_table,
    smi_text,
    smi_version,
    smi_xml,
    systemd,
    topo,
    upgrade_simulated,
    virt,
)
from fabric_tools.parsers import nccl_texts as nccl

Parser = Callable[[str], Fact]


@dataclass(frozen=True, slots=True)
class Source:
    """One probe that can give a fact.

    ``reads_failures``: the output of a failed command counts when the fact read from it satisfies
    this (an error text is an answer; a good-looking text of a failed command is not). ``convert``
    makes the fact out of what ``parse`` gives, so that one text is parsed once for two facts.
    """

    probe: str
    parse: Parser
    convert: Callable[[Fact], Fact] | None = None
    reads_failures: Callable[[Fact], bool] | None = None


def _is_error(fact: Fact) -> bool:
    return isinstance(fact, facts.SmiAnswer) and fact.error is not None


def _has_no_efi(fact: Fact) -> bool:
    return isinstance(fact, system.SecureBoot) and not fact.efi


_SMI_PROBES = (
    "nvidia_smi_q_xml",
    "nvidia_smi_q",
    "nvidia_smi_topo",
    "nvidia_smi_nvlink",
    "nvidia_smi_version",
    "nvlink_errors",
    "nvidia_smi",
    "nvidia_smi_list",
    "nvidia_smi_query",
)


def _nccl(parse: Parser) -> tuple[Source, ...]:
    return Source("nccl_tests", parse), Source("nccl_debug", parse)


#: Best source first; the first that can be read is used, except for those in ``COMBINED``.
SOURCES: dict[type[Fact], tuple[Source, ...]] = {
    facts.GpuInventory: (
        Source("nvidia_smi_q_xml", smi_xml.parse_gpu_inventory_xml),
        Source("nvidia_smi_q", smi_text.parse_gpu_inventory_text),
    ),
    smi.FabricStates: (
        Source(
            "nvidia_smi_q_xml",
            smi_xml.parse_gpu_inventory_xml,
            smi_fabric.fabric_states_of_inventory,
        ),
        Source(
            "nvidia_smi_q",
            smi_text.parse_gpu_inventory_text,
            smi_fabric.fabric_states_of_inventory,
        ),
        Source("fabric_states", smi_fabric.parse_fabric_states),
        Source("nvidia_smi_query", smi_query.parse_smi_query, smi_fabric.fabric_states_of_query),
    ),
    facts.SmiAnswer: tuple(
        Source(probe, smi_answer.parse_smi_answer, reads_failures=_is_error)
        for probe in _SMI_PROBES
    ),
    facts.GpuRosters: (
        Source("nvidia_smi_q_xml", smi_xml.parse_gpu_inventory_xml, roster.roster_of_inventory),
        Source("nvidia_smi_q", smi_text.parse_gpu_inventory_text, roster.roster_of_inventory),
        Source("nvidia_smi", roster.roster_of_table),
        Source("nvidia_smi_query", roster.roster_of_query),
        Source("nvidia_smi_list", roster.roster_of_table),
        Source("dcgmi_discovery", roster.roster_of_discovery),
        Source("dcgm_metrics", roster.roster_of_metrics),
        Source("k8s_resourceslice", roster.roster_of_resourceslices),
    ),
    facts.Topology: (Source("nvidia_smi_topo", topo.parse_topology),),
    facts.NvlinkStatus: (Source("nvidia_smi_nvlink", nvlink.parse_nvlink_status),),
    facts.SmiVersion: (
        Source("nvidia_smi_version", smi_version.parse_smi_version),
        Source("nvidia_smi", smi_table.parse_nvidia_smi, roster.smi_version_of_table),
    ),
    facts.NvmlInventory: (Source("nvml", nvml.parse_nvml),),
    facts.LoadedModule: (Source("nvidia_module", nvidia_module.parse_loaded_module),),
    facts.KernelModules: (
        Source("kernel_modules", kernel_modules.parse_kernel_modules),
        Source("sys_modules", kernel_modules.parse_sys_modules),
    ),
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
    system.Virtualization: (Source("virt", virt.parse_virt),),
    system.ModuleFile: (Source("modinfo", modinfo.parse_modinfo),),
    system.Packages: (Source("dpkg", dpkg.parse_dpkg), Source("rpm", dpkg.parse_rpm)),
    boot.NextBoot: (Source("next_boot", next_boot.parse_next_boot),),
    boot.DgxOs: (Source("dgx_release", dgx_release.parse_dgx_release),),
    boot.KernelPackages: (Source("dpkg_kernel", dpkg.parse_dpkg, dpkg.kernel_packages),),
    boot.AptPins: (Source("apt_preferences", apt_preferences.parse_apt_preferences),),
    boot.RpmLocks: (Source("rpm_locks", rpm_locks.parse_rpm_locks),),
    boot.UpgradePlan: (Source("upgrade_simulated", upgrade_simulated.parse_upgrade_simulated),),
    boot.AptReleases: (Source("apt_releases", apt_releases.parse_apt_releases),),
    boot.MokKeys: (Source("mok_enrolled", mok_enrolled.parse_mok_enrolled),),
    system.AptHolds: (Source("holds", apt_hold.parse_apt_hold),),
    system.AptPolicy: (Source("apt_policy", apt_policy.parse_apt_policy),),
    # mokutil says on its error stream, and fails, where there is no Secure Boot at all.
    system.SecureBoot: (Source("mokutil_sb", mokutil.parse_mokutil, reads_failures=_has_no_efi),),
    system.DkmsStatus: (Source("dkms_status", dkms.parse_dkms),),
    # An error that a program ended with says more than a call that went well at another time.
    facts.CudaInit: (
        Source("cuda_error", cuda_init.cuda_init_of_error),
        Source("nccl_debug", nccl.cuda_init_of_log),
        Source("nccl_tests", nccl.cuda_init_of_log),
        Source("cuda_init", cuda_init.parse_cuda_init),
    ),
    dcgm.FabricManagerLog: (
        Source("fabricmanager_log", fabricmanager_log.parse_fabricmanager_log),
    ),
    smi.NvlinkErrors: (Source("nvlink_errors", nvlink_errors.parse_nvlink_errors),),
    fabric_ports.RdmaPorts: (
        Source("infiniband", ports.ports_of_sysfs),
        Source("ibstat", ports.ports_of_ibstat),
        Source("ibv_devinfo", ports.ports_of_devinfo),
        Source("ibdev2netdev", ports.ports_of_netdevs),
        Source("show_gids", ports.ports_of_gids),
    ),
    fabric_ports.QosByPort: (
        Source("mlnx_qos", port_qos.qos_of_mlnx),
        Source("dcb_pfc", port_qos.qos_of_dcb_pfc),
        Source("dcb_app", port_qos.qos_of_dcb_app),
    ),
    network.IpLinks: (Source("ip_link", ip_link.parse_ip_link),),
    network.LldpNeighbours: (Source("lldp", lldp.parse_lldp),),
    rdma.BwTests: (Source("ib_write_bw", ib_write_bw.parse_ib_write_bw),),
    os_state.AptUpdate: (Source("apt_sources", apt_update.parse_apt_update),),
    os_state.DnfRepos: (Source("dnf_makecache", apt_update.parse_dnf_makecache),),
    os_state.ClockTracking: (Source("chrony_tracking", clock.parse_chrony_tracking),),
    os_state.TimeState: (Source("timedatectl", clock.parse_timedatectl),),
    os_state.Environment: (Source("environment", settings.parse_environment),),
    os_state.AptConfig: (Source("apt_config", settings.parse_apt_config),),
    os_state.Sysctls: (Source("sysctl", settings.parse_sysctl),),
    os_state.Limits: (Source("limits", settings.parse_limits),),
    os_state.TrustStore: (Source("trust_store", settings.parse_trust_store),),
    os_state.Mounts: (Source("findmnt", mounts.parse_findmnt),),
    os_state.Fstab: (Source("fstab", mounts.parse_fstab),),
    os_state.DeviceLinks: (Source("device_links", mounts.parse_device_links),),
    os_state.Addresses: (Source("ip_addr", ip_link.parse_ip_link, mounts.addresses_of_links),),
    storage.MdArrays: (Source("mdstat", mdadm.parse_mdadm),),
    # A file of either name may hold a table of nccl-tests, NCCL's log, or both.
    nccl_texts.NodeNcclTests: _nccl(nccl.node_tests),
    nccl_texts.ClusterNcclTests: _nccl(nccl.cluster_tests),
    nccl_texts.NodeNcclLogs: _nccl(nccl.node_log),
    nccl_texts.ClusterNcclLogs: _nccl(nccl.cluster_log),
}

#: Facts for which every source counts, not only the best (see ``reader``).
COMBINED: tuple[type[Fact], ...] = (
    facts.SmiAnswer,
    facts.KernelLogs,
    facts.GpuRosters,
    nccl_texts.NodeNcclTests,
    nccl_texts.ClusterNcclTests,
    nccl_texts.NodeNcclLogs,
    nccl_texts.ClusterNcclLogs,
)

#: Facts that are put together from every source that can be read, first told first.
MERGED: dict[type[Fact], Callable[[Sequence[Fact]], Fact]] = {
    fabric_ports.RdmaPorts: ports.merge_ports,
    fabric_ports.QosByPort: port_qos.merge_qos,
    system.Packages: dpkg.merge_packages,
}
