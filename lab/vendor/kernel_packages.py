"""Kernel packages for the kernel that really runs and for a newer one; dkms and initramfs-tools.

Names are Debian's. The modules are ELF files that kmod reads; the kernel's own are signed.
"""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from lab.vendor.deb import Deb, Entry, assemble, members
from lab.vendor.node import ko

Sign = Callable[[bytes], bytes]

_CONFIG = b"CONFIG_MODULES=y\nCONFIG_MODULE_SIG=y\n"
#: Path below kernel/, exported and needed symbols, alias.
_MODULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    ("drivers/gpu/drm/nouveau/nouveau", (), (), "pci:v000010DEd*sv*sd*bc03sc*i*"),
    ("drivers/infiniband/core/ib_core", ("ib_register_client",), (), ""),
    ("drivers/infiniband/core/ib_uverbs", ("ib_uverbs_get_ucontext_file",),
     ("ib_register_client",), ""),
    ("drivers/infiniband/core/ib_umad", (), ("ib_register_client",), ""),
    ("drivers/net/ethernet/mellanox/mlx5/core/mlx5_core", ("mlx5_cmd_exec",), (),
     "pci:v000015B3d*sv*sd*bc02sc*i*"),
    ("drivers/infiniband/hw/mlx5/mlx5_ib", (),
     ("mlx5_cmd_exec", "ib_register_client", "ib_uverbs_get_ucontext_file"), ""),
    ("drivers/md/raid0", (), (), ""),
    ("drivers/md/raid1", (), (), ""),
    ("drivers/md/raid10", (), (), ""),
    ("drivers/net/bonding/bonding", (), (), ""),
    ("net/bridge/br_netfilter", (), (), ""),
    ("fs/overlayfs/overlay", (), (), ""),
)  # fmt: skip


def next_release(release: str) -> str:
    """A newer kernel of the same flavour: 6.1.0-50-amd64 to 6.1.0-51-amd64, 6.18.44-x to 6.18.45-x.

    ValueError where the name begins with no version.
    """
    found = re.match(r"(\d+(?:\.\d+)+-)(\d+)((?:-.*)?)$", release) or re.match(
        r"(\d+(?:\.\d+)*\.)(\d+)(.*)$", release
    )
    if found is None:
        raise ValueError(f"not a kernel release: {release!r}")
    return f"{found[1]}{int(found[2]) + 1}{found[3]}"


def package_version(release: str) -> str:
    """The version of the packages of one release: its digits, then a revision."""
    numbers = re.match(r"\d+(?:\.\d+)*(?:-\d+(?=-|$))?", release)
    if numbers is None:
        raise ValueError(f"not a kernel release: {release!r}")
    return f"{numbers[0].replace('-', '+')}-1"


def package_name(kind: str, release: str) -> str:
    """linux-image-RELEASE; what a package name cannot hold becomes a dash."""
    return f"linux-{kind}-{re.sub(r'[^a-z0-9.+-]', '-', release.lower())}"


def _modules(release: str, sign: Sign) -> dict[str, Entry]:
    files = {}
    for path, exports, needs, alias in _MODULES:
        name = path.rpartition("/")[2]
        info = (
            ("license", "GPL"),
            *((("alias", alias),) if alias else ()),
            ("srcversion", ko.srcversion(name, release)),
            ("intree", "Y"),
            ("name", name),
            ("vermagic", ko.vermagic(release)),
        )
        data = sign(ko.build(ko.Module(name, info, exports, needs)))
        files[f"/lib/modules/{release}/kernel/{path}.ko"] = Entry(data)
    order = "".join(f"kernel/{path}.ko\n" for path, *_ in _MODULES)
    files[f"/lib/modules/{release}/modules.order"] = Entry(order.encode())
    builtin = b"kernel/drivers/nvme/host/nvme.ko\nkernel/fs/xfs/xfs.ko\nkernel/fs/ext4/ext4.ko\n"
    files[f"/lib/modules/{release}/modules.builtin"] = Entry(builtin)
    files[f"/lib/modules/{release}/modules.builtin.modinfo"] = Entry()
    return files


def _hooks(kind: str, release: str) -> str:
    return (
        f"if [ -d /etc/kernel/{kind} ]; then\n"
        f"    run-parts --exit-on-error --arg={release} --arg=/boot/vmlinuz-{release} "
        f"/etc/kernel/{kind}\nfi\n"
    )


