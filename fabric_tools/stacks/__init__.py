"""The stack locks and the matrix that come with the product, and a site's own locks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fabric_tools.errors import UsageError
from fabric_tools.models.stack import Matrix, StackLock
from fabric_tools.yaml_file import load_model, load_shipped

_HERE = Path(__file__).parent

#: What the playbooks put in place where the inventory declares no stack.
DEFAULT_STACK = "r580-k3s136"


def stack_file(stack: str) -> str:
    """The text of a shipped lock. Raises ``UsageError`` for one that is not shipped."""
    path = _HERE / "profiles" / f"{stack}.yaml"
    if not path.is_file():
        raise UsageError(f"stack {stack} is not shipped, its file is yours")
    return path.read_text(encoding="utf-8")


def load_stacks(extra: Path | None = None) -> dict[str, StackLock]:
    """All locks by id. A file in ``extra`` may not redefine one that the product ships.

    Raises ``UsageError`` naming the file that is wrong.
    """
    shipped = sorted((_HERE / "profiles").glob("*.yaml"))
    files = list(shipped)
    if extra is not None:
        if not extra.is_dir():
            raise UsageError(
                "no such folder", where=str(extra), try_next="give one of *.yaml files"
            )
        files += sorted(extra.glob("*.yaml"))
    found: dict[str, StackLock] = {}
    for path in files:
        read = load_shipped if path in shipped else load_model
        lock = read(path, StackLock)
        if lock.id in found:
            raise UsageError(f"stack {lock.id} is defined twice", where=str(path))
        found[lock.id] = lock
    return found


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
