"""Units and maintainer scripts of the vendor's packages."""

from __future__ import annotations

FABRIC_MANAGER = b"""\
[Unit]
Description=NVIDIA fabric manager service
After=network-online.target
Requires=network-online.target

[Service]
User=root
Type=forking
TimeoutStartSec=720
PIDFile=/run/nvidia-fabricmanager/nv-fabricmanager.pid
ExecStart=/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg
LimitCORE=infinity

[Install]
WantedBy=multi-user.target
"""
FABRIC_CONFIG = b"""\
LOG_LEVEL=4
LOG_FILE_NAME=/var/log/fabricmanager.log
LOG_APPEND_TO_LOG=1
DAEMONIZE=1
FABRIC_MODE=0
"""
PERSISTENCED = b"""\
[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=forking
PIDFile=/run/nvidia-persistenced/nvidia-persistenced.pid
ExecStart=/usr/bin/nvidia-persistenced --user root --persistence-mode --verbose
ExecStopPost=/bin/rm -rf /run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""
#: What udev does when the nvidia driver registers; the stand-in modprobe does it.
UDEV = b"""\
ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/sbin/modprobe nvidia-modeset"
ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/sbin/modprobe nvidia-drm"
ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/sbin/modprobe nvidia-uvm"
"""
#: As dh_dkms writes it: a kernel without headers is skipped with a word, not a failure.
DKMS_POSTINST = """\
#!/bin/sh
set -e
case "$1" in
configure)
    sh /usr/lib/dkms/common.postinst nvidia {version} /usr/share/nvidia "" "$2"
    ;;
esac
"""
DKMS_PRERM = """\
#!/bin/sh
set -e
case "$1" in
remove|upgrade|deconfigure)
    if [ -e /var/lib/dkms/nvidia/{version} ]; then
        dkms remove -m nvidia -v {version} --all
    fi
    ;;
esac
"""


def scripts(unit: str, *, enable: bool) -> dict[str, str]:
    """Maintainer scripts that make systemd see the unit; ``enable`` it on the first installation.

    An upgrade does not restart the running daemon: the old one goes on until somebody does.
    """
    first = f'[ -n "$2" ] || systemctl enable {unit} || true\n' if enable else ""
    live = "[ -d /run/systemd/system ] || exit 0\n"
    return {
        "postinst": f"#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n{first}{live}"
        "systemctl daemon-reload || true\n",
        "prerm": f"#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n{live}"
        f"systemctl stop {unit} || true\n",
        "postrm": f"#!/bin/sh\nset -e\n[ \"$1\" != purge ] || rm -f "
        f"/etc/systemd/system/multi-user.target.wants/{unit}\n{live}"
        "systemctl daemon-reload || true\n",
    }  # fmt: skip
