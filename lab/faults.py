"""Every fault that the lab can make: its cause, how it is put in place, and who must notice.

A fault changes a cause (a package, a unit, a file, told hardware), never the text that a probe
prints. The scripts run in the node as root.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``closes``: the gate that must close. ``check``: the check that names the fault.

    ``also``: checks that fail as its consequence, because the cause breaks what they look at too;
    no other check may fail. ``subject``: of whom ``check`` speaks. ``breaks`` and ``heals`` are
    shell scripts; ``on_mirror``: they run on the mirror machine. ``settle``: a command that must
    succeed before the node is judged. ``kind``: of the node that can have it.
    """

    name: str
    says: str
    closes: str
    check: str
    breaks: str
    heals: str
    subject: str = "node"
    also: tuple[str, ...] = ()
    on_mirror: bool = False
    unknown: bool = False
    kind: str = "stock"


_APT = (
    "DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --allow-downgrades "
    "--allow-change-held-packages install"
)
_HEALTHY = "/usr/lib/lab/tell --healthy"


def _told(name: str, says: str, check: str, change: str, **more: object) -> Fault:
    """A fault of the hardware as it is told."""
    return Fault(
        name, says, breaks=f"/usr/lib/lab/tell {change}", heals=_HEALTHY, check=check,
        **({"closes": "driver"} | more),  # type: ignore[arg-type]
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    Fault(
        "fabric-manager-behind", "the fabric manager is one patch behind the driver",
        closes="driver", check="driver.stack_match",
        breaks=f"{_APT} nvidia-fabricmanager=580.126.09-1; systemctl restart nvidia-fabricmanager "
        "|| true",
        heals=f"{_APT} nvidia-fabricmanager=580.173.02-1; systemctl restart nvidia-fabricmanager",
    ),
    Fault(
        "nouveau-loaded", "nouveau is loaded beside the driver", closes="driver",
        check="driver.modules", breaks="modprobe nouveau", heals="rmmod nouveau",
    ),
    Fault(
        "no-headers", "the kernel that boots next has no headers: no module will be built",
        closes="driver", check="boot.headers",
        breaks="mv /lib/modules/$(uname -r)/build /lib/modules/$(uname -r)/build.away",
        heals="mv /lib/modules/$(uname -r)/build.away /lib/modules/$(uname -r)/build",
    ),
    _told(
        "secure-boot-unsigned", "Secure Boot is on and nobody signed the module",
        "boot.secure_boot", "secure_boot=true",
    ),
    _told(
        "gpu-missing", "one GPU is not on the bus", "pci.gpu_count", "gpus.3.present=false",
        closes="preflight",
    ),
    _told(
        "ecc-off", "ECC of one GPU is off", "gpu.ecc_mode",
        "gpus.2.ecc_current=false gpus.2.ecc_pending=false", subject="GPU 2",
    ),
    _told(
        "pcie-x8", "one GPU runs on eight lanes", "gpu.pcie", "gpus.5.pcie_width_current=8",
        subject="GPU 5", also=("pci.gpu_link",),
    ),
    Fault(
        "xid-79", "a GPU fell off the bus and the kernel said so", closes="driver",
        check="kernel.xid",
        breaks="/usr/lib/lab/kernel-line 2 'NVRM: Xid (PCI:0000:4e:00): 79, pid=4711, GPU has "
        "fallen off the bus.'",
        heals="sed -i /Xid/d /run/lab/kmsg",
    ),
    _told(
        "row-remap-pending", "a row of memory waits to be remapped", "gpu.row_remap",
        "gpus.1.remap_pending=true gpus.1.remap_uncorrectable=1", subject="GPU 1",
    ),
    _told(
        "hung-smi", "nvidia-smi hangs", "driver.answers", "smi_hang=true", unknown=True,
    ),
    Fault(
        "mirror-down", "the mirror does not answer", closes="base", check="apt.sources",
        breaks="touch /srv/down", heals="rm -f /srv/down", on_mirror=True,
    ),
    Fault(
        "hold-missing", "a driver package is held no more", closes="driver",
        check="packages.driver_hold",
        breaks="apt-get -qq -y purge nvidia-driver-pinning-580.173.02; apt-mark unhold "
        "nvidia-fabricmanager",
        heals=f"{_APT} nvidia-driver-pinning-580.173.02",
    ),
    Fault(
        "wrong-repository-key", "the package lists are signed by a key that nobody knows",
        closes="base", check="apt.sources",
        breaks="mv /etc/apt/keyrings/fabric.asc /etc/apt/keyrings/fabric.away; gpg --batch --quiet "
        "--homedir $(mktemp -d) --passphrase '' --quick-gen-key stranger ed25519 sign never; true",
        heals="mv /etc/apt/keyrings/fabric.away /etc/apt/keyrings/fabric.asc",
    ),
    Fault(
        "clock-off", "the clock is 90 s away from the site's", closes="base", check="host.time",
        breaks="echo 90 >/srv/time_offset_s", heals="echo 0 >/srv/time_offset_s", on_mirror=True,
    ),
    Fault(
        "no-proxy-missing", "NO_PROXY lacks the cluster's ranges", closes="base",
        check="host.proxy",
        breaks="cp -p /etc/environment /etc/environment.away; sed -i s/10.42.0.0.16,// "
        "/etc/environment",
        heals="mv /etc/environment.away /etc/environment",
    ),
    Fault(
        "fabric-manager-dead", "the fabric manager is dead, the fabric state is latched",
        closes="driver", check="fabric.manager",
        breaks="systemctl kill -s KILL nvidia-fabricmanager; sleep 0.5; systemctl stop "
        "nvidia-fabricmanager",
        heals="systemctl reset-failed nvidia-fabricmanager; systemctl start nvidia-fabricmanager",
    ),
    _told(
        "pair-pix", "two GPUs reach each other through a PCIe switch", "nvlink.full_mesh",
        'topology={"GPU2-GPU5":"PIX"}', subject="GPU2-GPU5",
    ),
    _told(
        "link-down", "17 of 18 links of one GPU are up", "nvlink.links",
        "gpus.6.nvlinks.17=false", subject="GPU 6",
    ),
    Fault(
        "foreign-repository", "DGX OS has the CUDA network repository as a source beside its own",
        closes="driver", check="driver.origin", kind="dgx-os",
        breaks=r"sed -n 's|^URIs: \(.*\)/dgx/.*|deb [signed-by=/usr/share/keyrings/dgx.asc] "
        r"\1/cuda/ /|p' /etc/apt/sources.list.d/dgx.sources >/etc/apt/sources.list.d/cuda.list; "
        "apt-get -qq update",
        heals="rm -f /etc/apt/sources.list.d/cuda.list; apt-get -qq update",
    ),
)  # fmt: skip

BY_NAME = {fault.name: fault for fault in FAULTS}
