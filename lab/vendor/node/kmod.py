"""`modprobe`, `insmod`, `rmmod`, `lsmod` and the coldplug of a boot.

What to load is resolved by the real kmod (`modprobe --show-depends`: modules.dep, aliases,
/etc/modprobe.d with blacklist, options, softdep and install); only the system call is ours.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import driver, initramfs, kernel, paths, trust

KMOD = "/bin/kmod"
#: Options of modprobe after which it changes nothing; the real program answers them.
_ASKS = ("-n", "--dry-run", "--show", "-D", "--show-depends", "-c", "--showconfig", "-V", "-h",
         "--version", "--help", "--show-modversions", "--dump-modversions", "-R",
         "--resolve-alias")  # fmt: skip


_ASKS_SHORT = re.compile(r"-[a-zA-Z]*[nDcVhR]")
_FLAGS = frozenset("rbqvafs")


def real(applet: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The distribution's program, which goes by the name it is called."""
    return subprocess.run(
        [applet, *arguments], executable=KMOD, capture_output=True, text=True, check=False
    )


def _pass_on(applet: str, arguments: list[str]) -> int:
    done = real(applet, arguments)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def _error(applet: str, text: str, quiet: bool = False) -> int:
    if not quiet:
        print(f"{applet}: {text}", file=sys.stderr)
    return 1


def modprobe(arguments: list[str]) -> int:
    """The forms that people and roles use; an option that is not known here is refused."""
    if any(argument in _ASKS or _ASKS_SHORT.match(argument) for argument in arguments):
        return _pass_on("modprobe", arguments)
    letters = {"--remove": "r", "--use-blacklist": "b", "--quiet": "q", "--verbose": "v",
               "--all": "a", "--first-time": "f", "--syslog": "s"}  # fmt: skip
    flags: set[str] = set()
    names: list[str] = []
    for argument in arguments:
        if argument.startswith("--"):
            if argument not in letters:
                return _error("modprobe", f"ERROR: lab: unknown option {argument}")
            flags.add(letters[argument])
        elif argument.startswith("-"):
            flags.update(argument[1:])
        else:
            names.append(argument)
    if flags - _FLAGS:
        return _error("modprobe", f"ERROR: lab: unknown option -{min(flags - _FLAGS)}")
    if not names:
        return _error("modprobe", "FATAL: missing parameters. See -h.")
    quiet = "q" in flags
    if "r" in flags:
        return max([_remove(name, quiet) for name in names])
    if "a" in flags:
        return max([_insert(name, [], flags) for name in names])
    return _insert(names[0], names[1:], flags)


