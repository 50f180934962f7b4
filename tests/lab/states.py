"""What of a node and of the controller is equal before and after a run that changes nothing."""

from __future__ import annotations

import hashlib

from tests.lab.rig import Rig

#: Packages, holds, files with mode and owner, their contents, units, modules, sysctls.
#: Not: what rolls by itself (random, counters), and the private folders that systemd makes anew.
_NODE = r"""
set -u
dpkg-query -W -f 'package ${Package} ${Version} ${Status}\n'
apt-mark showhold | sed 's/^/hold /'
PLACES="/etc /usr/lib/systemd /usr/lib/modprobe.d /usr/local /boot /lib/modules /var/lib/dkms
        /var/lib/apt/lists /var/lib/dpkg /run/lab/modules"
find $PLACES -xdev -printf 'file %p %y %m %u:%g %l\n' 2>/dev/null | sort
find $PLACES -xdev -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum | sed 's/^/sum /'
systemctl list-unit-files --no-legend --plain --no-pager | sed 's/^/unit file /'
systemctl list-units --all --no-legend --plain --no-pager --type=service,mount,socket,timer |
    grep -v -e '^systemd-timedated' -e '^run-user-' -e '^user' -e '^session-' | sed 's/^/unit /'
sysctl -a 2>/dev/null | sed 's/^/sysctl /' |
    grep -v -E 'random|ns_last_pid|pty\.nr|inode-|dentry|file-nr|nf_conntrack_count|\.stat_'
exit 0
"""

#: What a run leaves lying about: temporary folders of the system and of Ansible.
_LEFT = r"""
find /tmp /var/tmp /root/.ansible/tmp /home/*/.ansible/tmp -mindepth 1 2>/dev/null |
    grep -v -E '/systemd-private-[^/]*(/tmp)?$|/\.(X11|ICE|XIM|font|Test)-unix$'
exit 0
"""


def node_state(rig: Rig, node: int = 1) -> set[str]:
    """One line for everything."""
    found = set(rig.inside(_NODE, node).splitlines())
    assert len(found) > 1000, "the node was not read"
    return found


def left_on_node(rig: Rig, node: int = 1) -> list[str]:
    """Temporary files on a node."""
    return rig.inside(_LEFT, node).splitlines()


def left_on_controller(rig: Rig) -> list[str]:
    """Temporary files of runs that came to their end."""
    places = (rig.folder / "tmp", rig.home / ".ansible/tmp")
    return [str(path) for place in places for path in place.rglob("*")]


def controller_state(rig: Rig) -> dict[str, str]:
    """Every file below the rig's folder: ledger, home, temporary files. Sockets of ssh go by
    themselves."""
    return {
        str(path.relative_to(rig.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(rig.folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def changes(before: set[str], after: set[str]) -> list[str]:
    """Lines that went and lines that came; empty where nothing changed."""
    gone = [f"- {line}" for line in sorted(before - after)]
    return gone + [f"+ {line}" for line in sorted(after - before)]
