"""RDMA devices as the kernel shows them in sysfs, and questions to the interface of each.

Tools for this differ by vendor stack (ibv_devinfo, show_gids, ibstat) or are absent; sysfs is there
wherever the driver is. Names are checked before they become part of a path or of a command.
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterable, Iterator, List

from fabric_tools.node.run import Outcome, Stop, run_bounded
from fabric_tools.probes import Probe

ROOT = "/sys/class/infiniband"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
#: Of devices, ports and GIDs; a port has up to 256 GIDs, a node with virtual functions hundreds.
_MAX_NAMES = 4096
#: Of a device, of a port, and counters of a port (the RoCE ones are the driver's own).
_DEVICE_FILES = ("fw_ver", "board_id", "hca_type", "node_guid", "node_type")
_PORT_FILES = ("state", "phys_state", "rate", "link_layer", "lid")
_COUNTERS = ("counters", "hw_counters")
#: Of each network interface of a device.
_NET_FILES = ("mtu", "operstate", "speed")
#: Paths in one command line, far below what the kernel allows.
_BATCH = 1000
_GID = re.compile(r"/ports/\d+/gids/\d+\Z")
#: A port has 16 to 256 GIDs, of which few are set.
_ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def read_infiniband(probe: Probe, stop: Stop, root: str = ROOT) -> Outcome:
    """One ``path: value`` a line for every RDMA device; ``absent`` where the kernel has none.

    The files are read by ``head`` in a child, a device at a time: the read of a counter asks the
    firmware, and one that does not answer must hold neither the collector nor the other devices'
    lines that were read before.
    """
    began = time.monotonic()
    devices = _names(root)
    if not devices:
        return Outcome("absent", None, b"", b"", time.monotonic() - began, "no RDMA device")
    reader = _Files(probe, stop, root, began)
    for device in devices:
        if not (reader.read(_files(root, device)) and reader.read(reader.gid_attributes(device))):
            break
    text = "".join(line + "\n" for line in reader.lines).encode("utf-8", "replace")
    took = time.monotonic() - began
    return Outcome(reader.status, None, text[: probe.max_bytes], b"", took, reader.note)


class _Files:
    """Reads files with a bound on time and size; ``status`` and ``note`` say how it ended."""

    def __init__(self, probe: Probe, stop: Stop, root: str, began: float) -> None:
        self.lines = []  # type: List[str]
        self.status, self.note = "ok", ""
        self._probe, self._stop, self._root = probe, stop, root
        self._deadline = began + probe.timeout_s
        self._gids = []  # type: List[str]
        self._size = 0

    def read(self, names: Iterable[str]) -> bool:
        """Adds one line a file that has a first line; False where the reading must end."""
        paths = list(names)
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                self.status, self.note = "timeout", "at " + batch[0]
                return False
            argv = ("head", "-v", "-c", "4096", "--", *(self._root + "/" + n for n in batch))
            found = run_bounded(argv, left_s, self._probe.max_bytes, (0, 1), stop=self._stop)
            self._take(found.stdout.decode("ascii", "replace"))
            if found.status != "ok" or self._size > self._probe.max_bytes:
                # "absent" means that there is no device; here it would be head that is missing.
                word = {"ok": "cut", "absent": "error"}.get(found.status, found.status)
                self.status, self.note = word, "%s, at %s" % (found.note, batch[0])
                return False
        return True

    def _take(self, text: str) -> None:
        for part in ("\n" + text).split("\n==> " + self._root + "/")[1:]:
            name, marked, rest = part.partition(" <==\n")
            value = rest.split("\n", 1)[0].strip()
            if not marked or not value:
                continue
            if _GID.search(name):
                if value == _ZERO_GID:
                    continue
                self._gids.append(name)
            self.lines.append("%s: %s" % (name, value))
            self._size += len(self.lines[-1]) + 1

    def gid_attributes(self, device: str) -> List[str]:
        """Type and interface of each GID of this device that is set."""
        mine = [name for name in self._gids if name.startswith(device + "/")]
        return [
            "%s/gid_attrs/%s/%s" % (place, kind, index)
            for place, _, index in (name.partition("/gids/") for name in mine)
            for kind in ("types", "ndevs")
        ]


def ask_interfaces(probe: Probe, stop: Stop, root: str = ROOT) -> Outcome:
    """Run the probe's command for every interface, one block each under ``==> NAME <==``.

    The first that does not end well is the status of all. ``absent`` where there is no interface.
    """
    began = time.monotonic()
    out, err = bytearray(), bytearray()
    status, rc, note = "ok", 0, ""
    interfaces = netdevs(root)
    if not interfaces:
        return Outcome("absent", None, b"", b"", 0.0, "no network interface of an RDMA device")
    for name in interfaces:
        left_s = began + probe.timeout_s - time.monotonic()
        if left_s <= 0:
            return Outcome("timeout", None, bytes(out), bytes(err), probe.timeout_s, "at " + name)
        argv = tuple(name if word == "{}" else word for word in probe.argv)
        found = run_bounded(
            argv, left_s, max(probe.max_bytes - len(out), 1), probe.accept_rc, stop=stop
        )
        out += b"==> %s <==\n" % name.encode() + found.stdout
        out += b"" if found.stdout.endswith(b"\n") else b"\n"
        err += found.stderr
        if found.status != "ok" and status == "ok":
            status, rc, note = found.status, found.rc or 0, "%s: %s" % (name, found.note)
            if status in ("absent", "timeout", "cut"):
                break
    return Outcome(status, rc, bytes(out), bytes(err), time.monotonic() - began, note)


def netdevs(root: str = ROOT) -> List[str]:
    """Names of the network interfaces of all RDMA devices, sorted, each once."""
    found = {
        name for device in _names(root) for name in _names(os.path.join(root, device, "device/net"))
    }
    return sorted(found)


def _names(folder: str) -> List[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [name for name in names if _NAME.match(name)][:_MAX_NAMES]


def _files(root: str, device: str) -> Iterator[str]:
    """Names of the files of one device, below ``root``; listing them asks no driver."""
    for name in _DEVICE_FILES:
        yield "%s/%s" % (device, name)
    for name in _names(os.path.join(root, device, "device/net")):
        for what in _NET_FILES:
            yield "%s/device/net/%s/%s" % (device, name, what)
    for port in _names(os.path.join(root, device, "ports")):
        place = "%s/ports/%s" % (device, port)
        for name in _PORT_FILES:
            yield "%s/%s" % (place, name)
        for folder in (*_COUNTERS, "gids"):
            for name in _names(os.path.join(root, place, folder)):
                yield "%s/%s/%s" % (place, folder, name)
