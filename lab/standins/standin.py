"""The stand-in program: `standin VERSION TOOL ARGS...`.

``VERSION`` is the one of the package that installed the launcher, ``-`` for tools that belong to no
vendor package. ``TOOL`` is the name under which it was called.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from . import firmware, flat, kmsg, pci, rdma, smi
from .state import ROOT, Node, StateError, load

#: What `dpkg-divert` renames the real program to.
_REAL = ".distrib"

_OF_NODE: dict[str, Callable[[list[str], Node], tuple[str, int]]] = {
    "lspci": pci.main,
    "mokutil": firmware.mokutil,
    "ibstat": lambda args, node: (rdma.ibstat(node), 0),
    "ibdev2netdev": lambda args, node: (rdma.ibdev2netdev(node), 0),
}

TOOLS = ("nvidia-smi", *_OF_NODE, "dmesg", "journalctl", "systemd-detect-virt", "flat")


def main(argv: list[str], root: Path = ROOT) -> int:
    """Answer for one call and return the exit status."""
    if len(argv) < 2 or argv[1] not in TOOLS:
        print(f"usage: standin VERSION {'|'.join(TOOLS)} [ARGS]", file=sys.stderr)
        return 2
    version, tool, *args = argv
    try:
        return _run(version, tool, args, root)
    except StateError as error:
        print(f"{tool}: the lab's state cannot be read: {error}", file=sys.stderr)
        return 70


def _run(version: str, tool: str, args: list[str], root: Path) -> int:
    if tool == "nvidia-smi":
        return smi.main(version, args, root)
    if tool == "flat":
        print("\n".join(flat.lines(version, root)))
        return 0
    if tool == "systemd-detect-virt":
        return _virt(args)
    if tool == "journalctl" and not kmsg.asks_kernel(args):
        real = root / f"usr/bin/journalctl{_REAL}"
        os.execv(real, [str(real), *args])
    if tool == "journalctl":
        text, status = kmsg.journal(args, root)
    elif tool == "dmesg":
        text, status = kmsg.dmesg(args, root)
    else:
        text, status = _OF_NODE[tool](args, load(root))
    said_on = sys.stdout if status == 0 or tool == "mokutil" else sys.stderr
    said_on.write(text)
    return status


def _virt(args: list[str]) -> int:
    """Bare metal: ``none`` and 1; with ``-q`` only the status."""
    if not {"-q", "--quiet"} & set(args):
        print("none")
    return 1


if __name__ == "__main__":
    # A reader that closes early (`nvidia-smi -q | head`) is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
