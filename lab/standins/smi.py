"""The command `nvidia-smi`: what it answers follows from the loaded module and the hardware.

Exit statuses are those of its manual page; 18 is what a driver/library mismatch gives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import smi_query, smi_tables
from .smi_fields import Shown
from .state import Node, branch, cuda_version, load, reset, write_json

_HELP = ("-h", "--help")
_NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n"
)
#: ``-q`` with these gives the whole answer in another form or of fewer GPUs.
_VALUES = ("-i", "--id", "--query-gpu", "--format", "-pm", "--persistence-mode", "-p2p", "--p2p")


class _Usage(Exception):
    """Arguments that the stand-in (or the tool) does not know."""


def main(version: str, args: list[str], root: Path) -> int:
    """Answer and return the exit status. ``version`` is that of the installed userspace."""
    if any(word in _HELP for word in args):
        print(
            f"NVIDIA System Management Interface -- v{version}\n\nnvidia-smi [OPTION1 [ARG1]] ..."
        )
        return 0
    node = load(root)
    if node.smi_hang:
        hang()
    driver = node.driver
    if args == ["--version"]:
        return _version(version, driver)
    if driver is None:
        sys.stdout.write(_NOT_LOADED)
        return 9
    if driver != version:
        print("Failed to initialize NVML: Driver/library version mismatch")
        print(f"NVML library version: {_nvml(version)}")
        return 18
    if not node.gpus:
        print("No devices were found")
        return 6
    try:
        return _answer(node, version, args)
    except _Usage as error:
        print(f"{error}\nPlease run 'nvidia-smi -h' for help.\n")
        return 2


def hang() -> None:
    """Wait for ever and ignore polite requests to stop, as a process that waits in a dead driver.
    (That one would not even answer a KILL; this must, or no lab could be taken down.)
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def _nvml(version: str) -> str:
    """NVML's version as nvidia-smi prints it: without the last part."""
    return ".".join(version.split(".")[:2])


def _version(version: str, driver: str | None) -> int:
    """``--version`` names the loaded module without talking to the library."""
    loaded = driver or "N/A"
    old = branch(version) < 610
    print(f"NVIDIA-SMI version  : {version}\nNVML version        : {_nvml(version)}")
    print(f"DRIVER version      : {loaded if old else 'Deprecated, see KMD version'}")
    if not old:
        print(f"KMD version         : {loaded}")
    print(f"CUDA Version        : {cuda_version(version)}")
    return 0


def _options(args: list[str]) -> dict[str, str]:
    """Options with their values; a bare word is kept under itself."""
    found: dict[str, str] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not equals and name in _VALUES:
            if not rest:
                raise _Usage(f"Option {name} is missing its value.")
            value = rest.pop(0)
        found[name] = value
    return found


def _chosen(node: Node, driver: str, wanted: str) -> list[Shown]:
    """The GPUs that ``-i`` names (number, address or UUID), all where it names none."""
    shown = [(number, gpu, node, driver) for number, gpu in enumerate(node.gpus)]
    if not wanted:
        return shown
    picked = []
    for word in wanted.split(","):
        match = [
            item for item in shown
            if word.upper() in (str(item[0]), item[1].bus_id.upper(), item[1].bus.upper(),
                                item[1].uuid.upper())
        ]  # fmt: skip
        if not match:
            raise _Usage(f"No devices were found: {word}")
        picked += match
    return picked


def _answer(node: Node, version: str, args: list[str]) -> int:
    options = _options(args)
    shown = _chosen(node, version, options.pop("-i", "") or options.pop("--id", ""))
    out: Callable[[str], int] = sys.stdout.write
    count, on = len(node.gpus), _persistent(node)
    names = set(options)
    if not names:
        out(smi_tables.table(shown, version, on))
    elif names <= {"-L", "--list-gpus"}:
        out(smi_tables.listing(shown))
    elif names <= {"-q", "--query"}:
        out(smi_query.as_text(shown, count, version, on))
    elif names <= {"-q", "--query", "-x", "--xml-format"}:
        out(smi_query.as_xml(shown, count, version, on))
    elif names == {"--query-gpu", "--format"}:
        text, status = smi_query.as_csv(
            shown, count, options["--query-gpu"], options["--format"], on
        )
        out(text)
        return status
    elif names <= {"-r", "--gpu-reset"}:
        return _reset(node, shown)
    elif names <= {"-pm", "--persistence-mode"}:
        return _persistence(node, shown, options.popitem()[1])
    elif args[0] in ("topo", "nvlink"):
        out(_sub(node, shown, args[0], options))
    else:
        raise _Usage(f"Option {' '.join(args)} is not simulated by this stand-in.")
    return 0


