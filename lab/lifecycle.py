"""Bringing the lab up and taking it down."""

from __future__ import annotations

import fcntl
import fnmatch
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lab import machines, network
from lab.dgx import build_dgx_image
from lab.engine import find_engine
from lab.errors import LabError
from lab.image import build_image
from lab.machines import LABEL, Node
from lab.places import (
    CACHE,
    INVENTORY,
    KEY,
    KNOWN_HOSTS,
    REPOSITORY,
    ROOT,
    SSH_CONFIG,
    STATE,
    lab_of,
)
from lab.run import run
from lab.standins import hardware

Progress = Callable[[str], None]
_DESCRIPTION = "lab.json"
#: Locked while a subnet is chosen: images and packages are one for a checkout, subnets for a host.
ROUTES = Path("/run")


def up(count: int, kind: str, progress: Progress) -> None:
    """Make ``count`` nodes of ``kind``; a lab that is there already must be taken down first."""
    engine = find_engine()
    if engine.running(LABEL):
        raise LabError("a lab is up already", "`python -m lab down` first")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(CACHE, progress):
        image = (build_dgx_image if kind == "dgx-os" else build_image)(engine, progress)
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True, mode=0o700)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", KEY])
    nodes = [Node(number + 1, kind) for number in range(count)]
    with _one_at_a_time(ROUTES, progress):  # a subnet is taken once its bridge is there
        network.remove_bridge()
        plan = network.free_plan()
        network.make_bridge(plan)
    progress(f"machines: mirror and {count} {kind} on {plan.subnet}")
    try:
        machines.make_mirror(engine, image, plan, REPOSITORY)
        for node in nodes:
            machines.make_node(engine, image, plan, node, hardware.make(node.platform, node.name))
        for node in nodes:
            machines.wait_for_ssh(plan.address(node.address_number))
            if node.kind == "dgx-os":  # a delivered node has read its lists
                engine.exec(node.container, "apt-get", "-qq", "update")
    except LabError:
        machines.remove_all(engine)
        raise
    _describe(plan, nodes)
    progress(f"up; inventory: {INVENTORY}")


@contextmanager
def _one_at_a_time(folder: Path, progress: Progress) -> Iterator[None]:
    """What is found in ``folder`` is shared: a second lab waits until the first has its own."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another lab that comes up")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def down(progress: Progress) -> None:
    """Remove every machine, the bridge and the state."""
    engine = find_engine()
    for name in machines.remove_all(engine):
        progress(f"removed {name}")
    shutil.rmtree(STATE, ignore_errors=True)


def down_named(pattern: str, progress: Progress) -> None:
    """The same for all labs of this checkout with such a name, what a killed run has left too."""
    names = {place.name.removeprefix("state-") for place in CACHE.glob("state-*")}
    names |= {lab_of(name) for name in find_engine().running("fabric-lab")} - {""}
    for name in fnmatch.filter(sorted(names), pattern):
        progress(f"down: {name}")
        run(["env", f"FABRIC_LAB={name}", sys.executable, "-m", "lab", "down"], cwd=ROOT)


def clean(progress: Progress) -> None:
    """Remove the images, packages and keys that every lab of this host shares.

    Raises ``LabError`` while any lab is up, of another checkout too.
    """
    found = sorted(find_engine().running("fabric-lab"))
    others = [name for name in found if not lab_of(name)]
    if others:
        raise LabError(
            f"a lab of another checkout is up: {', '.join(others)}",
            "`python -m lab down --names '*'` there; where that is gone, the engine's `rm -f` and "
            "`ip link del` of the bridge fab.... that is left",
        )
    if found:
        raise LabError(f"a lab is up: {', '.join(found)}", "`python -m lab down --names '*'` first")
    engine = find_engine()
    tags = engine("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    for tag in tags:
        if "/fabric-lab-" in tag:
            engine("rmi", tag)
            progress(f"removed {tag}")
    for place in (*CACHE.glob("pool-*"), *CACHE.glob("repository*")):
        shutil.rmtree(place)
    progress(f"removed what lay in {CACHE}")


def status() -> int:
    """Print what runs; exit 1 where no lab is up."""
    engine = find_engine()
    found = engine.running(LABEL)
    if not found or not (STATE / _DESCRIPTION).exists():
        print("no lab is up")
        return 1
    for name, state in sorted(found.items()):
        print(f"{name:24} {state}")
    told = json.loads((STATE / _DESCRIPTION).read_text())
    for node in told["nodes"]:
        print(f"{node['name']}: {node['kind']}, ssh -F {SSH_CONFIG} {node['name']}")
    print(f"inventory: {INVENTORY}")
    return 0


def _describe(plan: network.Plan, nodes: list[Node]) -> None:
    """Inventory, ssh configuration and description of the running lab."""
    lines = []
    hosts: dict[str, object] = {}
    fingerprint = (REPOSITORY / "keys" / "fingerprint").read_text().strip()
    mirror = plan.address(machines.MIRROR_NUMBER)
    for node in nodes:
        address = plan.address(node.address_number)
        lines += [
            f"Host {node.name}", f"    HostName {address}", "    User ops",
            f"    IdentityFile {KEY}", "    IdentitiesOnly yes",
            f"    UserKnownHostsFile {KNOWN_HOSTS}", "    StrictHostKeyChecking yes",
        ]  # fmt: skip
        hosts[node.name] = {
            "ansible_host": address,
            "ansible_user": "ops",
            "ansible_ssh_private_key_file": str(KEY),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={KNOWN_HOSTS} -o IdentitiesOnly=yes",
            "fabric_host": {
                "schema_version": 1,
                "platform": node.platform,
                "stack": "r580-k3s136",
                "simulated": "no GPU, switch, NIC or driver of it is real",
                "mirror": {"url": f"http://{mirror}", "key_fingerprint": fingerprint},
                "profile": {
                    "fabric": "roce",
                    "time_servers": [mirror],
                    "proxy": f"http://{plan.address(1)}:3128",
                    "no_proxy": [mirror, "mirror"],
                },
            },
            "node_base_apt_suites": ["./"],
            # A simulated node may be rebooted whenever a role asks for it.
            "nvidia_driver_reboot": "allowed",
        }
    SSH_CONFIG.write_text("\n".join(lines) + "\n")
    INVENTORY.mkdir()
    tree = {"all": {"children": {"gpu_nodes": {"hosts": hosts}}}}
    (INVENTORY / "hosts.yml").write_text(json.dumps(tree, indent=1))
    told = {"subnet": str(plan.subnet), "nodes": [{**asdict(n), "name": n.name} for n in nodes]}
    (STATE / _DESCRIPTION).write_text(json.dumps(told, indent=1))
