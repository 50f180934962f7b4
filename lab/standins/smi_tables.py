"""The plain table, `-L`, `topo -m`, `topo -p2p`, `nvlink -s` and `nvlink -e`.

Forms: the table of an H200 node with driver 590.48.01 and a B300 node with 610.57.04 (versions in
the heading), ``topo -m`` of an 8x H100 node (tabs, two before the last heading) with the NIC
columns of a DGX A100, ``nvlink -s`` of an H200, ``nvlink -e`` of an H100, ``-p2p`` of eight GPUs.
"""

from __future__ import annotations

import time

from .smi_fields import Shown
from .state import Node, PciFunction, branch, cuda_version

_RULE = (
    "+-----------------------------------------+------------------------+----------------------+"
)
_DOUBLE = (
    "|=========================================+========================+======================|"
)
_WIDE = (
    "+-----------------------------------------------------------------------------------------+"
)

_HEADINGS = (
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
)

#: Speed of one NVLink 4 link, as an H200 and an H100 print it.
_GBYTES_S = "26.562"

# Logical CPUs of the two sockets of the recorded node.
_CPUS = {0: "0-55,112-167", 1: "56-111,168-223"}

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501


def table(shown: list[Shown], driver: str, persistence: bool) -> str:
    """Plain ``nvidia-smi``."""
    kmd, cuda = ("KMD", "CUDA UMD") if branch(driver) >= 610 else ("Driver", "CUDA")
    head = f"| NVIDIA-SMI {driver:<23}{kmd} Version: {driver:<15}"
    head += f" {cuda} Version: {cuda_version(driver)}"
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y       "),
        _WIDE,
        head.ljust(90) + "|",
        _RULE,
        *_HEADINGS,
        _DOUBLE,
    ]
    for number, gpu, _, _ in shown:
        mode = "On" if persistence else "Off"
        ecc = str(gpu.ecc_uncorrectable_volatile) if gpu.ecc_current else "Off"
        lines += [
            f"|{number:>4}  {gpu.product:<25} {mode:>8} |   {gpu.bus_id.upper()} Off |{ecc:>21} |",
            f"| N/A  {gpu.temperature_c:>3}C    P0            101W /{gpu.power_limit_w:>5}W |"
            "       1MiB /  81559MiB |      0%      Default |",
            "|                                         |                        |"
            "             Disabled |",
            _RULE,
        ]
    lines += [
        "",
        _WIDE,
        "| Processes:".ljust(90) + "|",
        "|  GPU   GI   CI              PID   Type   Process name"
        "                        GPU Memory |",
        "|        ID   ID                                           "
        "                    Usage      |",
        "|" + "=" * 89 + "|",
        "|  No running processes found".ljust(90) + "|",
        _WIDE,
    ]
    return "\n".join(lines) + "\n"


def gpu_line(item: Shown) -> str:
    """The line that names a GPU in ``-L`` and above its NVLinks."""
    return f"GPU {item[0]}: {item[1].product} (UUID: {item[1].uuid})"


def listing(shown: list[Shown]) -> str:
    """``nvidia-smi -L``."""
    return "".join(gpu_line(item) + "\n" for item in shown)


def topology(node: Node, shown: list[Shown]) -> str:
    """``nvidia-smi topo -m`` with the NICs of the node."""
    gpus = [f"GPU{number}" for number, _, _, _ in shown]
    nics = [f"NIC{number}" for number in range(len(node.nics))]
    heads = [*gpus, *nics, "CPU Affinity", "NUMA Affinity"]
    lines = ["\t" + "\t".join(heads) + "\tGPU NUMA ID"]
    for number, gpu, _, _ in shown:
        cells = [" X " if other is gpu else node.pair(gpu, other) for _, other, _, _ in shown]
        cells += [_nic_cell(node, gpu.numa, node.beside(gpu, nic), nic) for nic in node.nics]
        cells += [_CPUS.get(gpu.numa, "N/A"), str(gpu.numa)]
        lines.append(f"GPU{number}\t" + "\t".join(cells) + "\t\tN/A")
    for number, nic in enumerate(node.nics):
        cells = [_nic_cell(node, gpu.numa, node.beside(gpu, nic), nic) for _, gpu, _, _ in shown]
        for other in node.nics:
            cells.append(" X " if other is nic else _nic_cell(node, other.numa, False, nic))
        lines.append(f"NIC{number}\t" + "\t".join(cells) + "\t\t")
    text = "\n".join(lines) + "\n" + _LEGEND
    if nics:
        text += "\nNIC Legend:\n\n"
        text += "".join(f"  NIC{n}: {nic.rdma}\n" for n, nic in enumerate(node.nics))
    return text + "\n"


def _nic_cell(node: Node, numa: int, beside: bool, nic: PciFunction) -> str:
    if beside:
        return "PIX"
    return "NODE" if numa == nic.numa else "SYS"


def peer_access(node: Node, shown: list[Shown], kind: str) -> str:
    """``nvidia-smi topo -p2p KIND``: over NVLink (n) only where the pair has one."""
    lines = [" \t" + "".join(f"GPU{number}\t" for number, _, _, _ in shown)]
    for number, gpu, _, _ in shown:
        cells = []
        for _, other, _, _ in shown:
            linked = kind != "n" or node.pair(gpu, other).startswith("NV")
            cells.append("X" if other is gpu else "OK" if linked else "NS")
        lines.append(f" GPU{number}\t" + "".join(cell + "\t" for cell in cells))
    legend = (
        "X    = Self", "OK   = Status Ok", "CNS  = Chipset not supported",
        "GNS  = GPU not supported", "TNS  = Topology not supported", "NS   = Not supported",
        "DR   = Disabled by Regkey", "U    = Unknown",
    )  # fmt: skip
    lines += ["", "Legend:", "", *(f"  {line}" for line in legend)]
    return "\n".join(lines) + "\n"


def link_status(shown: list[Shown]) -> str:
    """``nvidia-smi nvlink -s``: the speed of every link, ``<inactive>`` where it is down."""
    lines = []
    for item in shown:
        links = item[1].nvlinks
        lines.append(gpu_line(item))
        if links and not any(links):
            lines.append("\t Unable to retrieve NVLink information as all links are inActive")
            continue
        for link, up in enumerate(links):
            lines.append(f"\t Link {link}: " + (f"{_GBYTES_S} GB/s" if up else "<inactive>"))
    return "\n".join(lines) + "\n"


def link_errors(shown: list[Shown]) -> str:
    """``nvidia-smi nvlink -e``: no errors on any link that is up."""
    lines = []
    for item in shown:
        lines.append(gpu_line(item))
        for link, up in enumerate(item[1].nvlinks):
            for name in ("Replay", "Recovery", "CRC"):
                lines += [f"\t Link {link}: {name} Errors: 0"] if up else []
    return "\n".join(lines) + "\n"
