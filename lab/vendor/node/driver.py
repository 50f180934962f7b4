"""The driver's kernel modules, as `dkms` builds them here: what each says, exports and needs.

Fields, licences and message forms follow recorded modinfo texts of the open 580 and the
proprietary 535; the alias is NVIDIA's (every display class device of vendor 10de).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from . import ko


class Part(NamedTuple):
    """One module of the driver."""

    name: str
    title: str
    exports: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


PARTS = (
    Part(
        "nvidia",
        "NVIDIA core GPU kernel module",
        ("nvidia_get_rm_ops", "nvUvmInterfaceRegisterGpu", "nvidia_p2p_get_pages"),
        aliases=(
            "pci:v000010DEd*sv*sd*bc06sc80i00*",
            "pci:v000010DEd*sv*sd*bc03sc02i00*",
            "pci:v000010DEd*sv*sd*bc03sc00i00*",
        ),
    ),
    Part("nvidia-uvm", "NVIDIA Unified Virtual Memory", needs=("nvUvmInterfaceRegisterGpu",)),
    Part("nvidia-modeset", "NVIDIA mode setting", ("nvKmsKapiGetFunctionsTable",),
         ("nvidia_get_rm_ops",)),
    Part("nvidia-drm", "NVIDIA DRM kernel module", needs=("nvKmsKapiGetFunctionsTable",)),
    Part("nvidia-peermem", "NVIDIA GPU memory plug-in",
         needs=("nvidia_p2p_get_pages", "ib_register_client")),
)  # fmt: skip
#: nvidia-kernel-common brings it: the other modules are loaded when nvidia is.
UDEV_RULE = "/lib/udev/rules.d/71-nvidia.rules"
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}


def module(part: Part, version: str, flavour: str, release: str) -> bytes:
    """One module of the driver for one kernel."""
    info = (
        ("firmware", f"nvidia/{version}/gsp_ga10x.bin"),
        ("import_ns", "DMA_BUF"),
        ("description", part.title),
        ("version", version),
        ("supported", "external"),
        ("license", LICENSES[flavour]),
        *(("alias", alias) for alias in part.aliases),
        ("srcversion", ko.srcversion(part.name, version, flavour)),
        ("retpoline", "Y"),
        ("name", part.name.replace("-", "_")),
        ("vermagic", ko.vermagic(release)),
    )
    return ko.build(ko.Module(part.name, info, part.exports, part.needs))


def build_modules(arguments: list[str]) -> int:
    """`build-modules KERNEL VERSION FLAVOUR`: what the driver's Makefile would build, right here.

    Needs the kernel's headers, as a compiler does.
    """
    release, version, flavour = arguments
    headers = Path(f"/lib/modules/{release}/build")
    if not (headers / "include").exists():
        print(f"make: *** {headers}: No such file or directory.  Stop.", file=sys.stderr)
        return 2
    for part in PARTS:
        Path(f"{part.name}.ko").write_bytes(module(part, version, flavour, release))
        print(f"  LD [M]  {part.name}.ko")
    return 0
