"""Whole outputs for every parser, for the tests that spoil them."""

from __future__ import annotations

from pathlib import Path

import written
from corpus import SAMPLES

from fabric_tools.parsers.kinds import KINDS

_TESTS = Path(__file__).resolve().parents[1]
_HEALTHY = _TESTS.parent / "examples" / "healthy"

#: Parsers without a sample of their own kind: kinds whose samples they read (some of them).
_KINDS_FOR = {
    "dcgm_tables.parse_dcgm_discovery": ("dcgmi",),
    "dcgmi.parse_dcgm_diag": ("dcgmi",),
    "fabricmanager.parse_fabricmanager_version": ("fabricmanager",),
    "fabricmanager_log.parse_fabricmanager_log": ("fabricmanager",),
    "nvlink.parse_nvlink_status": ("nvlink",),
    "nvlink_errors.parse_nvlink_errors": ("nvlink",),
    "smi_answer.parse_smi_answer": ("topo", "nvidia_smi"),
    "smi_fabric.parse_fabric_states": ("smi_q",),
    "smi_text.parse_gpu_inventory_text": ("smi_q",),
    "smi_version.parse_smi_version": ("nvidia_smi",),
    "smi_xml.parse_gpu_inventory_xml": ("smi_q",),
    "systemd.parse_unit_state": ("fabricmanager",),
}
#: And texts of a recorded healthy node.
_HEALTHY_FOR = {
    "apt_update.parse_apt_update": ("apt_sources.txt",),
    "clock.parse_chrony_tracking": ("chrony_tracking.txt",),
    "clock.parse_timedatectl": ("timedatectl.txt",),
    "mounts.parse_device_links": ("device_links.txt",),
    "mounts.parse_findmnt": ("findmnt.json",),
    "mounts.parse_fstab": ("fstab.json",),
    "settings.parse_apt_config": ("apt_config.txt",),
    "settings.parse_environment": ("environment.txt",),
    "settings.parse_limits": ("limits.json",),
    "settings.parse_sysctl": ("sysctl.txt",),
    "settings.parse_trust_store": ("trust_store.txt",),
    "apt_policy.parse_apt_policy": ("apt_policy.txt",),
    "apt_releases.parse_apt_releases": ("apt_releases.txt",),
    "dgx_release.parse_dgx_release": ("dgx_release.txt",),
    "dpkg.parse_dpkg": ("dpkg_kernel.txt",),
    "mok_enrolled.parse_mok_enrolled": ("mok_enrolled.txt",),
    "next_boot.parse_next_boot": ("next_boot.json",),
    "upgrade_simulated.parse_upgrade_simulated": ("upgrade_simulated.txt",),
    "cuda_init.parse_cuda_init": ("cuda_init.json",),
    "fabricmanager.parse_fabricmanager_version": ("fabricmanager_version.txt",),
    "host.parse_dmi_product": ("dmi_product.txt",),
    "host.parse_kernel_release": ("kernel_release.txt",),
    "host.parse_os_release": ("os_release.txt",),
    "kernel_log.parse_kernel_log": ("kernel_journal.txt",),
    "kernel_modules.parse_kernel_modules": ("proc_modules.txt",),
    "smi_version.parse_smi_version": ("nvidia_smi_version.txt",),
    "systemd.parse_unit_state": ("fabricmanager_unit.txt",),
}
#: And texts for those of which nothing is recorded.
_WRITTEN = {
    "kernel_modules.parse_sys_modules": (written.SYS_MODULES,),
    "apt_update.parse_apt_update": tuple(
        path.read_text()
        for path in sorted((_TESTS / "fixtures" / "more" / "apt").glob("[!S]*.txt"))
    ),
    "apt_update.parse_dnf_makecache": (written.DNF_DOWN,),
    "apt_preferences.parse_apt_preferences": (written.APT_PREFERENCES,),
    "rpm_locks.parse_rpm_locks": (written.RPM_LOCKS,),
    "dpkg.parse_rpm": (written.RPM,),
    "k8s_node.parse_k8s_node": (written.NODE_YAML,),
    "lldp.parse_lldp": (written.LLDP_TEXT,),
    "lspci.parse_pci_devices": (written.LSPCI_BRIDGE,),
    "mdadm.parse_mdadm": (written.MDSTAT, written.MDADM_DETAIL),
    "nvme_list.parse_nvme_list": (written.NVME_FLAT, written.NVME_NESTED),
    "nvml.parse_nvml": (written.NVML,),
    "proc_bonding.parse_proc_bonding": (written.BOND_LACP, written.BOND_BACKUP),
    "rdma_stat.parse_rdma_stat": (written.RDMA_STAT_JSON, written.RDMA_STAT_TEXT),
}

#: parser -> the kinds that name it
TARGETS: dict[str, tuple[str, ...]] = {
    target: tuple(kind for kind, other in KINDS.items() if other == target)
    for target in dict.fromkeys(KINDS.values())
}


def _of(target: str) -> tuple[str, ...]:
    kinds = (*TARGETS[target], *_KINDS_FOR.get(target, ()))
    return (
        *(sample.text for sample in SAMPLES if sample.kind in kinds),
        *((_HEALTHY / name).read_text() for name in _HEALTHY_FOR.get(target, ())),
        *_WRITTEN.get(target, ()),
    )


SEEDS: dict[str, tuple[str, ...]] = {target: _of(target) for target in TARGETS}
