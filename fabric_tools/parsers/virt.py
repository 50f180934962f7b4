"""`systemd-detect-virt`: one word.

Evidence: "kvm" of a real node, re-rendered; the other words are those of the manual page.
"""

from __future__ import annotations

from fabric_tools.models.system import Virtualization
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "virt"

_WORDS = frozenset(
    (
        *("none", "qemu", "kvm", "amazon", "zvm", "vmware", "microsoft", "oracle", "powervm"),
        *("xen", "bochs", "uml", "parallels", "bhyve", "qnx", "acrn", "apple", "sre", "google"),
        *("vm-other", "openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman"),
        *("rkt", "wsl", "proot", "pouch", "container-other"),
    )
)


def parse_virt(text: str) -> Virtualization:
    """The one word."""
    said = [(n, line.strip()) for n, line in numbered(read_lines(PROBE, text, max_lines=20))]
    if len(said) != 1 or said[0][1] not in _WORDS:
        raise ParseError(PROBE, said[0][0] if said else 0, "not one word of systemd-detect-virt")
    number, word = said[0]
    return Virtualization(kind=word, virtual=word != "none", line=number)
