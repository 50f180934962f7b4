"""Labs for tests: one of a name for the whole session, made when it is first asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import host
from lab.needs import missing
from tests.lab.rig import Rig


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A lab needs root and tools that a bare host lacks: say so, do not fail."""
    lacks = [program for program, _ in missing()]
    why = "needs root" if os.geteuid() else f"needs {', '.join(lacks)}" if lacks else ""
    for item in items:
        if why and item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.skip(reason=f"{why}: see `python -m lab needs`"))


@pytest.fixture(scope="session")
def host_before() -> dict[str, str]:
    """The host before any lab of this session."""
    return host.fingerprint()


class Labs:
    """``labs(name, nodes=1, kind="stock")``: the lab of that name, made when first asked for."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._found: dict[str, Rig] = {}

    def __call__(self, name: str, nodes: int = 1, kind: str = "stock") -> Rig:
        if name not in self._found:
            self._found[name] = Rig(f"test-{name}", self._folder(name))
            self._found[name].up(nodes, kind)
        return self._found[name]

    def down(self) -> None:
        """Take all down; the next that asks gets new ones."""
        while self._found:
            self._found.popitem()[1].down()


@pytest.fixture(scope="session")
def labs(host_before: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    """All labs of the session; taken down at its end."""
    found = Labs(tmp_path_factory.mktemp)
    yield found
    found.down()
