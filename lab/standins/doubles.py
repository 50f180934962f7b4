"""Compile the C doubles of the driver's libraries, one pair for each driver version.

Needs gcc on the host. The result is a shared object that reads the node's state through the
program ``flat`` (``files.FLAT``) when a program initialises the library.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .files import FLAT
from .state import cuda_version

_SOURCES = Path(__file__).resolve().parent / "native"
_VERSION = re.compile(r"\d{3}(?:\.\d{1,3}){1,2}")
#: Name of the library -> its source.
LIBRARIES = {"libnvidia-ml.so.1": "nvml.c", "libcuda.so.1": "cuda.c"}
# c11 without GNU extensions: the file then asks for no name that only a newer libc than the node's
# has, whatever the host's is.
_FLAGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra",
          "-Werror", "-Wno-unused-function")  # fmt: skip


class BuildError(Exception):
    """The compiler is missing or refused; the message has its words."""


def build(folder: Path, version: str, flat: str = FLAT) -> dict[str, Path]:
    """Library name -> the file made in ``folder``. ``flat``: the program it will run.

    Equal input gives equal files (no path of this host is inside). Raises ``BuildError``, and
    ``ValueError`` for what is no driver version.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a driver version such as 580.173.02")
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _one(folder / name, source, version, flat) for name, source in LIBRARIES.items()}


def _one(target: Path, source: str, version: str, flat: str) -> Path:
    major, minor = cuda_version(version).split(".")
    defines = {
        "VERSION": f'"{version}"',
        "FLAT": f'"{flat}"',
        "CUDA_MAJOR": f'"{major}"',
        "CUDA_NUMBER": str(int(major) * 1000 + int(minor) * 10),
    }
    argv = ["gcc", *_FLAGS, f"-ffile-prefix-map={_SOURCES}=.", f"-Wl,-soname,{target.name}"]
    argv += [f"-D{name}={value}" for name, value in defines.items()]
    argv += ["-o", str(target), str(_SOURCES / source)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError as error:
        raise BuildError("gcc is not installed: apt-get install gcc libc6-dev") from error
    if done.returncode != 0:
        raise BuildError(f"gcc refused {source}: {done.stderr.strip()[:500]}")
    return target
