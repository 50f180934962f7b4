"""Whether this host can run the lab at all, found out without changing anything."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lab.engine import find_engine
from lab.errors import LabError

#: Bits of capabilities(7): bridges and network namespaces, mounts in a node.
_NEEDED = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}


def why_not(status: Path = Path("/proc/self/status")) -> str:
    """Why the lab cannot run here, in one line; "" where it can as far as can be told."""
    if os.geteuid() != 0:
        return "simulated nodes need root here: run as root for them"
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status.read_text(), re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    lacking = [name for bit, name in _NEEDED.items() if not bits >> bit & 1]
    if lacking:
        return f"simulated nodes need {' and '.join(lacking)}, which this container lacks"
    if shutil.which("mmdebstrap") is None:
        return "simulated nodes need mmdebstrap: apt-get install mmdebstrap"
    try:
        find_engine()
    except LabError as error:
        return f"simulated nodes need a container engine: {error}"
    return ""
