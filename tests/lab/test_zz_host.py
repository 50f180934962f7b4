"""A lab leaves the host as it was. `make test-lab` also compares before and after all labs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab import host
from lab.places import CACHE
from tests.lab.conftest import Labs

pytestmark = pytest.mark.lab

#: What a lab of another name beside ours brings and takes: its bridge, its containers' mounts.
_OTHERS = re.compile(r"\bfab[0-9a-f]{4}\b|/containers/storage/|/run/netns/|/run/containers/")


def test_the_host_is_as_it_was(labs: Labs, host_before: dict[str, str]) -> None:
    rig = labs("host")
    rig.inside("sysctl -q -w vm.swappiness=7 fs.inotify.max_user_instances=777")
    rig.playbook("00-preflight.yml")
    labs.down()
    changed = host.differences(host_before, host.fingerprint())
    assert [line for line in changed if not _OTHERS.search(line)] == []
    assert not (CACHE / "state-test-host").exists()


def test_a_fingerprint_notices() -> None:
    before = {"sysctls": "vm.swappiness = 60\nvm.overcommit_memory = 0", "routes": "default"}
    after = {"sysctls": "vm.swappiness = 7\nvm.overcommit_memory = 0", "routes": "default\n10.9"}
    assert host.differences(before, after) == [
        "routes: new: 10.9", "sysctls: gone: vm.swappiness = 60", "sysctls: new: vm.swappiness = 7",
    ]  # fmt: skip
    assert host.fingerprint()["sysctls"].count("\n") > 200


def test_it_is_kept_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "host.json"
    assert host.main(["save", str(kept)]) == 0
    assert host.main(["compare", str(kept)]) == 0
    assert "as it was" in capsys.readouterr().out
    told = json.loads(kept.read_text())
    told["routes"] += "\n10.9.0.0/24 dev gone"
    kept.write_text(json.dumps(told))
    assert host.main(["compare", str(kept)]) == 1
    assert "routes: gone: 10.9.0.0/24 dev gone" in capsys.readouterr().out
