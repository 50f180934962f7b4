"""`update-initramfs`, `mkinitramfs`, `lsinitramfs`: an image that real tools can list.

A gzip'ed cpio archive (newc) with the modules that a boot may load early and the modprobe.d files
as they were when it was built. nouveau is inside unless one of these blacklisted it then.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from . import paths

#: Modules of /lib/modules/R/kernel that go into the image.
EARLY = ("nouveau", "raid0", "raid1", "raid10", "mlx5_core")
_CONFIG = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")


def _config() -> dict[str, bytes]:
    """modprobe.d files by path; of one name only the first counts, as for modprobe."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder in _CONFIG:
        for file in sorted(paths.at(folder).glob("*.conf")):
            found.setdefault(file.name, (f"{folder}/{file.name}".lstrip("/"), file.read_bytes()))
    return dict(found.values())


def blacklisted(name: str, files: dict[str, bytes]) -> bool:
    """Whether one of these modprobe.d files keeps the module from loading by its alias."""
    pattern = re.compile(rf"^\s*(?:blacklist\s+{name}|install\s+{name}\s+\S*/(?:false|true))\s*$")
    return any(
        pattern.match(line)
        for data in files.values()
        for line in data.decode("utf-8", "replace").splitlines()
    )


def _entry(number: int, name: str, data: bytes, mode: int) -> bytes:
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    head += bytes(-len(head) % 4)
    return head + data + bytes(-len(data) % 4)


def build(release: str) -> bytes:
    """The image for one installed kernel."""
    config = _config()
    files = {"conf/arch.conf": b"", **config}
    tree = paths.at(f"/lib/modules/{release}")
    for file in sorted(tree.glob("kernel/**/*.ko")):
        if file.stem in EARLY and not (file.stem == "nouveau" and blacklisted("nouveau", config)):
            files[f"usr/lib/modules/{release}/{file.relative_to(tree)}"] = file.read_bytes()
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    entries = [(folder, b"", 0o40755) for folder in folders]
    entries += [(name, data, 0o100644) for name, data in files.items()]
    body = b"".join(
        _entry(number, name, data, mode)
        for number, (name, data, mode) in enumerate(sorted(entries), start=1)
    )
    return gzip.compress(body + _entry(0, "TRAILER!!!", b"", 0), mtime=0)


def entries(image: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents; ValueError for what is no such image."""
    data, at = gzip.decompress(image.read_bytes()), 0
    while data[at : at + 6] == b"070701":
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name_at, size, length = at + 110, fields[6], fields[11]
        body = name_at + length + -(110 + length) % 4
        name = data[name_at : name_at + length - 1].decode()
        if name == "TRAILER!!!":
            return
        yield name, data[body : body + size]
        at = body + size + -size % 4
    raise ValueError(f"{image}: not a cpio archive")


def loads(image: Path, name: str) -> bool:
    """Whether a boot from this image loads the module: inside, and not blacklisted there."""
    inside = dict(entries(image))
    config = {path: data for path, data in inside.items() if "modprobe.d/" in path}
    return any(path.endswith(f"/{name}.ko") for path in inside) and not blacklisted(name, config)


def _key(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"[.-]", release)]


def _with_image() -> list[str]:
    found = [path.name.partition("-")[2] for path in paths.at("/boot").glob("initrd.img-*")]
    return sorted(found, key=_key)


def update(arguments: list[str]) -> int:
    """`update-initramfs -c|-u|-d [-k RELEASE|all]`; -u alone takes the newest, as the real one."""
    action = next((word for word in arguments if word in ("-c", "-u", "-d")), None)
    wanted = arguments[arguments.index("-k") + 1] if "-k" in arguments[:-1] else None
    if action is None or (action in ("-c", "-d") and wanted is None):
        print("update-initramfs: lab: say -c -k, -u or -d -k", file=sys.stderr)
        return 1
    known = _with_image()
    releases = known if wanted == "all" else [wanted] if wanted else known[-1:]
    for release in releases:
        image = paths.at(f"/boot/initrd.img-{release}")
        if action == "-d":
            print(f"update-initramfs: Deleting {image}")
            image.unlink(missing_ok=True)
            continue
        if not paths.at(f"/lib/modules/{release}").is_dir():
            print(f"W: missing /lib/modules/{release}", file=sys.stderr)
        print(f"update-initramfs: Generating {image}")
        part = image.with_suffix(".new")
        part.write_bytes(build(release))
        part.replace(image)
    return 0


def make(arguments: list[str]) -> int:
    """`mkinitramfs -o FILE [RELEASE]`."""
    if "-o" not in arguments[:-1]:
        print("mkinitramfs: lab: -o FILE is needed", file=sys.stderr)
        return 1
    out = arguments.index("-o") + 1
    rest = [word for n, word in enumerate(arguments) if n != out and not word.startswith("-")]
    Path(arguments[out]).write_bytes(build(rest[0] if rest else paths.release()))
    return 0


def show(arguments: list[str]) -> int:
    """`lsinitramfs [-l] FILE ...`: the names inside."""
    files = [word for word in arguments if not word.startswith("-")]
    try:
        for file in files:
            for name, _ in entries(Path(file)):
                print(name)
    except (OSError, ValueError) as error:
        print(f"lsinitramfs: {error}", file=sys.stderr)
        return 1
    return 0