def _image(release: str, sign: Sign) -> Deb:
    boot = {
        f"/boot/vmlinuz-{release}": Entry(f"stand-in kernel {release}\n".encode()),
        f"/boot/config-{release}": Entry(_CONFIG),
        f"/boot/System.map-{release}": Entry(b"ffffffff81000000 T _text\n"),
    }
    post = f"#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\ndepmod {release}\n"  # fmt: skip
    gone = f"#!/bin/sh\nset -e\nrm -f /lib/modules/{release}/modules.* /boot/initrd.img-{release}\n"
    return Deb(
        package_name("image", release), package_version(release), f"Linux {release} for the lab",
        {"Depends": "kmod, initramfs-tools", "Provides": "linux-image"},
        {**boot, **_modules(release, sign)},
        {"postinst": post + _hooks("postinst.d", release),
         "postrm": gone + _hooks("postrm.d", release)},
        section="kernel",
    )  # fmt: skip


def _headers(release: str) -> Deb:
    source = f"/usr/src/linux-headers-{release}"
    files = {
        f"{source}/Makefile": Entry(b"# stand-in of the lab\n"),
        f"{source}/.config": Entry(_CONFIG),
        f"{source}/include/generated/utsrelease.h": Entry(
            f'#define UTS_RELEASE "{release}"\n'.encode()
        ),
        f"{source}/scripts/sign-file": Entry(
            b'#!/bin/sh\nexec /usr/lib/lab/vendor sign-file "$@"\n', 0o755
        ),
        f"/lib/modules/{release}/build": Entry(link=source),
        f"/lib/modules/{release}/source": Entry(link=source),
    }
    post = "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n"  # fmt: skip
    return Deb(
        package_name("headers", release), package_version(release),
        f"Header files for Linux {release}", {"Provides": "linux-headers"}, files,
        {"postinst": post + _hooks("header_postinst.d", release)}, section="kernel",
    )  # fmt: skip


def kernels(release: str, sign: Sign) -> Iterator[Deb]:
    """Images, headers and the meta packages of the running kernel and of the next one."""
    for one in (release, next_release(release)):
        yield _image(one, sign)
        yield _headers(one)
        for kind in ("image", "headers"):
            version = package_version(one)
            depends = {"Depends": f"{package_name(kind, one)} (= {version})"}
            note = {f"/usr/share/doc/linux-{kind}-amd64/README": Entry(b"Stand-in of the lab.\n")}
            yield Deb(
                f"linux-{kind}-amd64", version, f"Linux {kind} for 64-bit PCs (meta-package)",
                depends, note, section="kernel",
            )  # fmt: skip


def initramfs_tools() -> Deb:
    """update-initramfs, mkinitramfs and lsinitramfs, and the hook of Debian's kernels."""

    def launcher(tool: str) -> Entry:
        return Entry(f'#!/bin/sh\nexec /usr/lib/lab/vendor {tool} "$@"\n'.encode(), 0o755)

    make = b'#!/bin/sh\nset -e\nupdate-initramfs -c -k "$1"\n'
    drop = b'#!/bin/sh\nset -e\nupdate-initramfs -d -k "$1"\n'
    return Deb(
        "initramfs-tools", "0.142+deb12u3", "generic modular initramfs generator (automation)",
        {"Depends": "python3", "Provides": "linux-initramfs-tool"},
        {
            "/usr/sbin/update-initramfs": launcher("update-initramfs"),
            "/usr/sbin/mkinitramfs": launcher("mkinitramfs"),
            "/usr/bin/lsinitramfs": launcher("lsinitramfs"),
            "/etc/kernel/postinst.d/initramfs-tools": Entry(make, 0o755),
            "/etc/kernel/postrm.d/initramfs-tools": Entry(drop, 0o755),
        },
        arch="all", section="utils",
    )  # fmt: skip


def repack_dkms(real: Path) -> tuple[str, str, bytes]:
    """Debian's own dkms with fewer dependencies: no compiler, the lab builds its modules itself.

    Name of the file, control text and package, as `deb.write_repository` takes them.
    """
    parts = members(real.read_bytes())
    name = next(name for name in parts if name.startswith("control.tar"))
    raw = lzma.decompress(parts[name]) if name.endswith(".xz") else parts[name]
    control: dict[str, Entry] = {}
    with tarfile.open(fileobj=BytesIO(raw)) as tar:
        for item in tar:
            file = tar.extractfile(item) if item.isfile() else None
            if file is not None:
                control["/" + item.name.removeprefix("./")] = Entry(file.read(), item.mode & 0o777)
    text = control["/control"].data.decode()
    text = re.sub(r"(?m)^(?:Pre-Depends|Recommends|Suggests|Breaks): .*\n", "", text)
    text = re.sub(r"(?m)^Depends: .*$", "Depends: kmod, openssl", text)
    control["/control"] = Entry(text.encode())
    data = next(name for name in parts if name.startswith("data.tar"))
    version = re.search(r"(?m)^Version: (\S+)$", text)
    if not text.startswith("Package: dkms\n") or version is None:
        raise ValueError(f"{real} is not the package dkms")
    package = assemble(control, parts[data], data.removeprefix("data.tar"))
    return f"dkms_{version[1]}_all.deb", text, package
