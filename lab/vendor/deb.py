"""Debian packages and flat repositories written byte for byte the same each time.

Formats: deb(5), deb-control(5), the repository format of apt (flat, as NVIDIA's CUDA repository).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

#: All times in packages and lists (2025-01-01 00:00 UTC): before any node's clock.
EPOCH_S = 1735689600
_DATE = "Wed, 01 Jan 2025 00:00:00 UTC"


@dataclass(frozen=True)
class Entry:
    """One file of a package, or a symbolic link where ``link`` is set."""

    data: bytes = b""
    mode: int = 0o644
    link: str | None = None


@dataclass(frozen=True)
class Deb:
    """One binary package. ``relations``: control fields such as Depends, Conflicts.

    ``files``: absolute path to what lies there; ``scripts``: maintainer scripts by name.
    """

    name: str
    version: str
    description: str
    relations: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Entry] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    arch: str = "amd64"
    section: str = "misc"

    @property
    def filename(self) -> str:
        """The name of the .deb file."""
        return f"{self.name}_{self.version}_{self.arch}.deb"

    def control(self) -> str:
        """The control file, without an empty line at the end."""
        size = sum(len(entry.data) for entry in self.files.values())
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": self.arch,
            "Maintainer": "Lab <lab@example.invalid>",
            "Installed-Size": str(1 + size // 1024),
            **self.relations,
            "Section": self.section,
            "Priority": "optional",
            "Description": f"{self.description}\n A stand-in of the lab, not the vendor's.",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def _tar(files: Mapping[str, Entry]) -> bytes:
    """A gzip'ed tar of root's files with the folders above them."""
    folders = {
        str(parent)
        for path in files
        for parent in PurePosixPath(path).parents
        if str(parent) != "/"
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in ["/", *sorted({*files, *folders})]:
            item = tarfile.TarInfo("." + path)
            item.mtime, item.uname, item.gname = EPOCH_S, "root", "root"
            entry = files.get(path)
            if entry is None:
                item.type, item.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(item)
            elif entry.link is not None:
                item.type, item.mode, item.linkname = tarfile.SYMTYPE, 0o777, entry.link
                tar.addfile(item)
            else:
                item.size, item.mode = len(entry.data), entry.mode
                tar.addfile(item, io.BytesIO(entry.data))
    return gzip.compress(buffer.getvalue(), compresslevel=1, mtime=0)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{EPOCH_S:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode("ascii")
    return head + data + b"\n" * (len(data) % 2)


def assemble(control: Mapping[str, Entry], data: bytes, suffix: str = ".gz") -> bytes:
    """The .deb of the control files and a data archive that is there already."""
    return (
        b"!<arch>\n"
        + _member("debian-binary", b"2.0\n")
        + _member("control.tar.gz", _tar(control))
        + _member(f"data.tar{suffix}", data)
    )


def build(deb: Deb) -> bytes:
    """The .deb file. What lies in /etc is a configuration file, as policy says."""
    control = {"/control": Entry(deb.control().encode())}
    conffiles = [path for path in deb.files if path.startswith("/etc/")]
    if conffiles:
        control["/conffiles"] = Entry("".join(f"{path}\n" for path in conffiles).encode())
    for name, text in deb.scripts.items():
        mode = 0o644 if name == "triggers" else 0o755
        control[f"/{name}"] = Entry(text.encode(), mode)
    return assemble(control, _tar(deb.files))


def members(deb: bytes) -> dict[str, bytes]:
    """The parts of a .deb by name; ValueError for what is none."""
    if not deb.startswith(b"!<arch>\n"):
        raise ValueError("not a Debian package")
    found, at = {}, 8
    while at + 60 <= len(deb):
        name, size = (
            deb[at : at + 16].decode("ascii").strip().rstrip("/"),
            int(deb[at + 48 : at + 58]),
        )
        found[name] = deb[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    return found


def write_repository(folder: Path, packages: Iterable[tuple[str, str, bytes]], label: str) -> None:
    """Writes packages, Packages, Packages.gz and Release (unsigned) of a flat repository.

    ``packages``: file name, control text, the package itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = []
    for name, control, data in sorted(packages):
        # A colon or a plus is nothing special in a file name, but a proxy may differ.
        (folder / name).write_bytes(data)
        stanza = re.sub(
            r"(?m)^Description: ",
            f"Filename: ./{name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\nDescription: ",
            control,
        )
        stanzas.append(stanza)
    index = "\n".join(stanzas).encode()
    lists = {"Packages": index, "Packages.gz": gzip.compress(index, mtime=0)}
    lines = [
        f"Origin: {label}", f"Label: {label}", "Suite: stable", "Architectures: amd64",
        f"Date: {_DATE}", f"Description: stand-in repository of the lab ({label})", "SHA256:",
    ]  # fmt: skip
    for name, data in lists.items():
        (folder / name).write_bytes(data)
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    (folder / "Release").write_text("\n".join(lines) + "\n", encoding="ascii")
