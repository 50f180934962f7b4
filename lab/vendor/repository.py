"""Builds what the lab's mirror serves: vendor packages, kernels and the key that signs them."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.vendor import dgx_packages as dgx
from lab.vendor import driver_packages as driver
from lab.vendor import gpg
from lab.vendor import kernel_packages as kernel
from lab.vendor.deb import Deb, build, write_repository
from lab.vendor.node.ko import sign
from lab.vendor.node.signing import pkcs7
from lab.vendor.node.trust import KERNEL_SIGNER

HERE = Path(__file__).parent


class BuildError(Exception):
    """What is missing on this host, and what to do."""


@dataclass(frozen=True)
class Repository:
    """A built mirror. ``private`` lies beside ``folder`` and is never served."""

    folder: Path
    fingerprint: str
    kernel: str
    kernel_next: str

    @property
    def nvidia(self) -> Path:
        """The place of NVIDIA's CUDA repository (flat)."""
        return self.folder / "apt" / "nvidia"

    @property
    def nvidia_later(self) -> Path:
        """The same driver in a second package revision, for a driver that moves."""
        return self.folder / "apt" / "nvidia-later"

    @property
    def dgx(self) -> Path:
        """The place of the repository of DGX OS."""
        return self.folder / "apt" / dgx.PATH

    @property
    def debian_kernel(self) -> Path:
        """Kernels, dkms and initramfs-tools."""
        return self.folder / "apt" / "debian-kernel"

    @property
    def key(self) -> Path:
        """The public key."""
        return self.folder / "keys" / "fabric.asc"

    @property
    def private(self) -> Path:
        """Keys and downloads."""
        return private_folder(self.folder)

    def sign(self, *, stranger: bool = False) -> None:
        """Signs all lists again; ``stranger``: by a key that no node knows (a fault)."""
        secret = self.private / ("stranger.asc" if stranger else "site.asc")
        if stranger:
            gpg.ensure_key(secret, "Stranger")
        gpg.sign([self.nvidia, self.nvidia_later, self.dgx, self.debian_kernel], secret)


def private_folder(folder: Path) -> Path:
    """Where the secrets of the mirror in ``folder`` lie: beside it, not in it."""
    return folder.parent / f"{folder.name}.private"


def build_repository(
    folder: Path,
    *,
    kernel: str,
    doubles: Path | None = None,
    dkms: Path | None = None,
    before: Callable[[], None] = lambda: None,
) -> Repository:
    """Builds the mirror in ``folder``; returns at once where it holds the same already.

    ``kernel``: the release that runs on the host. ``doubles``: a folder VERSION/libnvidia-ml.so.1,
    VERSION/libcuda.so.1 for each driver version; None compiles them where `lab.standins` can.
    ``dkms``: Debian's dkms package; None downloads it with apt. ``before``: called before anything
    that is there is replaced; may refuse. BuildError says what is missing.
    """
    folder = folder.resolve()
    private = private_folder(folder)
    private.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        fingerprint, public = gpg.ensure_key(private / "site.asc", "Lab mirror")
    except gpg.SigningError as error:
        raise BuildError(str(error)) from error
    repository = Repository(folder, fingerprint, kernel, _next(kernel))
    real = _dkms(private, dkms)
    wanted = _inputs_hash(kernel, fingerprint, doubles, real)
    stamp = folder / ".inputs"
    if stamp.exists() and stamp.read_text() == wanted:
        return repository
    before()
    shutil.rmtree(folder / "apt", ignore_errors=True)
    stamp.unlink(missing_ok=True)
    _write(repository, doubles, real)
    repository.key.parent.mkdir(parents=True, exist_ok=True)
    repository.key.write_bytes(public)
    repository.sign()
    stamp.write_text(wanted)
    return repository


def _next(release: str) -> str:
    try:
        return kernel.next_release(release)
    except ValueError as error:
        raise BuildError(str(error)) from error


def _write(repository: Repository, doubles: Path | None, dkms: Path) -> None:
    for folder, releases, more in (
        (repository.nvidia, driver.RELEASES, driver.extras(driver.RELEASES)),
        (repository.nvidia_later, driver.LATER, ()),
    ):
        debs = [*more]
        for release in releases:
            debs += driver.Set(release, _doubles(release.version, doubles)).all()
        write_repository(folder, _built(debs), "NVIDIA")
    signer = _kernel_signer(repository.private)
    kernels = [*kernel.kernels(repository.kernel, signer), kernel.initramfs_tools()]
    packages = [*_built(kernels), kernel.repack_dkms(dkms)]
    write_repository(repository.debian_kernel, packages, "Debian")
    of_dgx = [*dgx.driver(_doubles(dgx.RELEASE.version, doubles)), *dgx.system()]
    of_dgx += dgx.kernels(repository.kernel, signer)
    write_repository(repository.dgx, [*_built(of_dgx), kernel.repack_dkms(dkms)], "NVIDIA DGX")
    # The CUDA network repository by the path that it has there: on a DGX it is foreign.
    (repository.folder / "apt" / "cuda").symlink_to(repository.nvidia.name)


def _built(debs: Iterable[Deb]) -> list[tuple[str, str, bytes]]:
    return [(deb.filename, deb.control(), build(deb)) for deb in debs]


def _doubles(version: str, folder: Path | None) -> dict[str, bytes]:
    """The libraries of one version by name; empty files stand where nothing can be compiled."""
    if folder is not None:
        return {path.name: path.read_bytes() for path in (folder / version).glob("*.so*")}
    try:
        from lab.standins import doubles
    except ImportError:
        return {}
    with tempfile.TemporaryDirectory() as place:
        built: dict[str, Path] = doubles.build(Path(place), version)
        return {path.name: path.read_bytes() for path in built.values()}


def _kernel_signer(private: Path) -> kernel.Sign:
    """Signs with the key that the lab's kernels have built in."""
    key, certificate = private / "kernel.key", private / "kernel.der"
    if not certificate.exists():
        command = [
            "openssl", "req", "-new", "-x509", "-nodes", "-days", "36500", "-newkey", "rsa:2048",
            "-subj", f"/CN={KERNEL_SIGNER}/", "-keyout", str(key), "-outform", "DER",
            "-out", str(certificate),
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BuildError(f"openssl cannot make a key: {error}; install openssl") from error
    return lambda data: sign(data, pkcs7(data, "sha256", key, certificate))


def _dkms(private: Path, given: Path | None) -> Path:
    """Debian's dkms package: given, downloaded before, or now with apt."""
    if given is not None:
        return given
    found = sorted(private.glob("dkms_*.deb"))
    if found:
        return found[-1]
    try:
        done = subprocess.run(
            ["apt-get", "download", "dkms"],
            cwd=private,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stderr.strip()[-300:]
    except OSError as error:
        said = str(error)
    found = sorted(private.glob("dkms_*.deb"))
    if not found:
        raise BuildError(f"cannot download Debian's dkms ({said}); give it with --dkms FILE")
    return found[-1]


def _inputs_hash(release: str, fingerprint: str, doubles: Path | None, dkms: Path) -> str:
    """Everything that the packages are made of."""
    standins = HERE.parent / "standins"
    files = [*sorted(HERE.rglob("*.py")), *sorted(standins.rglob("doubles/*.c")),
             *sorted(standins.glob("doubles*.py")), dkms]  # fmt: skip
    if doubles is not None:
        files += sorted(doubles.rglob("*.so*"))
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return json.dumps([release, fingerprint, platform.machine(), hashes])
