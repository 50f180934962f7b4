"""The wheel, built from the sdist, installed where no checkout is, and used there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import fabric_tools

REPO = Path(__file__).resolve().parents[2]
SHARED = ("examples", "playbooks", "roles", "templates", "validation")
COLLECTOR = "fabric_tools/node/fabric-collect.pyz"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """An empty environment with the lock and our wheel, and a folder that is not the checkout."""

    wheel: Path
    sdist: Path
    bin: Path
    elsewhere: Path

    @property
    def package(self) -> Path:
        where = self.run(
            str(self.bin / "python"), "-c", "import fabric_tools as f;print(f.__file__)"
        )
        return Path(where.stdout.strip()).parent

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words, cwd=self.elsewhere, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=300, check=False, env=clean_environment(),
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done


def clean_environment() -> dict[str, str]:
    """Nothing that would let the checkout in by the back door."""
    drop = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "ANSIBLE_CONFIG", "FABRIC_STATE")
    found = {name: value for name, value in os.environ.items() if name not in drop}
    return found | {"XDG_STATE_HOME": "/nonexistent"}  # no ledger of whoever runs the tests


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("wheel")
    dist = base / "dist"
    # No isolation: hatchling and nvidia-ml-py are here, at the versions and hashes of the lock.
    sh(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(REPO))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    venv.create(base / "venv", with_pip=True)
    python = str(base / "venv/bin/python")
    sh(
        python, "-m", "pip", "install", "-qq", "--require-hashes", "--only-binary", ":all:",
        "--no-compile", "-r", str(REPO / "requirements.lock"),
    )  # fmt: skip
    sh(python, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", str(wheel))
    sh(python, "-m", "pip", "check")
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    return Installed(wheel, sdist, base / "venv/bin", elsewhere)


def sh(*words: str) -> None:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"


def files_of(folder: str) -> set[str]:
    """Files of a folder in the checkout that git would carry (no caches)."""
    return {
        path.relative_to(REPO).as_posix()
        for path in (REPO / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_carries_code_tables_and_shared_data(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    want = files_of("fabric_tools")
    for folder in SHARED:
        where = "playbooks/" if folder == "roles" else ""
        want |= {f"fabric_tools/_share/{where}{name}" for name in files_of(folder)}
    assert want - names == set()
    assert "fabric_tools/py.typed" in names
    stray = {name for name in names if not name.startswith("fabric_tools")}
    assert stray == set()


def test_sdist_carries_no_built_collector_and_nothing_ignored(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        names = archive.getnames()
    assert any(name.endswith("/hatch_build.py") for name in names)
    assert [name for name in names if name.endswith((".pyz", ".pyc"))] == []


def test_source_tree_has_no_built_collector(installed: Installed) -> None:
    assert list((REPO / "fabric_tools").rglob("*.pyz")) == []


def test_collector_in_the_wheel_is_the_one_of_this_tree(installed: Installed) -> None:
    from fabric_tools.node.bundle import build_zipapp

    packed = zipfile.ZipFile(installed.wheel).read(COLLECTOR)
    assert packed == build_zipapp()


def test_collector_runs_alone(installed: Installed) -> None:
    pyz = installed.package / "node/fabric-collect.pyz"
    assert "pynvml.py" in zipfile.ZipFile(pyz).namelist()
    copy = installed.elsewhere / "fabric-collect.pyz"
    copy.write_bytes(pyz.read_bytes())
    # The interpreter below the environment: no site-packages of ours within reach.
    python = str(
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    assert "--redact" in installed.run(python, "-I", str(copy), "--help").stdout
    smoke = str(REPO / "tools/collector_smoke.py")
    assert "probes" in installed.run(python, "-I", smoke, str(copy)).stdout


def test_version(installed: Installed) -> None:
    said = installed.run(str(installed.bin / "fabric-tools"), "--version").stdout
    assert fabric_tools.__version__ in said
    assert REPO not in installed.package.parents


def test_installed_tool_judges_the_examples_it_carries(installed: Installed) -> None:
    examples = sorted((installed.package / "_share/examples").glob("*/expected"))
    assert examples, "the wheel carries no example"
    for expected in examples:
        code = int(expected.read_text(encoding="utf-8").split()[0])
        tool = str(installed.bin / "fabric-tools")
        installed.run(
            tool, "validate", "preflight", "driver", "nvlink", "--snapshot", str(expected.parent),
            code=code,
        )  # fmt: skip


def test_installed_playbooks_find_their_gate_and_roles(installed: Installed) -> None:
    tool, ansible = str(installed.bin / "fabric-tools"), str(installed.bin / "ansible-playbook")
    playbooks = Path(installed.run(tool, "playbooks").stdout.strip())
    assert playbooks == installed.package / "_share/playbooks"
    arguments = ("-i", "node,", "-c", "local", "-e", '{"ansible_become": false}')
    installed.run(ansible, *arguments, "--syntax-check", str(playbooks / "site.yml"))
    done = installed.run(ansible, *arguments, str(playbooks / "20-driver.yml"), code=2)
    assert "driver entry: CLOSED (exit" in done.stdout
    assert "there is no site key" in done.stdout
