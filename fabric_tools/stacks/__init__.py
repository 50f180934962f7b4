"""The stack locks and the matrix that come with the product, and a site's own locks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fabric_tools.errors import UsageError
from fabric_tools.models.stack import Matrix, StackLock
from fabric_tools.yaml_file import load_all, load_shipped, shipped_text

_HERE = Path(__file__).parent

#: What the playbooks put in place where the inventory declares no stack.
DEFAULT_STACK = "r580-k3s136"


def stack_file(stack: str) -> str:
    """The text of a shipped lock. Raises ``UsageError`` for one that is not shipped."""
    return shipped_text(_HERE / "profiles", "stack", stack)


def load_stacks(extra: Path | None = None) -> dict[str, StackLock]:
    """All locks by id. A file in ``extra`` may not redefine one that the product ships.

    Raises ``UsageError`` naming the file that is wrong.
    """
    return load_all(_HERE / "profiles", extra, StackLock, "stack", lambda lock: lock.id)


def load_matrix() -> Matrix:
    """The matrix that comes with the product."""
    return load_shipped(_HERE / "matrix.yaml", Matrix)


def one_stack(stack: str, known: Mapping[str, StackLock]) -> StackLock:
    """That lock. Raises ``UsageError`` that names those there are."""
    if stack not in known:
        raise UsageError(
            f"no stack {stack!r}; there are {', '.join(sorted(known))}",
            try_next="see `fabric-tools stack list`, or give a folder of your own locks",
        )
    return known[stack]
