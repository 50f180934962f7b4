"""Build hook: what the wheel carries and the source tree does not.

The collector zipapp is made here, so that it always holds the node code and the NVML binding of
this very build. Playbooks, roles and their like go under ``fabric_tools/_share``, so that an
installed fabric-tools can run them from anywhere; the roles below the playbooks, where Ansible
finds them without configuration (in a checkout ``playbooks/roles`` is a link).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARE = ("examples", "playbooks", "roles", "templates", "validation")
COLLECTOR = "fabric_tools/node/fabric-collect.pyz"
# A child process, because the backend may be asked for several builds in one process and must
# not keep an older fabric_tools in sys.modules.
PACK = """\
import sys
sys.path.insert(0, sys.argv[1])
from fabric_tools.node.bundle import build_zipapp
with open(sys.argv[2], "wb") as stream:
    stream.write(build_zipapp())
"""


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the collector and the shared data to an ordinary wheel.

    An editable install gets neither: it reads both from the checkout.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        self._scratch: Path | None = None
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        self._scratch = Path(tempfile.mkdtemp(prefix="fabric-collect-"))
        collector = self._scratch / "fabric-collect.pyz"
        subprocess.run([sys.executable, "-c", PACK, str(root), str(collector)], check=True)
        collector.chmod(0o644)
        included = {str(collector): COLLECTOR}
        for name in SHARE:
            # A folder that is not there yet is left out; git keeps no empty folders either.
            for path in sorted((root / name).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    inside = path.relative_to(root).as_posix()
                    if inside.startswith("playbooks/roles/"):
                        continue  # an sdist may hold what the link points to
                    if inside.startswith("roles/"):
                        inside = f"playbooks/{inside}"
                    included[str(path)] = f"fabric_tools/_share/{inside}"
        build_data["force_include"].update(included)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the artifact is written."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch)
