"""The one table of what is asked of a node. Data only.

This file is packed into the collector as it is, so it keeps to Python 3.9 and the standard library.
Every probe only reads. Where a tool offers XML or key=value output, that is what is asked for.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

MIB = 1024 * 1024


class Probe(NamedTuple):
    """One question to a node.

    ``kind``: ``command`` runs ``argv``; ``file`` reads the file ``argv[0]``; ``nvml`` and ``cuda``
    ask the library in a child process; ``infiniband`` reads what ``/sys/class/infiniband`` says of
    every RDMA device; ``netdev`` runs ``argv`` once for the network interface of every RDMA device,
    put in the place of ``{}``; ``apt`` and ``dnf`` ask which package sources answer; ``files``
    reads the small files that the patterns in ``argv`` name; ``trust`` reads the system's
    certificates; ``boot`` reads what the next boot will be; ``packages`` runs what stands before
    ``--`` with the names of the installed packages that match the patterns behind it (dpkg).
    ``saved`` is never asked by the collector: it is evidence of a test under load, of a fault, or
    of a form that only people save.

    ``timeout_s`` and ``max_bytes`` bound it (stdout; stderr is bounded by the collector).
    ``accept_rc`` lists the exit statuses that mean "the answer is whole". ``files`` are the names
    under which people save this output by hand, the first one preferred. ``root``: an ordinary user
    gets no answer or half of one.
    """

    id: str
    kind: str
    argv: Tuple[str, ...]
    timeout_s: float
    max_bytes: int
    says: str
    accept_rc: Tuple[int, ...] = (0,)
    files: Tuple[str, ...] = ()
    root: bool = False


# Timeouts: nvidia-smi answers in about 1 s per GPU without persistence mode (the driver
# initialises each GPU anew), so 8 GPUs get 30 s; a healthy node with persistence needs under 1 s.
PROBES: Tuple[Probe, ...] = (
    Probe(
        "nvidia_smi_q_xml", "command", ("nvidia-smi", "-q", "-x"), 30.0, 8 * MIB,
        "every GPU in full: ECC, row remap, PCIe, fabric state",
        files=("nvidia_smi_q.xml", "nvidia-smi-q.xml", "smi_q.xml", "q.xml"),
    ),
    Probe(
        "nvidia_smi_q", "command", ("nvidia-smi", "-q"), 30.0, 4 * MIB,
        "the same as text, used where the XML was not recorded",
        files=("nvidia_smi_q.txt", "nvidia-smi-q.txt", "smi_q.txt", "q.txt"),
    ),
    Probe(
        "nvidia_smi_topo", "command", ("nvidia-smi", "topo", "-m"), 30.0, MIB,
        "the GPU and NIC topology matrix",
        files=("topo.txt", "topo_m.txt", "nvidia_smi_topo.txt", "nvidia-smi-topo.txt"),
    ),
    Probe(
        "nvidia_smi_nvlink", "command", ("nvidia-smi", "nvlink", "-s"), 30.0, MIB,
        "state and speed of every NVLink",
        files=("nvlink.txt", "nvlink_s.txt", "nvidia_smi_nvlink.txt"),
    ),
    Probe(
        "nvidia_smi_version", "command", ("nvidia-smi", "--version"), 15.0, MIB,
        "version of the installed userspace",
        files=("nvidia_smi_version.txt", "smi_version.txt"),
    ),
    Probe(
        "nvml", "nvml", (), 30.0, 4 * MIB,
        "the same facts from the NVML library itself",
        files=("nvml.json",),
    ),
    Probe(
        "cuda_init", "cuda", (), 30.0, MIB,
        "whether a CUDA program can start (cuInit)",
        files=("cuda_init.json",),
    ),
    Probe(
        "nvidia_module", "file", ("/proc/driver/nvidia/version",), 5.0, MIB,
        "the kernel module that is loaded now",
        files=("proc_driver_nvidia_version.txt", "nvidia_module.txt", "proc_nvidia_version.txt"),
    ),
    Probe(
        "kernel_modules", "file", ("/proc/modules",), 5.0, MIB,
        "modules loaded now (nvidia, nouveau)",
        files=("proc_modules.txt", "modules.txt"),
    ),
    Probe(
        "sys_modules", "files", ("/sys/module/n*/initstate",), 5.0, MIB,
        "the same of nvidia and nouveau as sysfs tells it",
        files=("sys_modules.json",),
    ),
    Probe(
        "fabricmanager_version", "command", ("nv-fabricmanager", "--version"), 15.0, MIB,
        "version of the installed fabric manager",
        files=("fabricmanager_version.txt",),
    ),
    Probe(
        "fabricmanager_unit", "command",
        ("systemctl", "show", "nvidia-fabricmanager.service", "--no-pager",
         "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result"),
        10.0, MIB,
        "whether the fabric manager runs",
        files=("fabricmanager_unit.txt", "fabricmanager_status.txt", "fabricmanager.txt"),
    ),
    Probe(
        "kernel_journal", "command",
        ("journalctl", "-k", "-b", "0", "--no-pager", "-q", "-o", "short-monotonic"),
        20.0, 16 * MIB,
        "kernel messages since boot, from the journal",
        files=("kernel_journal.txt", "journal.txt", "kernel.txt"), root=True,
    ),
    Probe(
        "dmesg", "command", ("dmesg",), 10.0, 16 * MIB,
        "kernel messages still in the ring buffer",
        files=("dmesg.txt",), root=True,
    ),
    Probe(
        "lspci", "command", ("lspci", "-D", "-nn", "-vv"), 20.0, 8 * MIB,
        "devices on the bus and their link width",
        files=("lspci.txt", "lspci_vv.txt"), root=True,
    ),
    Probe(
        "dmi_product", "file", ("/sys/class/dmi/id/product_name",), 5.0, MIB,
        "the chassis by its DMI product name",
        files=("dmi_product.txt", "product_name.txt"),
    ),
    Probe(
        "os_release", "file", ("/etc/os-release",), 5.0, MIB,
        "distribution and version",
        files=("os_release.txt", "os-release"),
    ),
    Probe(
        "kernel_release", "command", ("uname", "-r"), 5.0, MIB,
        "the running kernel",
        files=("kernel_release.txt", "uname.txt"),
    ),
    Probe(
        "virt", "command", ("systemd-detect-virt",), 5.0, MIB,
        "whether this is a virtual machine",
        accept_rc=(0, 1), files=("virt.txt", "systemd_detect_virt.txt"),
    ),
    Probe(
        "modinfo", "command", ("modinfo", "nvidia"), 10.0, MIB,
        "the nvidia module that the next load would take",
        files=("modinfo.txt",),
    ),
    Probe(
        "dpkg", "command",
        ("dpkg-query", "-W", "-f",
         "${db:Status-Abbrev} ${binary:Package} ${Version} ${Architecture}\\n",
         "*nvidia*", "libnvsdm*", "nvlsm*", "nvlink5*", "cuda-drivers*"),
        15.0, 4 * MIB,
        "driver packages of Debian and Ubuntu",
        accept_rc=(0, 1), files=("dpkg.txt", "dpkg_l.txt"),
    ),
    Probe(
        "rpm", "command",
        ("rpm", "-qa", "*nvidia*", "libnvsdm*", "nvlsm*", "cuda-drivers*"),
        30.0, 4 * MIB,
        "driver packages of RHEL",
        files=("rpm.txt", "rpm_qa.txt"),
    ),
    Probe(
        "fabricmanager_log", "command", ("tail", "-n", "2000", "/var/log/fabricmanager.log"),
        10.0, 4 * MIB,
        "what the fabric manager wrote last",
        files=("fabricmanager_log.txt", "fabricmanager.log", "fabricmanager_journal.txt"),
        root=True,
    ),
    Probe(
        "nvlink_errors", "command", ("nvidia-smi", "nvlink", "-e"), 30.0, MIB,
        "error counters of every NVLink",
        files=("nvlink_errors.txt", "nvlink_e.txt"),
    ),
    Probe(
        "ip_link", "command", ("ip", "-j", "-d", "link", "show"), 10.0, 4 * MIB,
        "network interfaces, their MTU and bonds",
        files=("ip_link.json", "ip_link.txt"),
    ),
    Probe(
        "infiniband", "infiniband", (), 10.0, 4 * MIB,
        "RDMA devices: ports, rate, link layer, GIDs",
        files=("sysfs_infiniband.txt", "infiniband.txt"),
    ),
    Probe(
        "mlnx_qos", "netdev", ("mlnx_qos", "-i", "{}"), 15.0, MIB,
        "trust, PFC and buffers of every RDMA interface (MLNX_OFED, DOCA)",
        files=("mlnx_qos.txt",), root=True,
    ),
    Probe(
        "dcb_pfc", "netdev", ("dcb", "pfc", "show", "dev", "{}"), 15.0, MIB,
        "PFC of every RDMA interface (iproute2)",
        files=("dcb_pfc.txt", "dcb.txt"),
    ),
    Probe(
        "dcb_app", "netdev", ("dcb", "app", "show", "dev", "{}"), 15.0, MIB,
        "DSCP to priority of every RDMA interface (iproute2)",
        files=("dcb_app.txt",),
    ),
    Probe(
        "lldp", "command", ("lldpcli", "show", "neighbors", "-f", "json0"), 10.0, 4 * MIB,
        "which switch port every interface is cabled to",
        files=("lldp.json", "lldp.txt"), root=True,
    ),
    # What the operating system is set to: package sources, time, proxy, limits, disks.
    Probe(
        "apt_sources", "apt", ("apt-get", "update"), 60.0, MIB,
        "whether every configured package source answers and is signed (in a folder of its own)",
        files=("apt_sources.txt",), root=True,
    ),
    Probe(
        "dnf_makecache", "dnf", ("dnf", "-q", "makecache"), 60.0, MIB,
        "the same on RHEL",
        files=("dnf_makecache.txt",), root=True,
    ),
    Probe(
        "chrony_tracking", "command", ("chronyc", "-c", "-n", "tracking"), 10.0, MIB,
        "how far the clock is off, as chrony knows it",
        files=("chrony_tracking.txt",),
    ),
    Probe(
        "timedatectl", "command", ("timedatectl", "show"), 10.0, MIB,
        "whether the kernel's clock is synchronised",
        files=("timedatectl.txt",),
    ),
    Probe(
        "environment", "file", ("/etc/environment",), 5.0, MIB,
        "the proxy that every session is given",
        files=("environment.txt",),
    ),
    Probe(
        "apt_config", "command", ("apt-config", "dump"), 10.0, MIB,
        "apt's settings: proxy, unattended upgrades",
        files=("apt_config.txt",),
    ),
    Probe(
        "sysctl", "command", ("sysctl", "-a"), 10.0, 4 * MIB,
        "the kernel's settings",
        accept_rc=(0, 1, 255), files=("sysctl.txt",), root=True,
    ),
    Probe(
        "limits", "files", ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf"), 5.0, MIB,
        "limits of login sessions: locked memory, open files",
        files=("limits.json",),
    ),
    Probe(
        "findmnt", "command", ("findmnt", "-J", "-b", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS"),
        10.0, 4 * MIB,
        "what is mounted now",
        files=("findmnt.json",),
    ),
    Probe(
        "fstab", "command",
        ("findmnt", "--fstab", "-e", "-J", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS"), 10.0, MIB,
        "what is mounted at boot",
        accept_rc=(0, 1), files=("fstab.json",),
    ),
    Probe(
        "mdstat", "file", ("/proc/mdstat",), 5.0, MIB,
        "software RAID",
        files=("mdstat.txt",),
    ),
    Probe(
        "device_links", "command",
        ("find", "/dev/disk/by-id", "/dev/md", "-type", "l", "-printf", "%p %l\\n"), 10.0, 4 * MIB,
        "stable names of disks and arrays",
        accept_rc=(0, 1), files=("device_links.txt",),
    ),
    Probe(
        "ip_addr", "command", ("ip", "-j", "addr", "show"), 10.0, 4 * MIB,
        "the node's own addresses",
        files=("ip_addr.json",),
    ),
    Probe(
        "trust_store", "trust", (), 10.0, 4 * MIB,
        "which certificate authorities the system trusts (SHA-256)",
        files=("trust_store.txt",),
    ),
    # What keeps packages where they are, and what the next boot will be.
    Probe(
        "next_boot", "boot", (), 45.0, MIB,
        "the next boot: kernel, headers, nvidia module, initramfs, nouveau, reboot flag",
        files=("next_boot.json",), root=True,
    ),
    Probe(
        "dkms_status", "command", ("dkms", "status"), 20.0, MIB,
        "modules that DKMS has built, for each kernel",
        files=("dkms_status.txt", "dkms.txt"),
    ),
    Probe(
        "mokutil_sb", "command", ("mokutil", "--sb-state"), 10.0, MIB,
        "whether Secure Boot is on",
        files=("mokutil_sb.txt", "mokutil.txt"),
    ),
    Probe(
        "mok_enrolled", "command", ("mokutil", "--list-enrolled"), 10.0, MIB,
        "the machine owner's keys that modules may be signed with",
        files=("mok_enrolled.txt",), root=True,
    ),
    Probe(
        "dgx_release", "command", ("find", "/etc", "-maxdepth", "1", "-name", "*-release"),
        5.0, MIB,
        "whether this is DGX OS (/etc/dgx-release), where the vendor owns kernel and driver",
        files=("dgx_release.txt",),
    ),
    Probe(
        "dpkg_kernel", "command",
        ("dpkg-query", "-W", "-f",
         "${db:Status-Abbrev} ${binary:Package} ${Version} ${Architecture}\\n", "linux-*"),
        15.0, 4 * MIB,
        "kernel packages of Debian and Ubuntu",
        files=("dpkg_kernel.txt",),
    ),
    Probe(
        "holds", "command", ("apt-mark", "showhold"), 15.0, MIB,
        "packages that are held",
        files=("holds.txt", "apt_hold.txt"),
    ),
    Probe(
        "apt_preferences", "command",
        ("grep", "-r", "-H", "^", "/etc/apt/preferences", "/etc/apt/preferences.d"), 5.0, MIB,
        "versions that apt is told to keep (pins)",
        # 1: there is no line at all; 2: one of the two is not there, which is usual.
        accept_rc=(0, 1, 2), files=("apt_preferences.txt",),
    ),
    Probe(
        "rpm_locks", "command", ("dnf", "-q", "versionlock", "list"), 30.0, MIB,
        "packages that dnf keeps at one version",
        files=("rpm_locks.txt",),
    ),
    Probe(
        "upgrade_simulated", "command",
        ("apt-get", "-s", "-o", "Debug::NoLocking=1", "dist-upgrade"), 60.0, 8 * MIB,
        "what an upgrade would move (a simulation, it changes nothing)",
        files=("upgrade_simulated.txt",),
    ),
    Probe(
        "apt_releases", "command", ("apt-cache", "policy"), 15.0, MIB,
        "who signs each repository that apt knows",
        files=("apt_releases.txt",),
    ),
    Probe(
        "apt_policy", "packages",
        ("apt-cache", "policy", "--", "*nvidia*", "libnvsdm*", "nvlsm*", "nvlink5*",
         "cuda-drivers*"),
        30.0, 4 * MIB,
        "from which repository each driver package came, and which one the next would come from",
        files=("apt_policy.txt",),
    ),
    Probe(
        "nvidia_smi", "saved", ("nvidia-smi",), 0.0, MIB,
        "the plain table",
        files=("nvidia_smi.txt", "nvidia-smi.txt"),
    ),
    Probe(
        "nvidia_smi_list", "saved", ("nvidia-smi", "-L"), 0.0, MIB,
        "the list of GPUs",
        files=("nvidia_smi_L.txt", "nvidia_smi_list.txt"),
    ),
    Probe(
        "nvidia_smi_query", "saved",
        ("nvidia-smi", "--query-gpu=index,name,uuid,pci.bus_id,driver_version", "--format=csv"),
        0.0, MIB,
        "a table of chosen values",
        files=("query.csv", "nvidia_smi_query.csv"),
    ),
    Probe(
        "fabric_states", "saved", ("nvidia-smi", "-q"), 0.0, MIB,
        "the Fabric blocks alone, as people cut them out",
        files=("fabric.txt", "fabric_states.txt"),
    ),
    Probe(
        "dcgmi_discovery", "saved", ("dcgmi", "discovery", "-l"), 0.0, MIB,
        "the GPUs that DCGM found",
        files=("dcgmi_discovery.txt",),
    ),
    Probe(
        "dcgm_metrics", "saved", (), 0.0, 8 * MIB,
        "a scrape of the DCGM exporter of this node",
        files=("dcgm_metrics.txt", "metrics.txt"),
    ),
    Probe(
        "k8s_resourceslice", "saved",
        ("kubectl", "get", "resourceslices", "-o", "yaml"), 0.0, 4 * MIB,
        "the GPUs that the cluster may hand out (DRA)",
        files=("resourceslices.yaml",),
    ),
    Probe(
        "dcgm_diag", "saved", ("dcgmi", "diag", "-r", "1", "-j"), 0.0, 4 * MIB,
        "the result of DCGM's diagnostic",
        files=("dcgm_diag.json", "dcgm_diag.txt", "dcgmi_diag.txt"),
    ),
    Probe(
        "cuda_error", "saved", (), 0.0, MIB,
        "the error with which a CUDA program ended",
        files=("cuda_error.txt", "torch_error.txt"),
    ),
    Probe(
        "gpu_reset", "saved", ("nvidia-smi", "--gpu-reset"), 0.0, MIB,
        "the answer to a GPU reset",
        files=("gpu_reset.txt", "smi_gpu_reset.txt"),
    ),
    Probe(
        "nccl_tests", "saved",
        ("all_reduce_perf", "-b", "8", "-e", "16G", "-f", "2", "-g", "8", "-c", "1"),
        0.0, 8 * MIB,
        "bandwidth and correctness of a collective (nccl-tests)",
        files=("nccl.txt", "nccl_tests.txt", "all_reduce.txt", "nccl.json"),
    ),
    Probe(
        "nccl_debug", "saved", (), 0.0, 8 * MIB,
        "NCCL's own log (NCCL_DEBUG=INFO)",
        files=("nccl_debug.txt", "nccl_info.txt"),
    ),
    Probe(
        "ibstat", "saved", ("ibstat",), 0.0, MIB,
        "RDMA devices and ports",
        files=("ibstat.txt", "ibstatus.txt"),
    ),
    Probe(
        "ibv_devinfo", "saved", ("ibv_devinfo", "-v"), 0.0, 4 * MIB,
        "RDMA devices and ports in full",
        files=("ibv_devinfo.txt", "ibv_devinfo-v.txt"),
    ),
    Probe(
        "ibdev2netdev", "saved", ("ibdev2netdev",), 0.0, MIB,
        "which interface belongs to which RDMA device",
        files=("ibdev2netdev.txt",),
    ),
    Probe(
        "show_gids", "saved", ("show_gids",), 0.0, MIB,
        "the GID table",
        files=("show_gids.txt", "gids.txt", "sysfs-gids.txt"),
    ),
    Probe(
        "ib_write_bw", "saved",
        ("ib_write_bw", "-d", "mlx5_0", "-x", "3", "-q", "4", "-s", "8388608", "-F",
         "--report_gbits", "-D", "10"),
        0.0, 4 * MIB,
        "bandwidth between two NICs (perftest)",
        files=("ib_write_bw.txt", "perftest.txt"),
    ),
)  # fmt: skip

BY_ID = {probe.id: probe for probe in PROBES}