def _insert(name: str, options: list[str], flags: set[str]) -> int:
    ask = ["--show-depends", *(["-b"] if "b" in flags else []), name]
    asked = real("modprobe", ask)
    quiet = "q" in flags
    if asked.returncode:
        if not quiet:
            sys.stderr.write(asked.stderr)
        return asked.returncode
    lines = [line.strip() for line in asked.stdout.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        verb, _, rest = line.partition(" ")
        if verb == "builtin":
            continue
        if verb == "install":
            if subprocess.run(["/bin/sh", "-c", rest], check=False).returncode:
                return _error("modprobe", f"ERROR: could not insert '{name}': Invalid argument")
            continue
        words = shlex.split(rest) + (options if number == len(lines) else [])
        if "v" in flags:
            print(f"insmod {' '.join(words)}")
        here = Path(words[0]).name.partition(".")[0].replace("-", "_")
        try:
            kernel.load(Path(words[0]), " ".join(words[1:]))
        except trust.Refused as refused:
            if str(refused) == "File exists":
                continue
            text = f"ERROR: could not insert '{here}': {refused}"
            return _error("modprobe", text, quiet)
        if here == "nvidia":
            _udev()
    return 0


def _udev() -> None:
    """What the vendor's udev rule loads when the driver registers."""
    rule = paths.at(driver.UDEV_RULE)
    if rule.exists():
        for match in re.finditer(r'/sbin/modprobe ([\w-]+)"', rule.read_text(encoding="utf-8")):
            _insert(match[1], [], {"q", "b"})


def _remove(name: str, quiet: bool) -> int:
    """The module, then those that only it needed, as `modprobe -r` does."""
    here = name.replace("-", "_")
    there = kernel.modules()
    if here not in there:
        known = real("modprobe", ["--show-depends", name]).returncode == 0
        return 0 if known else _error("modprobe", f"FATAL: Module {name} not found.", quiet)
    try:
        kernel.unload(here)
    except trust.Refused as refused:
        return _error("modprobe", f"FATAL: Module {here} {str(refused).partition(' by')[0]}.")
    _remove_unused(there, here)
    return 0


def _remove_unused(there: dict[str, dict[str, Any]], name: str) -> None:
    for need in there[name]["depends"]:
        try:
            kernel.unload(need)
        except trust.Refused:
            continue  # somebody else needs it
        _remove_unused(there, need)


def insmod(arguments: list[str]) -> int:
    """`insmod FILE [OPTION=VALUE ...]`."""
    if not arguments:
        return _error("insmod", "ERROR: missing filename.")
    try:
        kernel.load(Path(arguments[0]).resolve(), " ".join(arguments[1:]))
    except OSError as error:
        return _error("insmod", f"ERROR: could not load module {arguments[0]}: {error.strerror}")
    except trust.Refused as refused:
        return _error("insmod", f"ERROR: could not insert module {arguments[0]}: {refused}")
    return 0


def rmmod(arguments: list[str]) -> int:
    """`rmmod NAME ...`; a module in use stays, also with -f."""
    code = 0
    for name in (argument for argument in arguments if not argument.startswith("-")):
        try:
            kernel.unload(Path(name).name.partition(".ko")[0].replace("-", "_"))
        except trust.Refused as refused:
            code = _error("rmmod", f"ERROR: Module {name} {refused}")
    return code


def lsmod(_: list[str]) -> int:
    """The table of what is loaded."""
    print("Module                  Size  Used by")
    try:
        lines = paths.at("/run/lab/proc_modules").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, size, count, users = line.split()[:4]
        print(f"{name:<19} {size:>8}  {count}{'' if users == '-' else ' ' + users.rstrip(',')}")
    return 0


def coldplug(_: list[str]) -> int:
    """What a boot loads: nouveau from the initramfs, then what fits the devices."""
    kernel.refresh()
    release = paths.release()
    image = paths.at(f"/boot/initrd.img-{release}")
    if paths.gpus() and image.exists() and initramfs.loads(image, "nouveau"):
        _insert("nouveau", [], {"q"})
    for alias in _aliases():
        _insert(alias, [], {"b", "q"})
    return 0


def modules_load(_: list[str]) -> int:
    """`systemd-modules-load`: what modules-load.d names; the real one asks the host's kernel."""
    code = 0
    for folder in ("/usr/lib/modules-load.d", "/etc/modules-load.d", "/run/modules-load.d"):
        for file in sorted(paths.at(folder).glob("*.conf")):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.strip() and line.strip()[0] not in "#;":
                    code |= _insert(line.strip(), [], {"b"})
    return code


def _aliases() -> list[str]:
    """One for each kind of device on the bus."""
    node = paths.node()
    kinds = [(gpu, "bc03sc02i00") for gpu in paths.gpus()]
    kinds += [(switch, "bc06sc80i00") for switch in node.get("nvswitches", [])]
    kinds += [(nic, "bc02sc00i00") for nic in node.get("nics", [])]
    found = []
    for device, kind in kinds:
        vendor, _, model = str(device["pci_id"]).upper().partition(":")
        found.append(f"pci:v0000{vendor}d0000{model}sv0000{vendor}sd00000000{kind}")
    return list(dict.fromkeys(found))
