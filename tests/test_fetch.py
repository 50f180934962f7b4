"""The command that fetches a branch of the driver, asked of a real apt with folders of its own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

from tests.cases_runner import ROOT

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")), reason="needs apt"
)

OLD = {"nv-580": "Depends: nv-lib-580", "nv-lib-580": "Provides: nv-lib"}
NEW = {"nv-595": "Depends: nv-lib-595", "nv-lib-595": "Conflicts: nv-lib-580"}


def asked_for(exact: list[str], foreign: list[str]) -> list[str]:
    """What the role calls, as its files say."""
    (block, *_) = yaml.safe_load((ROOT / "roles/nvidia_driver/tasks/install_apt.yml").read_text())
    fetch = block["block"][0]["ansible.builtin.command"]
    options = yaml.safe_load((ROOT / "roles/nvidia_driver/vars/main.yml").read_text())
    names = {
        "__nvidia_driver_fetch": [
            option.replace("{{ nvidia_driver_lock_timeout_s }}", "5")
            for option in options["__nvidia_driver_fetch"]
        ],
        "__nvidia_driver_exact": exact,
        "__nvidia_driver_foreign": foreign,
    }
    environment = jinja2.Environment(autoescape=True)
    environment.filters["regex_replace"] = lambda text, _, end: text + end
    expression = fetch["argv"].removeprefix("{{").removesuffix("}}")
    found = environment.compile_expression(expression)(**names)
    assert isinstance(found, list)
    return found


def control(name: str, more: str) -> str:
    return (
        f"Package: {name}\nVersion: 1:{name[-3:]}.1-1\nArchitecture: all\n"
        f"Maintainer: a <a@example.org>\n{more}\nDescription: x\n"
    )


def site(folder: Path, *, without: str = "") -> list[str]:
    """A node that runs the old branch, held, and a mirror of the new one alone; apt's options."""
    root, mirror = folder / "root", folder / "mirror"
    for name in (
        "etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d",
        "etc/apt/sources.list.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial",
        "var/lib/dpkg", "var/log/apt",
    ):  # fmt: skip
        (root / name).mkdir(parents=True)
    mirror.mkdir()
    listed = ""
    for name, more in NEW.items():
        built = folder / name / "DEBIAN"
        built.mkdir(parents=True)
        (built / "control").write_text(control(name, more))
        deb = mirror / f"{name}.deb"
        subprocess.run(["dpkg-deb", "-b", built.parent, deb], check=True, capture_output=True)
        told = f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\n"
        told += f"SHA256: {hashlib.sha256(deb.read_bytes()).hexdigest()}\n"
        listed += control(name, more).replace("Description", f"{told}Description") + "\n"
        if name == without:
            deb.unlink()
    (mirror / "Packages").write_text(listed)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] copy:{mirror} ./\n")
    here = {**OLD, "nv-pin-100": "Section: misc"}
    (root / "var/lib/dpkg/status").write_text(
        "\n".join(
            control(name, more).replace("\n", "\nStatus: hold ok installed\n", 1)
            for name, more in here.items()
        )
    )
    return [
        f"-oDir={root}", f"-oDir::State::status={root}/var/lib/dpkg/status",
        "-oAPT::Sandbox::User=", "-oDebug::NoLocking=1",
    ]  # fmt: skip


def fetched(folder: Path, *, without: str = "") -> tuple[int, set[str]]:
    options = site(folder, without=without)
    subprocess.run(["apt-get", *options, "update"], check=True, capture_output=True)
    first, *rest = asked_for(["nv-595=1:595.1-1", "nv-pin-100=1:100.1-1"], sorted(OLD))
    done = subprocess.run([first, *options, *rest], check=False, capture_output=True, text=True)
    cache = (folder / "root/var/cache/apt/archives").glob("*.deb")
    return done.returncode, {path.name.partition("_")[0] for path in cache}


def test_what_a_branch_depends_on_is_fetched_and_what_is_here_is_not_asked_for(
    tmp_path: Path,
) -> None:
    """The pinning package is here and no longer on offer: an install needs nothing of it."""
    assert fetched(tmp_path) == (0, set(NEW))


def test_a_file_that_the_mirror_lists_and_lacks_stops_it(tmp_path: Path) -> None:
    for name in NEW:
        assert fetched(tmp_path / name, without=name)[0] != 0
