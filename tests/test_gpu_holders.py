"""The module that tells who holds the GPUs, on a made-up /proc."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from tests.cases_runner import ROOT


@pytest.fixture(scope="module")
def module() -> ModuleType:
    path = ROOT / "roles/nvidia_driver/library/gpu_holders.py"
    spec = importlib.util.spec_from_file_location("gpu_holders", path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def process(
    proc: Path, pid: int, *files: str, cgroup: str = "0::/\n", command: str = "x", maps: str = ""
) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(files):
        os.symlink(target, folder / "fd" / str(number))
    (folder / "maps").write_text(maps)
    (folder / "cmdline").write_text(f"{command}\0--flag\0" if command else "")
    (folder / "comm").write_text("threaded\n")
    (folder / "cgroup").write_text(cgroup)


def test_open_and_mapped_files_count_also_those_of_containers(
    module: ModuleType, tmp_path: Path
) -> None:
    process(tmp_path, 30, "/dev/null", "/dev/nvidiactl", "/dev/nvidia3", "/dev/nvidia3")
    process(tmp_path, 4, "/nvidia-uvm", cgroup="0::/kubepods.slice/cri-containerd-1.scope\n")
    process(tmp_path, 5, maps="7f00-7f01 rw-s 0 00:05 9 /dev/nvidia-caps/nvidia-cap2\n", command="")
    process(tmp_path, 6, "/dev/null", "/var/log/nvidia0.log", "/home/x/nvidia", "socket:[1]")
    (tmp_path / "self").mkdir()
    found = module.holders(str(tmp_path))
    assert [(item["pid"], item["devices"]) for item in found] == [
        (4, ["nvidia-uvm"]),
        (5, ["nvidia-cap2"]),
        (30, ["nvidia3", "nvidiactl"]),
    ]
    assert found[0]["unit"] == "cri-containerd-1.scope"
    assert found[1]["command"] == "threaded", "a process without arguments has a name"
    assert found[2]["command"] == "x" and found[2]["uid"] == os.getuid()


def test_the_unit_is_the_innermost_one(module: ModuleType) -> None:
    v1 = "12:cpu:/init.scope\n1:name=systemd:/system.slice/nvidia-persistenced.service\n0::/\n"
    assert module.unit_of(v1) == "nvidia-persistenced.service"
    other = "9:name=systemd:/../../init.scope\n8:pids:/\n0::/system.slice/nvidia-dcgm.service\n"
    assert module.unit_of(other) == "nvidia-dcgm.service"
    nested = "0::/user.slice/user@0.service/app.slice/job.service/inner\n"
    assert module.unit_of(nested) == "job.service"
    assert module.unit_of("0::/\n") == ""


def test_a_process_that_ended_is_no_holder_and_one_that_is_hidden_is_an_error(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    assert module.holders(str(tmp_path)) == []

    def denied(folder: str) -> list[str]:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(module, "devices_of", denied)
    with pytest.raises(PermissionError):
        module.holders(str(tmp_path))
