"""Whose output is this? By what the text itself says, for files whose name says nothing.

Only words that one tool prints and others do not are used; a text without them stays unrecognised,
and a wrong guess here costs nothing but a ParseError: the parser of that probe still decides.
"""

from __future__ import annotations

import re

#: Enough to see whose output it is; a file may be very long.
_HEAD_CHARS = 200_000

_M = re.MULTILINE
#: (probe, pattern), the first that is found wins.
_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (probe, re.compile(pattern, _M))
    for probe, pattern in (
        ("nvidia_smi_q_xml", r"<nvidia_smi_log"),
        ("nvidia_smi_q", r"={4,}NVSMI LOG={4,}"),
        ("nvidia_smi_version", r"^NVIDIA-SMI version\s+:"),
        ("nvidia_smi_topo", r"^.{0,40}GPU0.{0,2000}CPU Affinity"),
        ("nvlink_errors", r"^[ \t]*Link \d{1,2}: [A-Z][\w ]{2,40}Errors?: "),
        ("nvidia_smi_nvlink", r"^[ \t]*Link \d{1,2}: (?:[\d.]+ GB/s|<inactive>)"),
        ("nvidia_smi_nvlink", r"Unable to retrieve NVLink|support Nvlink|^Nvlink queries"),
        ("cuda_init", r"\A\s*\{\"code\": \d+, \"name\": \""),
        ("nvidia_smi", r"NVIDIA-SMI \d{3}\.\d.{0,40}(?:Driver|KMD) Version"),
        ("nvidia_smi", r"^(?:NVIDIA-SMI has failed|Failed to initialize NVML)"),
        ("nvidia_smi", r"^No devices were found|^Unable to determine the device handle"
                       r"|^.{0,80}\bGPU is lost"),
        ("nvidia_smi_list", r"^GPU \d{1,2}: .{1,80} \(UUID: (?:GPU-|N/A)"),
        ("nvidia_smi_query", r"^(?=.{0,4000}, )(?:index|name|uuid|gpu_\w+|pci\.\w+|driver_version)"
                             r"(?: \[\w+\])?, [a-z_.]+"),
        ("fabric_states", r"^\s{2,8}Fabric\s*\n\s{4,12}State\s+:"),
        ("gpu_reset", r"(?:could not be reset|was successfully reset|GPU Reset)"),
        ("fabricmanager_version", r"^Fabric Manager version is"),
        ("fabricmanager_unit", r"nvidia-fabricmanager\.service - |^Id=nvidia-fabricmanager"
                               r"|^Unit nvidia-fabricmanager\.service could not be found"
                               r"|^[ \t]{0,8}\S nvidia-fabricmanager\.service[ \t]*$"),
        ("fabricmanager_log", r"nv-fabricmanager(?:\[\d+\])?:|nvidia-fabricmanager-start\.sh"
                              r"|\[(?:INFO|ERROR|WARNING|CRITICAL)\] \[tid"),
        ("nvidia_module", r"^NVRM version:"),
        ("nccl_tests", r"^.{0,60}(?:\bnThread \d+ nGpus|[# \t](?:size|bytes)[ \t]{1,40}(?:count|N)"
                       r"[ \t]{1,40}type|Out of bounds values|Avg bus bandwidth)"
                       r"|\"average_bus_bandwidth\"\s*:"),
        ("nccl_debug", r"NCCL (?:INFO|WARN)\b"),
        ("dcgmi_discovery", r"^\d+ GPUs? found\."),
        ("dcgm_metrics", r"^DCGM_\w+\{"),
        ("k8s_resourceslice", r"^kind: ResourceSlice|\"kind\": ?\"ResourceSlice"),
        ("dcgm_diag", r"DCGM (?:GPU )?Diagnostic|Successfully ran diagnostic"),
        ("ibstat", r"^CA '[\w.-]+'|^Infiniband device '"),
        ("ibv_devinfo", r"^hca_id:\s"),
        ("ibdev2netdev", r"^(?:[0-9a-f:.]+ )?\S+ .{0,60}port \d+ (?:\(.{1,40}\) )?==> \S+"),
        ("show_gids", r"^DEV\s+PORT\s+INDEX\s+GID"),
        ("show_gids", r"ports/\d+/gids/\d+"),
        ("infiniband", r"ports/\d+/(?:state|rate|link_layer):"),
        ("ib_write_bw", r"BW average|\"BW_average\""),
        ("mlnx_qos", r"^(?:DCBX mode:|Priority trust state:)"),
        ("dcb_pfc", r"\bpfc-cap \d|\bprio-pfc\b"),
        ("dcb_app", r"\bdscp-prio\b"),
        ("lldp", r"\"lldp\"\s*:"),
        ("ip_link", r"\"ifname\"\s*:|^\d+: [\w.@-]+: <"),
        ("modinfo", r"^filename:[ \t]{1,20}/\S{0,200}nvidia\S{0,60}\.ko"),
        ("dpkg", r"^(?:ii|hi|rc|iU|iF|un) +\S*nvidia"),
        ("rpm", r"^[\w+.]{0,40}-?nvidia[\w+.-]{0,80}\.(?:x86_64|aarch64|noarch)$"),
        ("lspci", r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9]"),
        ("dmesg", r"NVRM:|nvidia-nvswitch\d*:|SXid|^\[\s*\d+\.\d+\]"),
        ("cuda_error", r"\bCUDA(?:_ERROR| error|.{0,80}\bError 8\d\d)|system not yet initialized"),
        ("os_release", r"^VERSION_ID="),
        ("apt_sources", r"^==> apt-get update "),
        ("apt_config", r"^APT::Architecture \""),
        ("timedatectl", r"^NTPSynchronized="),
        ("mdstat", r"^Personalities :"),
        ("chrony_tracking", r"\A[0-9A-F]{8},[^,\n]{0,255},\d{1,2},\d+\.\d+,"),
        ("sysctl", r"^kernel\.ostype = "),
        ("kernel_modules", r"^nvidia \d+ \d+ \S+ (?:Live|Loading)"),
        ("virt", r"\A(?:none|kvm|qemu|vmware|microsoft|xen|amazon|oracle|google)\s*\Z"),
    )
)  # fmt: skip

#: What the field calls an output -> the probe it belongs to, where the two names differ.
_KINDS = {
    "metrics": "dcgm_metrics",
    "topo": "nvidia_smi_topo",
    "smi_q": "nvidia_smi_q",
    "nvlink": "nvidia_smi_nvlink",
    "smi_query_csv": "nvidia_smi_query",
    "smi_gpu_reset": "gpu_reset",
    "fabricmanager": "fabricmanager_log",
    "xid": "dmesg",
    "sxid": "dmesg",
    "dmi": "dmi_product",
    "proc_nvidia_version": "nvidia_module",
    "nccl": "nccl_tests",
    "ip_link": "ip_link",
    "mtu": "ip_link",
    "sysfs_ib": "infiniband",
    "dcgmi": "dcgm_diag",
    "systemd_detect_virt": "virt",
    "ibstatus": "ibstat",
    "dcb": "dcb_pfc",
}


def probe_of_text(text: str) -> str | None:
    """The probe whose output this is, or None."""
    head = text[:_HEAD_CHARS]
    return next((probe for probe, sign in _SIGNS if sign.search(head)), None)


def probe_of_kind(kind: str) -> str:
    """The probe that an index means by ``kind``; the name itself where it is one."""
    return _KINDS.get(kind, kind)
