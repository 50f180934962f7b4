"""The second image: a node as its vendor delivers it, with DGX OS and all of its packages.

Below it is the same Debian 12; what makes it a DGX of Ubuntu 24.04 is what is told: os-release,
/etc/dgx-release, the names of packages and where they come from.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from lab.engine import Engine
from lab.image import Progress, build_image
from lab.mirror import DEBIAN
from lab.places import CACHE, REPOSITORY
from lab.vendor import dgx_packages

REPOSITORY_OF_DGX = REPOSITORY / "apt" / dgx_packages.PATH
#: What the vendor delivers of Ubuntu, as far as somebody asks for it.
_TOOLS = ("chrony", "curl", "ethtool", "jq", "lsof", "mdadm", "mokutil", "numactl", "nvme-cli",
          "pciutils", "psmisc", "xfsprogs")  # fmt: skip
_KEY = "/usr/share/keyrings/dgx.asc"
_OS_RELEASE = """\
PRETTY_NAME="Ubuntu 24.04.2 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.2 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
"""
_DGX_RELEASE = """\
DGX_NAME="DGX Server"
DGX_PRETTY_NAME="NVIDIA DGX Server"
DGX_SWBUILD_VERSION="7.0.0"
"""
#: What DGX OS does not bring and the base phase asks for: on a DGX the site sets it.
_SITE = "fs.inotify.max_user_instances = 8192\n"

_STEPS = f"""COPY root/ /
RUN --mount=type=bind,source=apt,target=/mnt printf '%s\\n' 'exit 101' >/usr/sbin/policy-rc.d \\
 && chmod 755 /usr/sbin/policy-rc.d \\
 && for at in debian dgx; do echo "deb [trusted=yes] file:/mnt/$at ./"; done >/etc/apt/lab.list \\
 && export DEBIAN_FRONTEND=noninteractive APT_CONFIG=/etc/apt/lab.conf \\
 && printf '%s\\n' 'Dir::Etc::sourcelist "/etc/apt/lab.list";' \\
    'APT::Install-Recommends "false";' 'Dpkg::Options:: "--force-confold";' \\
    'APT::Sandbox::User "root";' >/etc/apt/lab.conf \\
 && apt-get -qq update && apt-get -qq -y -o Dpkg::Use-Pty=0 install {" ".join(_TOOLS)} \\
 && apt-get -qq -y -o Dpkg::Use-Pty=0 install linux-nvidia dkms \\
 && apt-get -qq -y -o Dpkg::Use-Pty=0 install {" ".join(dgx_packages.INSTALLED)} \\
 && rm -rf /usr/sbin/policy-rc.d /etc/apt/lab.* /var/lib/apt/lists/* /var/cache/apt/*.bin
"""


def build_dgx_image(engine: Engine, progress: Progress) -> str:
    """The image of a delivered DGX; returns its tag. Builds the plain node's image too."""
    base = build_image(engine, progress)
    key = (REPOSITORY / "keys" / "fabric.asc").read_bytes()
    digest = hashlib.sha256(base.encode() + _STEPS.encode() + key)
    for text in (*_root().values(), (REPOSITORY_OF_DGX / "Packages").read_text()):
        digest.update(text.encode())
    tag = f"localhost/fabric-lab-dgx:{digest.hexdigest()[:12]}"
    if engine.has_image(tag):
        return tag
    progress("image: DGX OS with its packages")
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        for place, text in _root().items():
            _write(folder / "root" / place, text.encode())
        _write(folder / "root" / _KEY.lstrip("/"), key)
        shutil.copytree(DEBIAN, folder / "apt" / "debian")
        shutil.copytree(REPOSITORY_OF_DGX, folder / "apt" / "dgx")
        (folder / "Containerfile").write_text(f"FROM {base}\n{_steps(engine)}")
        engine(
            "build", "--network", "none", *engine.options, "-t", tag,
            "-f", folder / "Containerfile", folder, timeout_s=300,
        )  # fmt: skip
    return tag


def _steps(engine: Engine) -> str:
    """Docker mounts at a build only with a component of its own (buildx), so there it is copied."""
    if engine.name == "podman":
        return _STEPS
    mounted = "RUN --mount=type=bind,source=apt,target=/mnt "
    return _STEPS.replace(mounted, "COPY apt/ /mnt/\nRUN ").replace("rm -rf ", "rm -rf /mnt/* ")


def _root() -> dict[str, str]:
    """Files of the image, by their place below the root."""
    return {
        "usr/lib/os-release": _OS_RELEASE,
        "etc/dgx-release": _DGX_RELEASE,
        "etc/sysctl.d/60-site.conf": _SITE,
    }


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(0o644)


def sources(mirror: str) -> str:
    """The package sources of a delivered DGX; ``mirror`` is the address of the lab's mirror."""
    stanzas = (
        f"Types: deb\nURIs: http://{mirror}/apt/{place}\nSuites: ./\nSigned-By: {_KEY}\n"
        for place in ("debian", dgx_packages.PATH)
    )
    return "\n".join(stanzas)
