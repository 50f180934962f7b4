#!/usr/bin/python
"""Who holds the GPUs: every process with an open or mapped /dev/nvidia* file.

Runs on the node, standard library and Ansible's own helper only. Reads /proc and changes nothing.
"""

from __future__ import annotations

import os
import re

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: gpu_holders
short_description: Processes that hold the GPUs of this node
description:
  - Lists processes that have a device file of the NVIDIA driver open or mapped, also those inside
    containers, with the systemd unit that each belongs to. Must run as root.
options:
  proc:
    description: Where the proc file system is mounted.
    type: path
    default: /proc
author: fabric-tools
"""

RETURN = r"""
holders:
  description: One entry a process with pid, uid, command (argv[0]), unit ("" for none), devices.
  type: list
  elements: dict
  returned: success
"""

# By its last part: the path of a process in a container begins elsewhere.
_DEVICE = re.compile(r"(?:^|/)(nvidia(?:\d+|ctl|-modeset|-uvm(?:-tools)?|-nvswitch\w*|-cap\d+))$")
_UNIT = re.compile(r"/([^/]+\.(?:service|scope))(?:/|$)")


def devices_of(folder):
    """Device files that this process has open or mapped. OSError where it is gone or denied."""
    found = set()
    fds = os.path.join(folder, "fd")
    for name in os.listdir(fds):
        try:
            match = _DEVICE.search(os.readlink(os.path.join(fds, name)))
        except FileNotFoundError:
            continue  # closed since
        if match:
            found.add(match.group(1))
    with open(os.path.join(folder, "maps"), encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = _DEVICE.search(line.rstrip("\n"))
            if match:
                found.add(match.group(1))
    return sorted(found)


def unit_of(cgroup):
    """The innermost service or scope named in /proc/PID/cgroup, "" for none.

    Version 2's line first, then systemd's own of version 1, then the rest: in a hierarchy that
    systemd does not keep, a process lies in the root or in the group of process 1.
    """

    def rank(line):
        number, controllers = line.split(":", 2)[:2]
        return 0 if number == "0" else 1 if controllers == "name=systemd" else 2

    for line in sorted(cgroup.splitlines(), key=rank):
        units = [unit for unit in _UNIT.findall(line.split(":", 2)[2]) if unit != "init.scope"]
        if units:
            return units[-1]
    return ""


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read(65536)


def holders(proc):
    """All holders, by pid. Raises PermissionError where a process may not be looked into."""
    found = []
    for name in sorted((n for n in os.listdir(proc) if n.isdigit()), key=int):
        folder = os.path.join(proc, name)
        try:
            devices = devices_of(folder)
            if not devices:
                continue
            command = text_of(os.path.join(folder, "cmdline")).split("\0")[0]
            found.append({
                "pid": int(name),
                "uid": os.stat(folder).st_uid,
                "command": command or text_of(os.path.join(folder, "comm")).strip(),
                "unit": unit_of(text_of(os.path.join(folder, "cgroup"))),
                "devices": devices,
            })  # fmt: skip
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while it was read
    return found


def main():
    spec = {"proc": {"type": "path", "default": "/proc"}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        module.exit_json(changed=False, holders=holders(module.params["proc"]))
    except OSError as error:
        # Not seeing a process is not the same as its not being there.
        module.fail_json(msg=f"cannot tell who holds the GPUs: {error}; run as root")


if __name__ == "__main__":
    main()
