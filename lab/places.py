"""Where the lab keeps what it makes: below .cache/lab in the checkout, nothing elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lab"
CACHE = Path(os.environ.get("FABRIC_LAB_CACHE", ROOT / ".cache" / "lab"))

#: Several labs may stand side by side; each has its name.
NAME = os.environ.get("FABRIC_LAB", "lab")
#: Of the running lab; removed by ``down``.
STATE = CACHE / f"state-{NAME}"
REPOSITORY = CACHE / "repository"
KEY = STATE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"
SSH_CONFIG = STATE / "ssh_config"
INVENTORY = STATE / "inventory"
