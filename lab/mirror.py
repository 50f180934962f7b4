"""What the mirror machine serves: vendor packages, kernels, and what roles need of Debian."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from lab.errors import LabError
from lab.places import REPOSITORY
from lab.run import run
from lab.vendor import BuildError, Repository, build_repository, gpg
from lab.vendor.deb import write_repository

#: Of the pool: what the image has already, and what the lab's kernels bring.
DEBIAN = REPOSITORY / "apt" / "debian"


def build_mirror(pool: Path) -> Repository:
    """Build or keep everything; returns the vendor's half. ``pool`` holds Debian packages."""
    try:
        repository = build_repository(REPOSITORY, kernel=platform.release())
    except BuildError as error:
        raise LabError(str(error)) from error
    stamp = DEBIAN / ".inputs"
    wanted = f"{pool.name} {(REPOSITORY / '.inputs').read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(DEBIAN, ignore_errors=True)
        debs = [*sorted(pool.glob("*.deb")), *sorted(repository.debian_kernel.glob("*.deb"))]
        packages = [(_plain(deb.name), _control(deb), deb.read_bytes()) for deb in debs]
        write_repository(DEBIAN, packages, "Debian")
        stamp.write_text(wanted)
    gpg.sign([DEBIAN], repository.private / "site.asc")
    (REPOSITORY / "keys" / "fingerprint").write_text(repository.fingerprint + "\n")
    return repository


def sign_all(repository: Repository, *, stranger: bool = False) -> None:
    """Sign every package list again; by a key that no node knows where ``stranger``."""
    repository.sign(stranger=stranger)
    name = "stranger.asc" if stranger else "site.asc"
    gpg.sign([DEBIAN], repository.private / name)


def _plain(name: str) -> str:
    """apt writes the colon of an epoch as %3a into file names; a server would decode it."""
    return name.replace("%3a", "_")


def _control(deb: Path) -> str:
    return run(["dpkg-deb", "-f", deb]).stdout
