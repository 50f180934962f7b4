"""`/usr/lib/lab/vendor TOOL ARGUMENTS`: one program for all tools of this part."""

from __future__ import annotations

import sys

from . import daemons, driver, initramfs, kmod, signing

TOOLS = {
    "build-modules": driver.build_modules,
    "coldplug": kmod.coldplug,
    "fabricmanager": daemons.fabric_manager,
    "insmod": kmod.insmod,
    "lsinitramfs": initramfs.show,
    "lsmod": kmod.lsmod,
    "mkinitramfs": initramfs.make,
    "modprobe": kmod.modprobe,
    "modules-load": kmod.modules_load,
    "persistenced": daemons.persistenced,
    "rmmod": kmod.rmmod,
    "sign-file": signing.sign_file,
    "update-initramfs": initramfs.update,
}


def main(arguments: list[str]) -> int:
    """Calls the tool that is named first."""
    if not arguments or arguments[0] not in TOOLS:
        print(f"lab vendor: no such tool; there are: {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    return TOOLS[arguments[0]](arguments[1:])
