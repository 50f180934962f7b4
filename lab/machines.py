"""Making and removing the machines: the mirror, which is also the switch, and the nodes."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab import dgx, network
from lab.engine import Engine
from lab.errors import LabError
from lab.places import KEY, STATE, container, on_host
from lab.run import run

LABEL = f"fabric-lab={on_host()}"
MIRROR = container("mirror")
MIRROR_NUMBER = 2
FIRST_NODE = 11
#: The rails are plugged after the node's own number, 1 and 2.


@dataclass(frozen=True)
class Node:
    """A simulated node. ``number`` is 1 or 2; ``kind`` is stock or dgx-os."""

    number: int
    kind: str

    @property
    def name(self) -> str:
        """The host's name in the inventory and of the machine itself."""
        return f"gpu-node-{self.number}"

    @property
    def platform(self) -> str:
        """The platform id that its hardware is told to be."""
        return "dgx-h100" if self.kind == "dgx-os" else "hgx-h100"

    @property
    def container(self) -> str:
        """The container that is the machine."""
        return container(f"node{self.number}")

    @property
    def network(self) -> str:
        """The container that keeps the machine's network over a reboot."""
        return container(f"net{self.number}")

    @property
    def address_number(self) -> int:
        """The last byte of its management address."""
        return FIRST_NODE + self.number - 1


def hold_network(engine: Engine, image: str, name: str) -> int:
    """A container that only keeps a network namespace; returns its process id."""
    engine(
        "run", "-d", "--name", name, "--label", LABEL, "--network", "none", "--cap-add",
        "NET_ADMIN", "--entrypoint", "sleep", "--restart", "no", *engine.options, image, "infinity",
    )  # fmt: skip
    return engine.pid(name)


def make_mirror(engine: Engine, image: str, plan: network.Plan, documents: Path) -> None:
    """The machine that serves packages and time, and switches the rails."""
    engine(
        "run", "-d", "--name", MIRROR, "--label", LABEL, "--network", "none", "--cap-add",
        "NET_ADMIN", "-v", f"{documents}:/srv/mirror:ro", "--entrypoint", "python3",
        *engine.options, image, "/usr/lib/lab/services.py",
    )  # fmt: skip
    pid = engine.pid(MIRROR)
    network.plug_management(plan, pid, MIRROR_NUMBER)
    network.make_switch(pid)


def make_node(
    engine: Engine, image: str, plan: network.Plan, node: Node, hardware: dict[str, object]
) -> None:
    """A node up to its sshd; its disk is new."""
    pid = hold_network(engine, image, node.network)
    network.plug_management(plan, pid, node.address_number)
    network.plug_rails(engine.pid(MIRROR), pid, node.number)
    engine(
        "create", "--name", node.container, "--label", LABEL, "--restart", "always",
        "--network", f"container:{node.network}", *engine.node_options(), "--cap-drop", "SYS_TIME",
        *engine.options, image,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        disk = Path(name)
        _first_files(disk, plan, node, hardware)
        engine("cp", f"{disk}/.", f"{node.container}:/")
    engine("start", node.container)


def _first_files(disk: Path, plan: network.Plan, node: Node, hardware: dict[str, object]) -> None:
    """What is on the disk before the first boot: told hardware, keys of host and operator."""
    told = disk / "var/lib/lab/node.json"
    told.parent.mkdir(parents=True)
    hosts = {"mirror": plan.address(MIRROR_NUMBER)}
    more = {"hostname": node.name, "hosts": hosts}
    told.write_text(json.dumps({**hardware, **more}, indent=1))
    if node.kind == "dgx-os":
        sources = disk / "etc/apt/sources.list.d/dgx.sources"
        sources.parent.mkdir(parents=True)
        sources.write_text(dgx.sources(hosts["mirror"]))
    ssh = disk / "etc/ssh"
    ssh.mkdir(parents=True)
    run(
        [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            node.name,
            "-f",
            ssh / "ssh_host_ed25519_key",
        ]
    )
    home = disk / "home/ops/.ssh"
    home.mkdir(parents=True)
    (home / "authorized_keys").write_text(KEY.with_suffix(".pub").read_text())
    public = (ssh / "ssh_host_ed25519_key.pub").read_text().split()
    with (STATE / "known_hosts").open("a") as out:
        out.write(f"{plan.address(node.address_number)},{node.name} {public[0]} {public[1]}\n")


def wait_for_ssh(address: str, timeout_s: float = 60) -> None:
    """Until sshd greets; raises ``LabError`` after ``timeout_s``."""
    import socket

    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        try:
            with socket.create_connection((address, 22), timeout=2) as link:
                link.settimeout(5)
                if link.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise LabError(f"{address}: no sshd after {timeout_s:.0f} s", "podman logs shows its boot")


def remove_all(engine: Engine) -> list[str]:
    """Every container of the lab and the bridge; returns the names."""
    found = list(engine.running(LABEL))
    prefix = container("node")
    nodes_first = sorted(found, key=lambda name: not name.startswith(prefix))
    for name in nodes_first:
        engine("rm", "-f", "-v", *(["-t", "0"] if engine.name == "podman" else []), name)
    network.remove_bridge()
    return found
