"""Which file of the stand-ins goes where in a node's image, and which programs give way to them."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

#: The folder of the package in the node; its parent is put on the module path by ``standin``.
PACKAGE = "/usr/lib/lab/standins"

#: Modules that run in the node.
MODULES = (
    "__init__.py", "firmware.py", "flat.py", "kmsg.py", "pci.py", "rdma.py", "smi.py",
    "smi_fields.py", "smi_query.py", "smi_tables.py", "standin.py", "state.py",
)  # fmt: skip

#: The program that launchers call: ``standin VERSION TOOL ARGS...``.
STANDIN = "/usr/lib/lab/standin"
_STANDIN_TEXT = """#!/bin/sh
# -I and -S: neither the caller's folder nor its variables nor site packages decide what runs.
exec /usr/bin/python3 -IS -c 'import sys
sys.path.insert(0, "/usr/lib/lab")
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
from standins.standin import main
sys.exit(main(sys.argv[1:]))' "$@"
"""

#: What the C doubles call: ``flat VERSION``.
FLAT = "/usr/lib/lab/flat"
_FLAT_TEXT = f'#!/bin/sh\nexec {STANDIN} "$1" flat\n'

#: Program of Debian -> tool of the stand-in. ``dpkg-divert --local --rename --add`` gives it the
#: name NAME.distrib first. The paths are those under which Debian 12's packages know them
#: (util-linux and systemd: /bin). dpkg-divert warns of dmesg, which is of an essential package;
#: nothing misses it.
DIVERSIONS = {
    "/usr/bin/lspci": "lspci",
    "/usr/bin/mokutil": "mokutil",
    "/bin/dmesg": "dmesg",
    "/bin/journalctl": "journalctl",
    "/usr/bin/systemd-detect-virt": "systemd-detect-virt",
}

#: Programs that the image does not have otherwise -> tool of the stand-in.
ADDED = {"/usr/sbin/ibstat": "ibstat", "/usr/sbin/ibdev2netdev": "ibdev2netdev"}


def launcher(tool: str, version: str = "-") -> str:
    """Text of a launcher; packages bake their own version in."""
    return f'#!/bin/sh\nexec {STANDIN} {version} {tool} "$@"\n'


def files() -> dict[str, tuple[str, int]]:
    """Absolute path in the node -> its text and mode, launchers included."""
    found = {f"{PACKAGE}/{name}": ((HERE / name).read_text(), 0o644) for name in MODULES}
    found[STANDIN] = (_STANDIN_TEXT, 0o755)
    found[FLAT] = (_FLAT_TEXT, 0o755)
    for path, tool in {**DIVERSIONS, **ADDED}.items():
        found[path] = (launcher(tool), 0o755)
    return found


def install(root: Path) -> None:
    """Write every file below ``root``, a tree in which the diversions were made already."""
    for path, (text, mode) in files().items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)
