"""The lab's stand-in repository and what stands for the kernel: without a container."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from fabric_tools.parsers.fabricmanager_log import parse_fabricmanager_log
from fabric_tools.parsers.kernel_log import parse_kernel_log
from fabric_tools.parsers.kernel_modules import parse_kernel_modules
from fabric_tools.parsers.nvidia_module import parse_loaded_module
from lab.vendor import (
    BuildError,
    Repository,
    build_repository,
    dgx_packages,
    files,
    kernel_packages,
)
from lab.vendor.deb import Deb, Entry, build, members
from lab.vendor.driver_packages import RELEASES, Release
from lab.vendor.node import (
    daemons,
    driver,
    initramfs,
    kernel,
    kmod,
    ko,
    main,
    paths,
    signing,
    trust,
)

RELEASE = "6.1.0-50-amd64"
VERSION = "580.173.02"


@pytest.fixture(scope="module")
def dkms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with the name of Debian's; the real one is downloaded where a mirror is built."""
    relations = {"Pre-Depends": "lsb-release", "Depends": "kmod, gcc | c-compiler, make"}
    deb = Deb("dkms", "3.0.10-8+deb12u1", "dkms", relations, {"/usr/sbin/dkms": Entry(b"#!\n")})
    path = tmp_path_factory.mktemp("dkms") / deb.filename
    path.write_bytes(build(deb))
    return path


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory, dkms: Path) -> Repository:
    folder = tmp_path_factory.mktemp("mirror") / "www"
    return build_repository(folder, kernel=RELEASE, doubles=folder, dkms=dkms)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty root with eight GPUs and four switches; the kernel is RELEASE."""
    monkeypatch.setattr(daemons, "_daemon", lambda *_: pytest.fail("a daemon was started"))
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "release", lambda: RELEASE)
    for folder in ("run/lab", "proc/driver", "sys/module", "dev", "var/log"):
        (tmp_path / folder).mkdir(parents=True)
    hardware(tmp_path)
    paths.say(f"Linux version {RELEASE}", 5)
    return tmp_path


def hardware(root: Path, **changed: object) -> None:
    gpus = [{"index": n, "bus_id": f"00000000:{n + 16:02X}:00.0"} for n in range(8)]
    switches = [{"bus_id": f"0000:0{n}:00.0"} for n in range(5, 9)]
    described = {"gpus": gpus, "nvswitches": switches, "secure_boot": False, "mok_enrolled": []}
    (root / "run/lab/node.json").write_text(json.dumps({**described, **changed}))


def module(root: Path, name: str = "nvidia", version: str = VERSION, **more: str) -> Path:
    part = next(part for part in driver.PARTS if part.name == name)
    data = driver.module(part, version, more.get("flavour", "open"), more.get("kernel", RELEASE))
    path = root / f"lib/modules/{RELEASE}/updates/dkms/{name}.ko"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def stanzas(folder: Path) -> list[dict[str, str]]:
    text = (folder / "Packages").read_text()
    return [dict(re.findall(r"(?m)^([\w-]+): (.*)$", part)) for part in text.split("\n\n")]


def gpgv(repository: Repository, folder: Path, tmp_path: Path) -> int:
    ring = tmp_path / "ring.gpg"
    ring.unlink(missing_ok=True)
    command = ["gpg", "--dearmor", "-o", str(ring), str(repository.key)]
    subprocess.run(command, check=True, capture_output=True)
    check = ["gpgv", "--keyring", str(ring), str(folder / "InRelease")]
    return subprocess.run(check, capture_output=True, check=False).returncode


def newer(one: str, other: str) -> bool:
    command = ["dpkg", "--compare-versions", one, "gt", other]
    return subprocess.run(command, check=False).returncode == 0


# The repository


def test_lists_agree_with_what_lies_there(mirror: Repository) -> None:
    for folder in (mirror.nvidia, mirror.nvidia_later, mirror.dgx, mirror.debian_kernel):
        found = stanzas(folder)
        assert {item["Filename"] for item in found} == {f"./{p.name}" for p in folder.glob("*.deb")}
        for item in found:
            data = (folder / item["Filename"]).read_bytes()
            assert item["SHA256"] == hashlib.sha256(data).hexdigest()
            assert int(item["Size"]) == len(data)
        release = (folder / "Release").read_text()
        for name in ("Packages", "Packages.gz"):
            data = (folder / name).read_bytes()
            assert f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" in release


def test_signed_by_the_key_that_is_served(mirror: Repository, tmp_path: Path) -> None:
    assert re.fullmatch(r"[0-9A-F]{40}", mirror.fingerprint)
    assert gpgv(mirror, mirror.nvidia, tmp_path) == 0
    mirror.sign(stranger=True)
    assert gpgv(mirror, mirror.nvidia, tmp_path) != 0
    mirror.sign()
    assert gpgv(mirror, mirror.debian_kernel, tmp_path) == 0
    assert gpgv(mirror, mirror.dgx, tmp_path) == 0


def test_no_secret_is_served(mirror: Repository) -> None:
    for path in (path for path in mirror.folder.rglob("*") if path.is_file()):
        assert b"PRIVATE KEY" not in path.read_bytes(), path
    assert (mirror.private / "site.asc").stat().st_mode & 0o077 == 0
    assert mirror.private.stat().st_mode & 0o077 == 0


def test_built_once_and_the_same_again(mirror: Repository, dkms: Path) -> None:
    before = {path: path.read_bytes() for path in mirror.folder.rglob("*.deb")}
    stamp = (mirror.nvidia / "Release").stat().st_mtime_ns
    build_repository(mirror.folder, kernel=RELEASE, doubles=mirror.folder, dkms=dkms)
    assert (mirror.nvidia / "Release").stat().st_mtime_ns == stamp
    (mirror.folder / ".inputs").write_text("other")
    build_repository(mirror.folder, kernel=RELEASE, doubles=mirror.folder, dkms=dkms)
    assert (mirror.nvidia / "Release").stat().st_mtime_ns != stamp
    assert {path: path.read_bytes() for path in mirror.folder.rglob("*.deb")} == before


def test_dpkg_reads_every_package(mirror: Repository) -> None:
    debs = [*mirror.nvidia.glob("*580.173.02*.deb"), *mirror.debian_kernel.glob("*.deb")]
    for path in debs:
        command = ["dpkg-deb", "--field", str(path), "Package", "Version"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        name, version = re.findall(r": (\S+)", said)
        assert path.name.startswith(f"{name}_{version}_")
        subprocess.run(["dpkg-deb", "--contents", str(path)], check=True, capture_output=True)


def test_a_host_without_apt_is_told_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "gpg").symlink_to("/usr/bin/gpg")
    (tmp_path / "gpgconf").symlink_to("/usr/bin/gpgconf")
    with pytest.raises(BuildError, match="--dkms FILE"):
        build_repository(tmp_path / "www", kernel=RELEASE)


# Names and version rules


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("570.86.15", {"nvidia-open-570", "cuda-drivers-570", "nvidia-fabricmanager-570",
                       "libnvidia-nscq-570", "nvlink5-570", "libnvsdm-570", "nvidia-imex-570",
                       "cuda-drivers-fabricmanager-570", "libnvidia-compute-570"}),
        (VERSION, {"nvidia-open-580", "cuda-drivers-580", "nvidia-fabricmanager",
                   "libnvidia-nscq", "nvlink5-580", "nvidia-imex", "libnvidia-compute-580",
                   "nvidia-dkms-580-open", "nvidia-persistenced",
                   "nvidia-driver-pinning-580.173.02", "nvidia-driver-pinning-580"}),
        ("595.91.07", {"nvidia-open", "cuda-drivers", "nvidia-fabricmanager", "nvlink5",
                       "nvidia-dkms-open", "nvidia-dkms", "libnvidia-compute"}),
        ("620.70.06", {"nvidia-open", "nvidia-fabricmanager", "nvidia-dkms-open"}),
    ],
)  # fmt: skip
def test_names_of_each_branch(mirror: Repository, version: str, names: set[str]) -> None:
    found = {
        item["Package"] for item in stanzas(mirror.nvidia) if item["Version"] == f"{version}-1"
    }
    assert names <= found
    if version == "570.86.15":
        assert not any("pinning-570.86.15" in name for name in found)
    if version == "620.70.06":
        assert not {"cuda-drivers", "nvidia-dkms", "nvidia-driver"} & found
    if version == VERSION:
        assert not {"nvidia-fabricmanager-580", "libnvidia-nscq-580"} & found


def test_the_driver_is_one_version_and_the_fabric_manager_is_free(mirror: Repository) -> None:
    found = {(item["Package"], item["Version"]): item for item in stanzas(mirror.nvidia)}
    for release in RELEASES:
        for name in ("nvidia-driver", "nvidia-dkms"):
            depends = found[release.kind(name, "open"), release.full]["Depends"]
            own = [part for part in depends.split(", ") if part != "dkms"]
            assert own and all(part.endswith(f"(= {release.full})") for part in own), depends
        manager = found[release.fabric("nvidia-fabricmanager"), release.full]
        assert manager["Depends"] == "python3"
    nvlink5 = found["nvlink5-580", f"{VERSION}-1"]["Depends"]
    assert "nvlsm (>= 2025.10.12)" in nvlink5
    assert f"nvidia-fabricmanager (= {VERSION}-1)" in nvlink5


def test_dgx_os_has_one_driver_and_one_kernel_and_nothing_of_elsewhere(mirror: Repository) -> None:
    found = stanzas(mirror.dgx)
    names = [item["Package"] for item in found]
    assert len(names) == len(set(names)) and {*dgx_packages.INSTALLED, "dkms"} <= set(names)
    assert not [name for name in names if "pinning" in name or name.startswith("nvidia-open")]
    for item in found:
        wanted = {word.split(" (")[0] for word in item.get("Depends", "").split(", ")}
        assert wanted - {"", "python3", "kmod", "openssl"} <= set(names), item["Package"]
    cuda = mirror.folder / "apt" / "cuda"
    assert cuda.resolve() == mirror.nvidia and "/baseos/" in str(mirror.dgx)


def test_pins(mirror: Repository) -> None:
    for name, pin in (("580.173.02", "580.173.02-*"), ("580", "580.*")):
        deb = mirror.nvidia / f"nvidia-driver-pinning-{name}_580.173.02-1_all.deb"
        command = ["dpkg-deb", "--fsys-tarfile", str(deb)]
        tar = subprocess.run(command, check=True, capture_output=True).stdout
        assert f"Pin: version {pin}\nPin-Priority: 1000\n".encode() in tar


def test_versions_are_in_the_order_of_their_names(mirror: Repository) -> None:
    versions = [release.full for release in RELEASES]
    assert all(newer(after, before) for before, after in pairwise(versions))
    (later,) = {item["Version"] for item in stanzas(mirror.nvidia_later)}
    assert newer(later, Release(VERSION).full) and later.startswith(f"{VERSION}-")


@pytest.mark.parametrize(
    ("release", "following"),
    [
        (RELEASE, "6.1.0-51-amd64"),
        ("6.8.0-138-generic", "6.8.0-139-generic"),
        ("6.18.44-cloud-v12", "6.18.45-cloud-v12"),
        ("5.15.0", "5.15.1"),
    ],
)
def test_the_next_kernel_is_newer(release: str, following: str) -> None:
    assert kernel_packages.next_release(release) == following
    one, other = map(kernel_packages.package_version, (following, release))
    assert newer(one, other)


def test_no_kernel_release_is_refused(tmp_path: Path, dkms: Path) -> None:
    with pytest.raises(BuildError, match="not a kernel release: 'odd'"):
        build_repository(tmp_path / "www", kernel="odd", dkms=dkms)


def test_dkms_comes_without_a_compiler(mirror: Repository) -> None:
    (found,) = [item for item in stanzas(mirror.debian_kernel) if item["Package"] == "dkms"]
    assert found["Depends"] == "kmod, openssl"
    assert "Pre-Depends" not in found
    parts = members((mirror.debian_kernel / found["Filename"]).read_bytes())
    assert list(parts) == ["debian-binary", "control.tar.gz", "data.tar.gz"]


# Module files


def test_a_module_says_what_it_is() -> None:
    data = driver.module(driver.PARTS[0], VERSION, "open", RELEASE)
    info = ko.info(data)
    assert info["version"] == [VERSION]
    assert info["license"] == ["Dual MIT/GPL"]
    assert info["vermagic"] == [f"{RELEASE} SMP preempt mod_unload modversions "]
    assert ko.signature(data) is None
    with pytest.raises(ValueError, match="not an ELF64 file"):
        ko.info(b"\x7fELF")


def test_a_signature_names_its_key(tmp_path: Path) -> None:
    key, certificate = tmp_path / "mok.key", tmp_path / "mok.pub"
    command = ["openssl", "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj",
               "/CN=Site key/", "-keyout", str(key), "-outform", "DER",
               "-out", str(certificate)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    path = tmp_path / "nvidia.ko"
    plain = driver.module(driver.PARTS[0], VERSION, "open", RELEASE)
    path.write_bytes(plain)
    assert signing.sign_file(["sha512", str(key), str(certificate), str(path)]) == 0
    signed = path.read_bytes()
    assert signed.endswith(b"~Module signature appended~\n")
    found = ko.signature(signed)
    assert found is not None and found.signer == "Site key"
    assert found.serial in certificate.read_bytes()
    assert ko.info(signed) == ko.info(plain)
    assert ko.unsigned(signed) == plain
    signing.sign_file(["sha512", str(key), str(certificate), str(path)])
    assert len(path.read_bytes()) == len(signed)  # signed again, not twice
    with pytest.raises(ValueError, match="not a PKCS#7"):
        ko.signature(b"x" * 12 + ko.MAGIC)


# Loading and unloading


def test_loading_leaves_what_the_product_reads(node: Path) -> None:
    kernel.load(module(node))
    version = parse_loaded_module((node / "proc/driver/nvidia/version").read_text())
    assert (version.version, version.flavour) == (VERSION, "open")
    table = parse_kernel_modules((node / "run/lab/proc_modules").read_text())
    assert list(table.lines) == ["nvidia"]
    assert (node / "sys/module/nvidia/version").read_text() == f"{VERSION}\n"
    assert len(list((node / "dev").glob("nvidia[0-9]"))) == 8
    said = (node / "run/lab/kmsg").read_text().splitlines()
    log = parse_kernel_log(
        "".join(f"[{line.split()[0]}] {line.split(' ', 2)[2]}\n" for line in said)
    )
    assert log.driver_loading and log.kernel == RELEASE
    assert not log.xids and not log.notes
    kernel.unload("nvidia")
    assert not (node / "proc/driver/nvidia").exists()
    assert not list((node / "dev").glob("nvidia*"))
    assert (node / "run/lab/proc_modules").read_text() == ""


def test_the_proprietary_module_says_so(node: Path) -> None:
    kernel.load(module(node, flavour="proprietary"))
    version = parse_loaded_module((node / "proc/driver/nvidia/version").read_text())
    assert version.flavour == "proprietary"
    assert "(POE)" in (node / "run/lab/proc_modules").read_text()


def refused(file: Path) -> str:
    with pytest.raises(trust.Refused) as caught:
        kernel.load(file)
    return str(caught.value)


def test_refusals(node: Path) -> None:
    assert refused(module(node, kernel="6.1.0-51-amd64")) == "Exec format error"
    hardware(node, secure_boot=True)
    assert refused(module(node)) == "Key was rejected by service"
    assert "Loading of unsigned module is rejected" in (node / "run/lab/kmsg").read_text()
    hardware(node, gpus=[{"index": 0, "bus_id": "00000000:10:00.0", "present": False}])
    assert refused(module(node)) == "No such device"
    hardware(node)
    kernel.load(module(node))
    assert refused(module(node)) == "File exists"


def test_nouveau_keeps_the_driver_out(node: Path) -> None:
    info = (("license", "GPL"), ("intree", "Y"), ("name", "nouveau"),
            ("vermagic", ko.vermagic(RELEASE)))  # fmt: skip
    file = node / "nouveau.ko"
    file.write_bytes(ko.build(ko.Module("nouveau", info)))
    kernel.load(file)
    assert refused(module(node)) == "No such device"
    assert "already bound to nouveau" in (node / "run/lab/kmsg").read_text()


def test_nouveau_beside_the_driver_gets_no_device(node: Path) -> None:
    kernel.load(module(node))
    info = (("license", "GPL"), ("intree", "Y"), ("name", "nouveau"),
            ("vermagic", ko.vermagic(RELEASE)))  # fmt: skip
    file = node / "nouveau.ko"
    file.write_bytes(ko.build(ko.Module("nouveau", info)))
    kernel.load(file)
    assert "nouveau" in kernel.modules()
    assert "nouveau 0000:" not in (node / "run/lab/kmsg").read_text()


def test_secure_boot_asks_for_an_enrolled_key(node: Path) -> None:
    der = b"...serial:\x01\x02\x03..."
    (node / "var/lib/dkms").mkdir(parents=True)
    (node / "var/lib/dkms/mok.pub").write_bytes(der)
    mine = ko.Signature("DKMS module signing key", b"\x01\x02\x03")
    fingerprint = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    colons = ":".join(re.findall("..", fingerprint))
    for enrolled, signature, good in (
        ([], mine, False),
        (["DKMS module signing key"], mine, True),
        ([colons], mine, True),
        ([fingerprint.lower()], mine, True),
        ([fingerprint], mine._replace(serial=b"\x09"), False),  # another key of the same name
        (["DKMS module signing key"], None, False),
        ([], ko.Signature(trust.KERNEL_SIGNER, b"\x07"), True),
    ):
        hardware(node, secure_boot=True, mok_enrolled=enrolled)
        if good:
            trust.judge("nvidia", signature, {"license": ["GPL"]})
        else:
            with pytest.raises(trust.Refused, match="Key was rejected by service"):
                trust.judge("nvidia", signature, {"license": ["GPL"]})


def test_a_module_in_use_stays(node: Path) -> None:
    kernel.load(module(node))
    dep = node / f"lib/modules/{RELEASE}/modules.dep"
    dep.write_text("updates/dkms/nvidia-uvm.ko: updates/dkms/nvidia.ko\nupdates/dkms/nvidia.ko:\n")
    kernel.load(module(node, "nvidia-uvm"))
    assert " 1 nvidia_uvm, Live" in (node / "run/lab/proc_modules").read_text()
    with pytest.raises(trust.Refused, match="in use by: nvidia_uvm"):
        kernel.unload("nvidia")
    kernel.unload("nvidia_uvm")
    kernel.unload("nvidia")
    with pytest.raises(trust.Refused, match="not currently loaded"):
        kernel.unload("nvidia")


def test_an_open_device_keeps_the_module(node: Path) -> None:
    kernel.load(module(node))
    handle = node / "proc/4242/fd/3"
    handle.parent.mkdir(parents=True)
    handle.symlink_to("/dev/nvidia3")
    kernel.refresh()
    assert (node / "sys/module/nvidia/refcnt").read_text() == "1\n"
    with pytest.raises(trust.Refused, match="is in use$"):
        kernel.unload("nvidia")
    handle.unlink()
    handle.symlink_to("/dev/null")
    kernel.unload("nvidia")


def test_modprobe_refuses_what_it_does_not_know(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kmod.modprobe(["-S", "6.1.0", "nvidia"]) == 1
    assert "unknown option -S" in capsys.readouterr().err
    assert kmod.modprobe(["--force", "nvidia"]) == 1
    assert kmod.modprobe([]) == 1
    assert not kernel.modules()


def test_lsmod_shows_the_table(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.load(module(node))
    assert kmod.lsmod([]) == 0
    assert list(parse_kernel_modules(capsys.readouterr().out).lines) == ["nvidia"]


# The fabric manager


def test_a_fabric_manager_of_another_patch_does_not_start(node: Path) -> None:
    kernel.load(module(node))
    assert daemons.why_not(VERSION) is None
    assert daemons.fabric_manager(["580.126.09"]) == 1
    log = parse_fabricmanager_log((node / "var/log/fabricmanager.log").read_text())
    (event,) = log.events
    assert event.kind == "version_mismatch" and log.state == "failed"
    assert (event.fm_version, event.driver_version) == ("580.126.09", VERSION)
    assert not (node / "run/lab/fabric.json").exists()


@pytest.mark.parametrize("cause", ["no module", "no switch"])
def test_a_fabric_manager_with_nothing_to_do(node: Path, cause: str) -> None:
    if cause == "no switch":
        kernel.load(module(node))
        hardware(node, nvswitches=[])
    reason = daemons.why_not(VERSION)
    assert reason is not None and "NV_WARN_NOTHING_TO_DO" in reason


def test_unloading_the_driver_forgets_the_fabric(node: Path) -> None:
    kernel.load(module(node))
    (node / "run/lab/fabric.json").write_text("{}")
    kernel.unload("nvidia")
    assert not (node / "run/lab/fabric.json").exists()


# The initramfs


@pytest.mark.parametrize(
    ("config", "inside"),
    [
        (None, True),
        ("# blacklist nouveau\n", True),
        ("blacklist nouveau_not\n", True),
        ("options x y=1\nblacklist nouveau\n", False),
        ("install nouveau /bin/false\n", False),
    ],
)
def test_nouveau_in_the_initramfs(node: Path, config: str | None, inside: bool) -> None:
    tree = node / f"lib/modules/{RELEASE}/kernel/drivers/gpu/drm/nouveau"
    tree.mkdir(parents=True)
    (tree / "nouveau.ko").write_bytes(b"x")
    (node / "boot").mkdir()
    (node / "etc/modprobe.d").mkdir(parents=True)
    file = node / "etc/modprobe.d/site.conf"
    if config is not None:
        file.write_text(config)
    assert initramfs.update(["-c", "-k", RELEASE]) == 0
    image = node / f"boot/initrd.img-{RELEASE}"
    names = [name for name, _ in initramfs.entries(image)]
    assert any(name.endswith("/nouveau.ko") for name in names) is inside
    assert initramfs.loads(image, "nouveau") is inside
    # It stays as it was built until it is built again.
    file.write_text("blacklist nouveau\n")
    assert initramfs.loads(image, "nouveau") is inside
    initramfs.update(["-u"])
    assert not initramfs.loads(image, "nouveau")


# What goes into the image


def test_the_tables_name_what_is_there() -> None:
    assert all(item.source.is_file() for item in files.FILES)
    assert len({item.target for item in files.FILES}) == len(files.FILES)
    assert {item.tool for item in files.DIVERSIONS} <= set(main.TOOLS)
    assert files.AT_BOOT[1] in main.TOOLS
    modules = {path.name for path in files.NODE.glob("*.py")}
    assert modules == {Path(item.target).name for item in files.FILES if item.mode == 0o644}


def test_what_packages_call_is_a_tool(mirror: Repository) -> None:
    called = set()
    for folder in (mirror.nvidia, mirror.debian_kernel):
        for deb in folder.glob("*.deb"):
            command = ["dpkg-deb", "--fsys-tarfile", str(deb)]
            tar = subprocess.run(command, check=True, capture_output=True).stdout
            called |= set(re.findall(rb'/usr/lib/lab/vendor ([\w-]+)|main\(\["([\w-]+)"', tar))
    tools = {(one or other).decode() for one, other in called}
    assert {"fabricmanager", "persistenced", "build-modules", "update-initramfs"} <= tools
    assert tools <= set(main.TOOLS)
