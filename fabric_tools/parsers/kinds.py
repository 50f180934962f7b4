"""What ``fabric-tools parse KIND`` knows: every parser by name, loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from fabric_tools.models.base import Fact

#: kind -> module.function under ``fabric_tools.parsers``. Several names may mean one parser.
KINDS: dict[str, str] = {
    "apt_hold": "apt_hold.parse_apt_hold",
    "apt_policy": "apt_policy.parse_apt_policy",
    "cdi": "cdi.parse_cdi",
    "crictl_info": "crictl_info.parse_crictl_info",
    "cuda_error": "cuda_error.parse_cuda_error",
    "dcb": "dcb.parse_dcb",
    "dcgm_diag": "dcgmi.parse_dcgm_diag",
    "dcgmi": "dcgmi.parse_dcgmi",
    "dev_nodes": "dev_nodes.parse_dev_nodes",
    "dkms": "dkms.parse_dkms",
    "dmesg": "kernel_log.parse_kernel_log",
    "dmi": "host.parse_dmi_product",
    "dmi_product": "host.parse_dmi_product",
    "docker_info": "docker_info.parse_docker_info",
    "dpkg": "dpkg.parse_dpkg",
    "ethtool": "ethtool.parse_ethtool_any",
    "fabricmanager": "dispatch.parse_fabricmanager",
    "fabricmanager_log": "fabricmanager_log.parse_fabricmanager_log",
    "fabricmanager_unit": "systemd.parse_unit_state",
    "fabricmanager_version": "fabricmanager.parse_fabricmanager_version",
    "gids": "gids.parse_gids",
    "ib_write_bw": "ib_write_bw.parse_ib_write_bw",
    "ibdev2netdev": "ibdev2netdev.parse_ibdev2netdev",
    "ibstat": "ibstat.parse_ibstat",
    "ibstatus": "ibstat.parse_ibstat",
    "ibv_devinfo": "ibv_devinfo.parse_ibv_devinfo",
    "ip_link": "ip_link.parse_ip_link",
    "ipmi_sdr": "ipmi_sdr.parse_ipmi_sdr",
    "k3s_check_config": "k3s_check_config.parse_k3s_check_config",
    "k3s_containerd": "k3s_containerd.parse_k3s_containerd",
    "k8s_node": "k8s_node.parse_k8s_node",
    "kernel_journal": "kernel_log.parse_kernel_log",
    "kernel_log": "kernel_log.parse_kernel_log",
    "kernel_modules": "kernel_modules.parse_kernel_modules",
    "kernel_release": "host.parse_kernel_release",
    "lldp": "lldp.parse_lldp",
    "lspci": "lspci.parse_pci_devices",
    "metrics": "metrics.parse_metrics",
    "mlnx_qos": "mlnx_qos.parse_mlnx_qos",
    "modinfo": "modinfo.parse_modinfo",
    "mokutil": "mokutil.parse_mokutil",
    "mtu": "ip_link.parse_ip_link",
    "nccl": "nccl_tests.parse_nccl_tests",
    "nccl_debug": "nccl_debug.parse_nccl_debug",
    "nvidia_module": "nvidia_module.parse_loaded_module",
    "nvidia_smi": "smi_table.parse_nvidia_smi",
    "nvidia_smi_nvlink": "nvlink.parse_nvlink_status",
    "nvidia_smi_q": "smi_text.parse_gpu_inventory_text",
    "nvidia_smi_q_xml": "smi_xml.parse_gpu_inventory_xml",
    "nvidia_smi_topo": "topo.parse_topology",
    "nvidia_smi_version": "smi_version.parse_smi_version",
    "nvlink": "dispatch.parse_nvlink",
    "nvlink_errors": "nvlink_errors.parse_nvlink_errors",
    "nvml": "nvml.parse_nvml",
    "os_release": "host.parse_os_release",
    "proc_nvidia_version": "nvidia_module.parse_loaded_module",
    "rdma": "rdma.parse_rdma",
    "rdma_dev": "rdma.parse_rdma",
    "redfish": "redfish.parse_redfish",
    "rpm": "dpkg.parse_rpm",
    "runtimeclass": "runtimeclass.parse_runtimeclass",
    "show_gids": "gids.parse_gids",
    "signing": "signing.parse_signing",
    "smi_answer": "smi_answer.parse_smi_answer",
    "smi_gpu_reset": "smi_gpu_reset.parse_gpu_reset",
    "smi_q": "dispatch.parse_smi_q",
    "smi_query_csv": "smi_query.parse_smi_query",
    "sxid": "kernel_log.parse_kernel_log",
    "sysfs_ib": "sysfs_infiniband.parse_sysfs_infiniband",
    "systemd_detect_virt": "virt.parse_virt",
    "topo": "topo.parse_topology",
    "topo_p2p": "topo_p2p.parse_topo_p2p",
    "unit": "systemd.parse_unit_state",
    "vllm_bench": "vllm_bench.parse_vllm_bench",
    "xid": "kernel_log.parse_kernel_log",
}


def parser_of(kind: str) -> Callable[[str], Fact]:
    """The parser of a kind in ``KINDS``."""
    module, _, function = KINDS[kind].partition(".")
    found = getattr(importlib.import_module(f"fabric_tools.parsers.{module}"), function)
    return cast(Callable[[str], Fact], found)
