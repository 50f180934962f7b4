"""Every fault that the lab can make: its cause, how it is put in place, and who must notice.

A fault changes a cause (a package, a unit, a file, told hardware), never the text that a probe
prints. The scripts are for ``sh -eu`` and run as root; a script that heals may follow one that was
cut short.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``closes``: the first gate that must close. ``check``: the check that names the fault, of
    ``subject``; where ``unknown``, by UNKNOWN.

    ``explains``: checks that the gate itself calls explained by it; no other check may fail.
    ``breaks`` and ``heals`` are scripts; on the mirror machine where ``on_mirror``.
    ``seen`` and ``settled``: commands that succeed, on the node, once the cause is in place and
    once nothing of it is left; they are asked again until they do. ``remedy``: what the check
    prints where it has a special one for this fault. ``reboots``: the node is restarted after
    ``heals``, because the remedy of the check says so. ``kind``: of the node that can have it.
    """

    name: str
    says: str
    closes: str
    check: str
    breaks: str
    heals: str
    subject: str = "node"
    explains: tuple[str, ...] = ()
    remedy: str = ""
    on_mirror: bool = False
    unknown: bool = False
    reboots: bool = False
    seen: str = "true"
    settled: str = "true"
    kind: str = "stock"


RUNS = "580.173.02"
_APT = (
    "DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --allow-downgrades "
    "--allow-change-held-packages install"
)
_PIN = "/etc/apt/preferences.d/nvidia-driver-pinning"
_HEALTHY = "/usr/lib/lab/tell --healthy"
_FABRIC = (
    "systemctl is-active --quiet nvidia-fabricmanager && grep -q Completed /run/lab/fabric.json"
)
#: chronyd must have asked a server again before the node knows of its clock's error.
_OFF_S = "chronyc -n -c tracking | awk -F, '{ exit !($5 * $5 %s 1 && $14 == \"Normal\") }'"
_SYNCED = _OFF_S % "<"


def _told(name: str, says: str, check: str, change: str, **more: object) -> Fault:
    """A fault of the hardware as it is told."""
    return Fault(
        name, says, breaks=f"/usr/lib/lab/tell {change}", heals=_HEALTHY, check=check,
        **({"closes": "driver"} | more),  # type: ignore[arg-type]
    )  # fmt: skip


def _moved(version: str) -> str:
    """Everything of the driver to one version of its branch, held there by the vendor's pin."""
    return (
        f"apt-get -qq update; apt-get -qq -y purge 'nvidia-driver-pinning-*'; "
        f"{_APT} nvidia-driver-pinning-{version}; "
        "DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --allow-downgrades "
        "dist-upgrade"
    )


#: Builds the installed module again, as the configuration of dkms now says.
_BUILD = (
    f"dkms remove nvidia/{RUNS} --all >/dev/null || true; "
    f"dkms install nvidia/{RUNS} -k $(uname -r) >/dev/null"
)
#: Stops who uses the module, loads the one that is installed, starts them again.
_RELOAD = (
    "systemctl stop nvidia-fabricmanager nvidia-persistenced; "
    "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia || true; modprobe nvidia; "
    "systemctl start nvidia-persistenced nvidia-fabricmanager"
)

