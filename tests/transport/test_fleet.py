"""Many nodes at once: each answers for itself alone."""

from __future__ import annotations

import threading
import time

import pytest

from fabric_tools.errors import InternalError, UnreachableError
from fabric_tools.transport import fleet
from fabric_tools.transport.connection import Connection
from fabric_tools.transport.fleet import Answer, Target, collect_all


class Fake:
    """A connection whose snapshot is its name; ``closed`` says that it was let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def _read(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(connection: Fake, archive: bytes, **more: object) -> str:
        if connection.name == "lost":
            raise UnreachableError("connection lost", where="lost")
        if connection.name == "bug":
            raise KeyError("x")
        if connection.name == "hung":
            assert connection.closed.wait(20)
            raise UnreachableError("cut", where="hung")
        return connection.name

    monkeypatch.setattr(fleet, "collect", collect)


def target(name: str, made: list[Fake]) -> Target:
    def connect() -> Connection:
        if name == "refused":
            raise UnreachableError("host key", where=name)
        made.append(Fake(name))
        return made[-1]  # type: ignore[return-value]

    return Target(name, connect)


@pytest.mark.usefixtures("_read")
def test_one_that_is_not_reached_hides_no_other() -> None:
    made: list[Fake] = []
    seen: list[tuple[str, int, int]] = []
    names = ["a", "lost", "refused", "bug", "b"]
    found = collect_all(
        [target(name, made) for name in names], b"", lambda *x: seen.append((x[0].name, x[1], x[2]))
    )
    assert [answer.name for answer in found] == names
    assert [answer.text for answer in found] == ["a", "", "", "", "b"]
    assert "connection lost" in str(found[1].error) and "host key" in str(found[2].error)
    assert isinstance(found[3].error, InternalError)
    assert sorted(name for name, _, _ in seen) == sorted(names)
    assert [number for _, number, _ in seen] == [1, 2, 3, 4, 5]
    assert all(fake.closed.is_set() for fake in made)


@pytest.mark.usefixtures("_read")
def test_interrupted_it_waits_for_no_hung_node() -> None:
    def interrupt(answer: Answer, done: int, total: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        collect_all([target("hung", []), target("a", [])], b"", interrupt)
    assert time.monotonic() - began < 10
