"""The real sshd of these tests; absent only where the machine cannot have one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.transport import sshd as sshd_module

JUNK_SHELL = """#!/bin/sh
# A login shell that talks before it works: banners, escapes, and on demand a gigabyte.
printf '\\033]0;owned\\007\\033[2Jwelcome to the node\\n'
test -e "$HOME/flood" && exec head -c 1000000000 /dev/zero
exec /bin/sh "$@"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs them all: there is one server, and its accounts are the machine's."""
    for item in items:
        if item.get_closest_marker("ssh"):
            item.add_marker(pytest.mark.xdist_group("ssh"))


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd_module.Sshd]:
    """One server for the session."""
    why = sshd_module.missing()
    if why and os.environ.get("CI"):
        pytest.fail(f"CI must run the SSH tests: {why}")
    if why:
        pytest.skip(why)
    root = tmp_path_factory.mktemp("sshd")
    for folder in root.parents:  # pytest's own, which the accounts of the tests must pass
        if not folder.name.startswith(("pytest-", "popen-")):
            break
        folder.chmod(0o755)
    closed = [folder for folder in root.parents if not folder.stat().st_mode & 0o001]
    assert not closed, f"{closed[0]} keeps the accounts of these tests out: take another TMPDIR"
    junk = root / "junk-shell"
    junk.write_text(JUNK_SHELL)
    junk.chmod(0o755)
    server = sshd_module.Sshd(root, shells={"junk": str(junk)}).start()
    yield server
    server.stop()