FAULTS: tuple[Fault, ...] = (
    Fault(
        "fabric-manager-behind", "the fabric manager is one patch behind the driver",
        closes="driver", check="driver.stack_match", subject="fabric manager",
        # Held: what is held stays behind when the rest moves.
        breaks=f"{_APT} nvidia-fabricmanager=580.126.09-1; apt-mark -qq hold nvidia-fabricmanager",
        heals=f"apt-mark -qq unhold nvidia-fabricmanager; {_APT} nvidia-fabricmanager={RUNS}-1; "
        "systemctl restart nvidia-fabricmanager",
        settled=_FABRIC,
    ),
    Fault(
        "driver-moved", "a version glob moved the whole driver to another version",
        closes="driver", check="driver.stack_lock",
        breaks=f"{_moved('580.126.09')}; {_RELOAD}", heals=f"{_moved(RUNS)}; {_RELOAD}",
        seen=_FABRIC, settled=_FABRIC,
    ),
    Fault(
        "userspace-ahead", "new userspace was installed over the loaded module",
        closes="driver", check="driver.stack_match", subject="userspace",
        # The fabric manager is held, so that userspace alone is ahead.
        breaks=f"apt-mark -qq hold nvidia-fabricmanager; {_moved('580.126.09')}",
        heals=f"{_moved(RUNS)}; apt-mark -qq unhold nvidia-fabricmanager", reboots=True,
        explains=("driver.answers", "cuda.init"),
    ),
    Fault(
        "nouveau-loaded", "nouveau is loaded beside the driver", closes="driver",
        check="driver.modules", breaks="modprobe nouveau", heals="rmmod nouveau || true",
    ),
    Fault(
        "no-headers", "the kernel that boots next has no headers: no module will be built",
        closes="driver", check="boot.headers",
        breaks="cd /lib/modules/$(uname -r); mv build build.away",
        heals="cd /lib/modules/$(uname -r); [ ! -L build.away ] || mv build.away build",
    ),
    Fault(
        "secure-boot-unsigned", "Secure Boot is on and nobody signed the module", closes="driver",
        check="boot.secure_boot",
        breaks=f"echo sign_file=/nonexistent >/etc/dkms/framework.conf.d/unsigned.conf; {_BUILD}; "
        "/usr/lib/lab/tell secure_boot=true",
        heals=f"{_HEALTHY}; rm -f /etc/dkms/framework.conf.d/unsigned.conf; {_BUILD}",
    ),
    _told(
        "gpu-missing", "one GPU is not on the bus", "pci.gpu_count", "gpus.3.present=false",
        closes="preflight", explains=("gpu.count", "cuda.init", "nvlink.full_mesh"),
    ),
    _told(
        "ecc-off", "ECC of one GPU is off", "gpu.ecc_mode",
        "gpus.2.ecc_current=false gpus.2.ecc_pending=false", subject="GPU 2",
    ),
    _told(
        "pcie-x8", "one GPU runs on eight lanes", "pci.gpu_link", "gpus.5.pcie_width_current=8",
        closes="preflight", subject="GPU 5", explains=("gpu.pcie",),
    ),
    Fault(
        "xid-79", "a GPU fell off the bus and the kernel said so", closes="driver",
        check="kernel.xid",
        breaks="/usr/lib/lab/kernel-line 2 'NVRM: Xid (PCI:0000:52:00): 79, pid=4711, GPU has "
        "fallen off the bus.'",
        heals="true", reboots=True,
    ),
    _told(
        "row-remap-pending", "a row of memory waits to be remapped", "gpu.row_remap",
        "gpus.1.remap_pending=true gpus.1.remap_uncorrectable=1", subject="GPU 1",
        remedy="drain and reset the GPU, then look again",
    ),
    _told(
        "hung-smi", "nvidia-smi hangs", "driver.answers", "smi_hang=true", unknown=True,
        remedy="the tool hangs, which is a finding: read dmesg for Xid 119 or 79, reboot",
    ),
    Fault(
        "mirror-down", "the mirror does not answer", closes="preflight", check="apt.sources",
        breaks="touch /srv/down", heals="rm -f /srv/down", on_mirror=True,
        seen="! (exec 3<>/dev/tcp/mirror/80) 2>/dev/null",
        settled="(exec 3<>/dev/tcp/mirror/80)",
        remedy="is the mirror up, the name right, the proxy set? `curl -I URL` on the node",
    ),
    Fault(
        "hold-missing", "a driver package is held no more", closes="driver",
        check="packages.driver_hold",
        breaks=f"apt-get -qq -y purge nvidia-driver-pinning-{RUNS}",
        heals=f"{_APT} nvidia-driver-pinning-{RUNS}",
    ),
    Fault(
        "wrong-repository-key", "the node trusts another key than the one that signs the packages",
        closes="preflight", check="apt.sources",
        breaks="cd /etc/apt/keyrings; home=$(mktemp -d); mkdir -p /var/lib/lab/keys; "
        "cp -p fabric*.asc /var/lib/lab/keys; "
        "gpg --batch --quiet --homedir $home --passphrase '' --quick-gen-key stranger ed25519 "
        "sign never 2>/dev/null; "
        "for key in fabric*.asc; do gpg --homedir $home --armor --export stranger >$key; done; "
        "gpgconf --homedir $home --kill all; rm -r $home",
        remedy="the mirror signs with another key than signed-by names: compare both, and never "
        "trust a source as it is ([trusted=yes])",
        heals="[ ! -d /var/lib/lab/keys ] || cp -p /var/lib/lab/keys/*.asc /etc/apt/keyrings/",
    ),
    Fault(
        "clock-off", "the clock is 90 s away from the site's", closes="base", check="host.time",
        breaks="echo 90 >/srv/time_offset_s", heals="echo 0 >/srv/time_offset_s", on_mirror=True,
        seen=f"chronyc -n burst 1/1 >/dev/null; {_OFF_S % '>'}",
        settled=f"{_SYNCED} || {{ chronyc -n burst 1/1; false; }}",
    ),
    Fault(
        "no-proxy-missing", "NO_PROXY lacks the cluster's ranges", closes="base",
        check="host.proxy",
        breaks="cp -p /etc/environment /var/lib/lab/environment; sed -i s/10.42.0.0.16,// "
        "/etc/environment",
        heals="[ ! -f /var/lib/lab/environment ] || cp -p /var/lib/lab/environment "
        "/etc/environment",
    ),
    Fault(
        "fabric-manager-dead", "the fabric manager is dead, the fabric state is latched",
        closes="driver", check="fabric.manager",
        breaks="systemctl kill -s KILL nvidia-fabricmanager",
        seen="systemctl is-failed --quiet nvidia-fabricmanager",
        heals="systemctl reset-failed nvidia-fabricmanager || true; "
        "systemctl start nvidia-fabricmanager",
        settled=_FABRIC, explains=("fabric.state",),
    ),
    _told(
        "pair-pix", "two GPUs reach each other through a PCIe switch", "nvlink.full_mesh",
        'topology={\\"GPU2-GPU5\\":\\"PIX\\"}', subject="GPU2-GPU5",
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
