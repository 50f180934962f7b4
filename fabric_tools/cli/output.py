"""Write files so that a full disk or an interruption loses nothing that was there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fabric_tools.errors import UsageError


def write_private(path: Path, data: bytes) -> None:
    """Write beside ``path`` with mode 0600, then rename over it. Raises ``UsageError``."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(f"cannot write: {error.strerror}", where=str(path)) from error
