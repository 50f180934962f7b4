"""The one table of what is asked of a node. Data only.

This file is packed into the collector as it is, so it keeps to Python 3.9 and the standard library.
Every probe only reads. Where a tool offers XML or key=value output, that is what is asked for.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

MIB = 1024 * 1024


class Probe(NamedTuple):
    """One question to a node.

    ``kind``: ``command`` runs ``argv``; ``file`` reads the file ``argv[0]``; ``nvml`` asks the NVML
    library in a child process. ``timeout_s`` and ``max_bytes`` bound it (stdout; stderr is bounded
    by the collector). ``accept_rc`` lists the exit statuses that mean "the answer is whole".
    ``files`` are the names under which people save this output by hand, the first one preferred.
    ``root``: an ordinary user gets no answer or half of one.
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
)  # fmt: skip

BY_ID = {probe.id: probe for probe in PROBES}
