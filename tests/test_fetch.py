"""The command that fetches a branch of the driver, asked of a real apt with folders of its own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

from fabric_tools.ansible.filters import filters
from tests.cases_runner import ROOT

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")), reason="needs apt"
)

#: Version and fields of each package. Parts of 580 and 595 have other names and conflict.
Packages = dict[str, tuple[str, str]]
V580: Packages = {
    "nv-580": ("1:580.1.1-1", "Depends: nv-lib-580"),
    "nv-lib-580": ("1:580.1.1-1", "Provides: nv-lib"),
}
V595: Packages = {
    "nv-595": ("1:595.1.1-1", "Depends: nv-lib-595"),
    "nv-lib-595": ("1:595.1.1-1", "Conflicts: nv-lib-580"),
}
#: From branch 590 on a part may keep its name.
V600: Packages = {
    "nv": ("1:600.1.1-1", "Depends: nv-lib (= 1:600.1.1-1)"),
    "nv-lib": ("1:600.1.1-1", "Section: misc"),
    "nv-more": ("1:600.1.1-1", "Depends: nv-lib (= 1:600.1.1-1)"),
}
V620: Packages = {
    "nv": ("1:620.1.1-1", "Depends: nv-lib (= 1:620.1.1-1)"),
    "nv-lib": ("1:620.1.1-1", "Section: misc"),
}
PIN: Packages = {"nv-pin": ("100", "Section: misc")}


def asked_for(exact: list[str], foreign: list[str], madison: str, driver: str) -> list[str]:
    """What the role calls, as its files say."""
    (block, *_) = yaml.safe_load((ROOT / "roles/nvidia_driver/tasks/install_apt.yml").read_text())
    asks, fetch, _ = block["block"]
    options = yaml.safe_load((ROOT / "roles/nvidia_driver/vars/main.yml").read_text())
    names = {
        "__nvidia_driver_fetch": [
            option.replace("{{ nvidia_driver_lock_timeout_s }}", "5")
            for option in options["__nvidia_driver_fetch"]
        ],
        "__nvidia_driver_exact": exact,
        "__nvidia_driver_foreign": foreign,
        "__nvidia_driver_set": {"driver_version": driver},
        asks["register"]: {"stdout": madison},
    }
    environment = jinja2.Environment(autoescape=True)
    environment.filters |= filters()

    def found(text: str) -> list[str]:
        expression = text.strip().removeprefix("{{").removesuffix("}}")
        value = environment.compile_expression(expression)(**names)
        assert isinstance(value, list)
        return value

    for name, text in fetch["vars"].items():
        names[name] = found(text)
    return found(fetch["ansible.builtin.command"]["argv"])


def control(name: str, version: str, more: str) -> str:
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
        f"Maintainer: a <a@example.org>\n{more}\nDescription: x\n"
    )


def site(folder: Path, old: Packages, new: Packages, *, without: str = "") -> list[str]:
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
    for name, (version, more) in new.items():
        built = folder / name / "DEBIAN"
        built.mkdir(parents=True)
        (built / "control").write_text(control(name, version, more))
        deb = mirror / f"{name}.deb"
        subprocess.run(["dpkg-deb", "-b", built.parent, deb], check=True, capture_output=True)
        told = f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\n"
        told += f"SHA256: {hashlib.sha256(deb.read_bytes()).hexdigest()}\n"
        listed += control(name, version, more).replace("Description", f"{told}Description") + "\n"
        if name == without:
            deb.unlink()
    (mirror / "Packages").write_text(listed)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] copy:{mirror} ./\n")
    (root / "var/lib/dpkg/status").write_text(
        "\n".join(
            control(name, version, more).replace("\n", "\nStatus: hold ok installed\n", 1)
            for name, (version, more) in {**old, **PIN}.items()
        )
    )
    return [
        f"-oDir={root}", f"-oDir::State::status={root}/var/lib/dpkg/status",
        "-oAPT::Sandbox::User=", "-oDebug::NoLocking=1",
    ]  # fmt: skip


def fetched(
    folder: Path, old: Packages, new: Packages, *, without: str = ""
) -> tuple[int, set[str]]:
    """Exit status and names of what lies in apt's cache: the first of ``new`` is wanted."""
    options = site(folder, old, new, without=without)
    subprocess.run(["apt-get", *options, "update"], check=True, capture_output=True)
    wanted, (version, _) = next(iter(new.items()))
    foreign = sorted(old.keys() - {wanted})
    asked = ["apt-cache", *options, "madison", *foreign]
    madison = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    exact = [f"{wanted}={version}", "nv-pin=100"]
    first, *rest = asked_for(exact, foreign, madison, version[2:9])
    done = subprocess.run([first, *options, *rest], check=False, capture_output=True, text=True)
    cache = (folder / "root/var/cache/apt/archives").glob("*.deb")
    return done.returncode, {path.name.partition("_")[0] for path in cache}


@pytest.mark.parametrize(("old", "new"), [(V580, V595), (V595, V620), (V600, V620), (V620, V580)])
def test_what_a_branch_depends_on_is_fetched_and_what_is_here_is_not_asked_for(
    tmp_path: Path, old: Packages, new: Packages
) -> None:
    """The pinning package is here and no longer on offer: an install needs nothing of it."""
    assert fetched(tmp_path, old, new) == (0, set(new))


@pytest.mark.parametrize(("old", "new"), [(V580, V595), (V600, V620)])
def test_a_file_that_the_mirror_lists_and_lacks_stops_it(
    tmp_path: Path, old: Packages, new: Packages
) -> None:
    for name in new:
        assert fetched(tmp_path / name, old, new, without=name)[0] != 0