def _sub(node: Node, shown: list[Shown], name: str, options: dict[str, str]) -> str:
    wanted = {word: value for word, value in options.items() if word != name}
    match (name, *wanted):
        case ("topo", "-m") | ("topo", "--matrix"):
            return smi_tables.topology(node, shown)
        case ("topo", "-p2p") | ("topo", "--p2p"):
            return smi_tables.peer_access(node, shown, next(iter(wanted.values())))
        case ("nvlink", "-s") | ("nvlink", "--status"):
            return smi_tables.link_status(shown)
        case ("nvlink", "-e") | ("nvlink", "--errorcounters"):
            return smi_tables.link_errors(shown)
    raise _Usage(f"Option {name} {' '.join(wanted)} is not simulated by this stand-in.")


def _processes(root: Path) -> list[list[str]]:
    """Command lines of what runs on the node."""
    found = []
    for entry in sorted((root / "proc").glob("[0-9]*/cmdline")):
        try:
            found.append(entry.read_text(errors="replace").split("\0"))
        except OSError:
            continue  # it ended meanwhile
    return found


def _runs(root: Path, name: str) -> bool:
    """Whether a program runs whose command line names ``name`` (the daemons are scripts, started
    by a launcher, so the word need not be the first).
    """
    return any(
        os.path.basename(word) == name
        for line in _processes(root)
        for word in line[:5]
        if "nvidia-smi" not in line
    )


def _persistent(node: Node) -> bool:
    """Persistence mode: switched on by ``-pm`` (kept with the module, lost when it is unloaded), or
    held by the persistence daemon.
    """
    told = node.modules["nvidia"].get("persistence")
    return _runs(node.root, "nvidia-persistenced") if told is None else bool(told)


def _persistence(node: Node, shown: list[Shown], value: str) -> int:
    words = {"1": True, "ENABLED": True, "0": False, "DISABLED": False}
    if value.upper() not in words:
        raise _Usage(f"Invalid persistence mode: {value}")
    on = words[value.upper()]
    write_json(node.root / "run/lab/modules/nvidia", {**node.modules["nvidia"], "persistence": on})
    for _, gpu, _, _ in shown:
        print(f"{'Enabled' if on else 'Disabled'} persistence mode for GPU {gpu.bus_id.upper()}.")
    print("All done.")
    return 0


def _reset(node: Node, shown: list[Shown]) -> int:
    """All GPUs of a board with NVSwitches are reset together, and none that somebody uses.

    The words of the refusal are those of an H100 node whose fabric manager still ran. The state
    that a fabric manager left behind is gone afterwards.
    """
    users = _users(node.root)
    if node.nvswitches and (users or len(shown) != len(node.gpus)):
        print("The following GPUs could not be reset:")
        if users:
            print(
                f"  {len(shown)} devices are currently being used by one or more other processes "
                "(e.g., Fabric Manager, CUDA application, graphics application such as an X "
                "server, or a monitoring application such as another instance of nvidia-smi). "
                "Please first kill all processes using these devices and all compute applications "
                "running in the system."
            )
        else:
            for _, gpu, _, _ in shown:
                print(f"  GPU {gpu.bus_id.upper()}: In use by another client")
        return 1
    reset(node.root, {gpu.place for _, gpu, _, _ in shown})
    (node.root / "run/lab/fabric.json").unlink(missing_ok=True)
    for _, gpu, _, _ in shown:
        print(f"GPU {gpu.bus_id.upper()} was successfully reset.")
    print("All done.")
    return 0


def _users(root: Path) -> bool:
    """Whether a program uses a GPU: the fabric manager, or one that holds a device node open.

    The persistence daemon does not count: nvidia-smi asks it to let go.
    """
    if _runs(root, "nv-fabricmanager"):
        return True
    for link in (root / "proc").glob("[0-9]*/fd/*"):
        try:
            held = os.readlink(link)
            words = (link.parents[1] / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if held.startswith("/dev/nvidia") and b"nvidia-persistenced" not in words:
            return True
    return False
