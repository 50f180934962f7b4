"""The platform files that come with the product, and the reader for a site's own folder."""

from __future__ import annotations

from pathlib import Path

from fabric_tools.models.platform import PlatformSpec
from fabric_tools.yaml_file import load_all, shipped_text

_HERE = Path(__file__).parent


def platform_file(platform: str) -> str:
    """The text of a shipped platform file. Raises ``UsageError`` for one that is not shipped."""
    return shipped_text(_HERE, "platform", platform)


def load_platforms(extra: Path | None = None) -> dict[str, PlatformSpec]:
    """All platforms by id. A file in ``extra`` may not redefine one that the product ships.

    Raises ``UsageError`` naming the file that is wrong.
    """
    return load_all(_HERE, extra, PlatformSpec, "platform", lambda spec: spec.id)
