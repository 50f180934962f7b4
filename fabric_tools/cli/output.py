"""Write files so that a full disk or an interruption loses nothing that was there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fabric_tools.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 60
_FILE_WIDTH = 160


def terminal() -> Console:
    """Standard output: as wide as the terminal (never so narrow that words vanish), and wide where
    it goes to a file or ticket.
    """
    import sys

    from rich.console import Console

    console = Console(highlight=False)
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=_FILE_WIDTH)
    return Console(highlight=False, width=_NARROWEST) if console.width < _NARROWEST else console


def write_private(path: Path, data: bytes) -> None:
    """Write beside ``path`` with mode 0600, then rename over it. Raises ``UsageError``.

    A link is followed; something that is no regular file (a device) is refused, not replaced.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UsageError("not a regular file", where=str(path))
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
