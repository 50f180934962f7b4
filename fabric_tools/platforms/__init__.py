"""The platform files that come with the product, and the reader for a site's own folder."""

from __future__ import annotations

from pathlib import Path

from fabric_tools.errors import UsageError
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.yaml_file import load_model, load_shipped

_HERE = Path(__file__).parent


def platform_file(platform: str) -> str:
    """The text of a shipped platform file. Raises ``UsageError`` for one that is not shipped."""
    path = _HERE / f"{platform}.yaml"
    if not path.is_file():
        raise UsageError(f"platform {platform} is not shipped, its file is yours")
    return path.read_text(encoding="utf-8")


def load_platforms(extra: Path | None = None) -> dict[str, PlatformSpec]:
    """All platforms by id. A file in ``extra`` may not redefine one that the product ships.

    Raises ``UsageError`` naming the file that is wrong.
    """
    shipped = sorted(_HERE.glob("*.yaml"))
    files = list(shipped)
    if extra is not None:
        if not extra.is_dir():
            raise UsageError(
                "no such folder", where=str(extra), try_next="give one of *.yaml files"
            )
        files += sorted(extra.glob("*.yaml"))
    found: dict[str, PlatformSpec] = {}
    for path in files:
        read = load_shipped if path in shipped else load_model
        spec = read(path, PlatformSpec)
        if spec.id in found:
            raise UsageError(f"platform {spec.id} is defined twice", where=str(path))
        found[spec.id] = spec
    return found
