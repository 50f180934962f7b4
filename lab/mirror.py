"""What the mirror machine serves: vendor packages, kernels, and what roles need of Debian."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from lab.engine import Engine
from lab.errors import LabError
from lab.places import REPOSITORY, lab_of
from lab.run import run
from lab.vendor import BuildError, Repository, build_repository, gpg
from lab.vendor.deb import write_repository

#: Of the pool: what the image has already, and what the lab's kernels bring.
DEBIAN = REPOSITORY / "apt" / "debian"


def build_mirror(engine: Engine, pool: Path) -> Repository:
    """Build or keep everything; returns the vendor's half. ``pool`` holds Debian packages."""

    def unused() -> None:
        _refuse_while_served(engine)

    try:
        repository = build_repository(REPOSITORY, kernel=platform.release(), before=unused)
    except BuildError as error:
        raise LabError(str(error)) from error
    stamp = DEBIAN / ".inputs"
    wanted = f"{pool.name} {(REPOSITORY / '.inputs').read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        unused()
        shutil.rmtree(DEBIAN, ignore_errors=True)
        debs = [*sorted(pool.glob("*.deb")), *sorted(repository.debian_kernel.glob("*.deb"))]
        packages = [(_plain(deb.name), _control(deb), deb.read_bytes()) for deb in debs]
        write_repository(DEBIAN, packages, "Debian")
        # Once: signed again, the lists would change under another lab that serves them.
        gpg.sign([DEBIAN], repository.private / "site.asc")
        stamp.write_text(wanted)
    (REPOSITORY / "keys" / "fingerprint").write_text(repository.fingerprint + "\n")
    return repository


def _refuse_while_served(engine: Engine) -> None:
    """Other packages under a lab that is up would be another lab; raises ``LabError``."""
    for name in engine.running("fabric-lab"):
        mounts = engine("inspect", "-f", "{{range .Mounts}}{{.Source}} {{end}}", name, check=False)
        if str(REPOSITORY.resolve()) in mounts.split():
            lab = lab_of(name)
            raise LabError(
                f"the packages have changed while the lab {lab} serves them",
                f"`FABRIC_LAB={lab} python -m lab down`, or another FABRIC_LAB_CACHE",
            )


def _plain(name: str) -> str:
    """apt writes the colon of an epoch as %3a into file names; a server would decode it."""
    return name.replace("%3a", "_")


def _control(deb: Path) -> str:
    return run(["dpkg-deb", "-f", deb]).stdout
