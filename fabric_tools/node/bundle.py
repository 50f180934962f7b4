"""Pack the collector into one zipapp: our node files, the probe table, nvidia-ml-py's pynvml."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Dict, Optional

_PACKAGE = Path(__file__).resolve().parent.parent
_FILES = (
    "__init__.py",
    "probes.py",
    "node/__init__.py",
    "node/processes.py",
    "node/run.py",
    "node/collector.py",
    "node/nvml.py",
    "node/cuda.py",
    "node/rdma.py",
    "node/osstate.py",
    "node/redact.py",
    "node/main.py",
)
_MAIN = b"import sys\n\nfrom fabric_tools.node.main import main\n\nsys.exit(main())\n"
# Any fixed date: equal inputs must give equal bytes, because the transport checks the digest.
_DATE = (2020, 1, 1, 0, 0, 0)


def build_zipapp(replace: Optional[Dict[str, bytes]] = None) -> bytes:
    """The zipapp as bytes, the same for the same inputs.

    ``replace`` maps a path under ``fabric_tools`` (``probes.py``) to other content, for another
    probe table. Raises ``ModuleNotFoundError`` where nvidia-ml-py is not installed.
    """
    parts = {"fabric_tools/" + name: (_PACKAGE / name).read_bytes() for name in _FILES}
    for name, content in (replace or {}).items():
        parts["fabric_tools/" + name] = content
    parts["pynvml.py"] = _pynvml().read_bytes()
    parts["__main__.py"] = _MAIN
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts):
            archive.writestr(zipfile.ZipInfo(name, _DATE), parts[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _pynvml() -> Path:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml is missing: pip install nvidia-ml-py")
    return Path(spec.origin)


def zipapp_bytes() -> bytes:
    """The zipapp that came with the wheel, or one packed now (a source checkout has none)."""
    shipped = Path(__file__).with_name("fabric-collect.pyz")
    return shipped.read_bytes() if shipped.is_file() else build_zipapp()
