"""What the next boot will be: JSON of the collector (``node.boot``).

Evidence: our own format. What modinfo, lsinitramfs and GRUB's menu print follows their manual pages
and sources (format unverified on hardware).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from fabric_tools.models.boot import BootKernel, ConfLine, Initramfs, NextBoot
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import load_json

PROBE = "next_boot"
_MAX_CHARS = 1024 * 1024
_KEYS = ("running", "next", "how", "efi", "modprobe", "initramfs", "reboot_required")


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    running: str
    next: str | None
    how: str
    efi: bool
    kernels: tuple[BootKernel, ...]
    modprobe: tuple[ConfLine, ...]
    initramfs: Initramfs
    reboot_required: tuple[str, ...] | None


def parse_next_boot(text: str) -> NextBoot:
    """The whole object; the running and the next kernel stand among the kernels."""
    if len(text) > _MAX_CHARS:
        raise ParseError(PROBE, 0, f"longer than {_MAX_CHARS} characters")
    load_json(PROBE, text)  # bounds and duplicate keys, as for every JSON here
    try:
        answer = _Answer.model_validate_json(text.removeprefix("\ufeff"), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "text"
        raise ParseError(PROBE, 0, f"{field}: {first['msg']}"[:200]) from error
    names = [kernel.release for kernel in answer.kernels]
    if len(set(names)) != len(names):
        raise ParseError(PROBE, 0, "a kernel stands there twice")
    for name in (answer.running, answer.next):
        if name is not None and name not in names:
            raise ParseError(PROBE, 0, f"kernel {name[:80]!r} is not among the kernels")
    _agrees(answer)
    lines = text.split("\n")
    found = {
        key: next((n for n, line in enumerate(lines, 1) if line.lstrip().startswith(f'"{key}"')), 0)
        for key in _KEYS
    }
    for kernel in answer.kernels:
        word = f'"release": "{kernel.release}"'
        found[kernel.release] = next((n for n, line in enumerate(lines, 1) if word in line), 0)
    return NextBoot(**dict(answer), lines=found)


def _agrees(answer: _Answer) -> None:
    """Raises ``ParseError`` where one part of the answer denies what another says."""
    found = next((kernel for kernel in answer.kernels if kernel.release == answer.next), None)
    if found is not None and found.initramfs != answer.initramfs.path:
        raise ParseError(PROBE, 0, "two different initramfs of the next kernel")
    for kernel in answer.kernels:
        if kernel.module is not None and not (kernel.module.filename and kernel.module.version):
            raise ParseError(PROBE, 0, f"{kernel.release[:80]}: a module without file or version")
