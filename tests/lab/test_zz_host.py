"""After all labs of the session: the host is as it was. Its name makes it the last one to run."""

from __future__ import annotations

import re

import pytest

from lab import host
from lab.engine import find_engine
from lab.places import CACHE
from tests.lab.conftest import Labs

pytestmark = pytest.mark.lab

#: What a lab of another name, side by side with ours, brings: its bridge, its containers' mounts.
_OTHERS = re.compile(r"\bfab[0-9a-f]{4}\b|/containers/storage/|/run/netns/|/run/containers/")


def other_labs() -> bool:
    return bool(find_engine().running("fabric-lab"))


def test_the_host_is_as_it_was(labs: Labs, host_before: dict[str, str]) -> None:
    rig = labs("host")  # alone or at the end of all: something was up, and worked
    rig.inside("sysctl -q -w vm.swappiness=7 fs.inotify.max_user_instances=777")
    rig.playbook("00-preflight.yml")
    labs.down()
    changed = host.differences(host_before, host.fingerprint())
    if other_labs():
        changed = [line for line in changed if not _OTHERS.search(line)]
    assert changed == []
    assert not (CACHE / "state-host").exists()


def test_a_fingerprint_notices() -> None:
    before = {"sysctls": "vm.swappiness = 60\nvm.overcommit_memory = 0", "routes": "default"}
    after = {"sysctls": "vm.swappiness = 7\nvm.overcommit_memory = 0", "routes": "default\n10.9"}
    assert host.differences(before, after) == [
        "routes: new: 10.9", "sysctls: gone: vm.swappiness = 60", "sysctls: new: vm.swappiness = 7",
    ]  # fmt: skip
    assert host.fingerprint()["sysctls"].count("\n") > 200
