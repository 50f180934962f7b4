"""Where the lab keeps what it makes: below .cache/lab in the checkout, nothing elsewhere."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lab"
CACHE = Path(os.environ.get("FABRIC_LAB_CACHE", ROOT / ".cache" / "lab"))

#: Several labs may stand side by side; each has its name.
NAME = os.environ.get("FABRIC_LAB", "lab")
#: The engine and the network are one for the host, names only for a checkout: two of them may each
#: have a lab of the same name.
_CHECKOUT = hashlib.sha256(str(CACHE.resolve()).encode()).hexdigest()[:4]
#: Of the running lab; removed by ``down``.
STATE = CACHE / f"state-{NAME}"
REPOSITORY = CACHE / "repository"
KEY = STATE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"
SSH_CONFIG = STATE / "ssh_config"
INVENTORY = STATE / "inventory"


def on_host(name: str = NAME) -> str:
    """What a lab of this checkout is called on the host: ``NAME-xxxx``."""
    return f"{name}-{_CHECKOUT}"


def container(machine: str, name: str = NAME) -> str:
    """The container that is ``machine`` (mirror, node1, net1) of a lab of this checkout."""
    return f"fabric-{on_host(name)}-{machine}"


def lab_of(container_name: str) -> str:
    """The name of the lab that a container of this checkout belongs to."""
    return container_name.removeprefix("fabric-").rpartition(f"-{_CHECKOUT}-")[0]
