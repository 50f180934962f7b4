"""The stacks and their matrix: what is refused, and which packages follow on which system."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fabric_tools import stacks
from fabric_tools.cli.main import app
from fabric_tools.detect import choose_platform
from fabric_tools.errors import FabricToolsError, UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.package_set import PackageSet
from fabric_tools.models.stack import Matrix, Problem, StackLock
from fabric_tools.parsers.reader import Facts
from fabric_tools.report.stacks import differences, list_stacks
from fabric_tools.stacks import DEFAULT_STACK, load_matrix, load_stacks, stack_file
from fabric_tools.stacks.packages import package_set
from fabric_tools.stacks.problems import lives, problems, refused
from fabric_tools.transport.files import read_snapshot
from fabric_tools.yaml_file import load_model
from tests.cases_runner import HEALTHY, MORE, PLATFORMS

STACKS = load_stacks()
MATRIX = load_matrix()
TODAY = date(2026, 11, 30)
EVERY = pytest.mark.parametrize("name", STACKS)


def changed(name: str = DEFAULT_STACK, **driver: object) -> StackLock:
    """A shipped lock with another driver, as a site would write it: judged anew by the model."""
    data = STACKS[name].model_dump()
    data["driver"] |= driver
    data["fabric_manager"]["version"] = data["driver"]["version"]
    data["driver"]["branch"] = int(data["driver"]["version"].split(".")[0])
    return StackLock.model_validate(data)


def judged(
    lock: StackLock,
    platform: str | None = "hgx-h100",
    system: str = "ubuntu 24.04",
    kernel: str = "6.8.0-90-generic",
    as_of: date = TODAY,
    allow_eol: str = "",
    matrix: Matrix = MATRIX,
) -> tuple[Problem, ...]:
    os_id, _, os_version = system.partition(" ")
    return problems(
        lock,
        matrix,
        platform=PLATFORMS[platform] if platform else None,
        os_id=os_id,
        os_version=os_version,
        kernel=kernel,
        as_of=as_of,
        allow_eol=allow_eol,
    )


def errors(found: tuple[Problem, ...]) -> list[str]:
    return [item.what for item in found if item.severity == "error"]


def warnings(found: tuple[Problem, ...]) -> list[str]:
    return [item.what for item in found if item.severity == "warning"]


# The files


def test_the_shipped_stacks() -> None:
    assert set(STACKS) == {"r580-k3s136", "r595", "r620", "reference-001"}
    assert DEFAULT_STACK in STACKS


def test_every_file_reads_by_the_strict_reader() -> None:
    """The quick one lets duplicate keys through."""
    folder = Path(stacks.__file__).parent
    paths = sorted((folder / "profiles").glob("*.yaml"))
    assert len(paths) == len(STACKS)
    for path in paths:
        assert load_model(path, StackLock) == STACKS[path.stem]
    assert load_model(folder / "matrix.yaml", Matrix) == MATRIX


@EVERY
def test_every_version_is_known_good_or_called_unverified(name: str) -> None:
    driver = STACKS[name].driver
    branch = MATRIX.branch(driver.branch)
    assert branch is not None
    assert (driver.version in branch.known_good) == driver.confirmed


@EVERY
def test_every_part_says_where_it_is_from(name: str) -> None:
    lock = STACKS[name]
    assert lock.driver.evidence
    for part in lock.components.values():
        assert part.source
        assert part.version is None or part.version not in ("", "latest")


def test_the_matrix_dates() -> None:
    lives = [*MATRIX.branches, *MATRIX.kubernetes, *MATRIX.containerd, *MATRIX.kernels]
    for row in lives:
        assert row.source
        if row.eol is None:
            assert row.ended, "without a day it must at least be known to be over"
        else:
            assert type(row.eol) is date and date(2020, 1, 1) < row.eol < date(2035, 1, 1)
            assert not row.ended
    for bad in MATRIX.blocked:
        assert bad.reason and bad.source and type(bad.checked) is date
    assert MATRIX.checked == TODAY


def test_a_known_good_version_is_of_its_branch() -> None:
    for row in MATRIX.branches:
        assert all(version.startswith(f"{row.number}.") for version in row.known_good)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('branch: 580', 'branch: 595', "is not of branch 595"),
        ('fabric_manager: {version: "580.173.02"', 'fabric_manager: {version: "580.173.01"',
         "to the last digit"),
        ('version: "v1.36.5+k3s1"', 'version: "latest"', "no version such as"),
        ("module: open", "module: opne", "driver.module"),
        ("nvlsm:", "nvslm:", "nvlsm"),
        ('version: "580.173.02", branch', 'version: "580.173.02-1ubuntu1", branch', "driver"),
    ],
    ids=["branch", "manager", "k3s", "kind", "key", "revision"],
)  # fmt: skip
def test_a_wrong_lock_is_one_clear_line(tmp_path: Path, old: str, new: str, word: str) -> None:
    text = stack_file(DEFAULT_STACK)
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("id: r580-k3s136", "id: mine").replace(old, new))
    with pytest.raises(UsageError, match="mine.yaml") as raised:
        load_stacks(tmp_path)
    assert word in str(raised.value) and "\n" not in str(raised.value)


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(stack_file("r595").replace("id: r595", "id: mine"))
    assert set(load_stacks(tmp_path)) == {*STACKS, "mine"}
    (tmp_path / "mine.yaml").write_text(stack_file("r595"))
    with pytest.raises(UsageError, match="defined twice"):
        load_stacks(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        load_stacks(tmp_path / "none")


def test_a_matrix_with_two_rows_for_one_thing_is_refused() -> None:
    data = MATRIX.model_dump()
    data["naming"] = [*data["naming"], data["naming"][0]]
    with pytest.raises(ValidationError, match="stands twice"):
        Matrix.model_validate(data)


# What is refused


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if name != "dgx-v100"])
def test_the_default_is_accepted_wherever_the_open_module_runs(platform: str) -> None:
    for system, kernel in (("ubuntu 24.04", "6.8.0-90-generic"), ("debian 12", "6.1.0-40-amd64")):
        assert not errors(judged(STACKS[DEFAULT_STACK], platform, system, kernel))


def test_the_default_warns_of_nothing_on_an_h100() -> None:
    assert judged(STACKS[DEFAULT_STACK]) == ()


def test_past_its_end_of_life_is_refused_without_consent() -> None:
    found = judged(STACKS["reference-001"], "dgx-h100")
    assert refused(found)
    text = " ".join(errors(found))
    for word in ("R570", "2026-02-28", "Kubernetes 1.30", "2025-07-15", "containerd 1.7"):
        assert word in text
    assert [item.severity for item in found] == sorted(item.severity for item in found)


def test_consent_makes_it_a_warning_that_carries_the_reason() -> None:
    found = judged(STACKS["reference-001"], "dgx-h100", allow_eol="frozen demo rig")
    assert not refused(found)
    assert sum("allowed: frozen demo rig" in text for text in warnings(found)) == 3
    assert refused(judged(STACKS["reference-001"], "dgx-h100", allow_eol="   ")), "no reason"


def test_consent_excuses_nothing_but_age() -> None:
    found = judged(STACKS["reference-001"], "hgx-b200", allow_eol="frozen demo rig")
    assert errors(found) == ["hgx-b200 needs driver 570.133.20 or later, this is 570.86.15"]


def test_the_day_decides() -> None:
    lock = STACKS["r595"]
    assert not judged(lock, as_of=date(2026, 12, 1))
    assert "R595 ends in 90 days" in " ".join(warnings(judged(lock, as_of=date(2026, 12, 31))))
    assert not refused(judged(lock, as_of=date(2027, 3, 31))), "its last day"
    assert "R595 is past" in " ".join(errors(judged(lock, as_of=date(2027, 4, 1))))


def test_a_branch_whose_last_day_is_not_known_but_passed() -> None:
    found = errors(judged(changed(version="565.57.01"), as_of=date(2020, 1, 1)))
    assert any("R565 is past its end of life (passed)" in text for text in found)


@pytest.mark.parametrize(
    ("lock", "platform", "word"),
    [
        (changed(module="proprietary"), "hgx-b200", "needs the open module"),
        (changed(module="proprietary"), "hgx-b300", "needs the open module"),
        (STACKS["r595"], "dgx-v100", "runs no branch after 580, this is 595"),
        (STACKS["r580-k3s136"], "dgx-v100", "needs the proprietary module"),
        (changed(version="570.158.01"), "hgx-b200", "start script is broken"),
        (changed(version="535.183.06"), "hgx-b200", "needs branch 570 or later"),
        (changed("r620", module="proprietary"), "hgx-h100", "R620 has no proprietary module"),
        (changed(version="600.10.01"), "hgx-h100", "branch 600 is not in the matrix"),
    ],
    ids=["b200-kind", "b300-kind", "v100-branch", "v100-kind", "bad-on-board", "too-old",
         "r620-kind", "no-branch"],
)  # fmt: skip
def test_refused(lock: StackLock, platform: str, word: str) -> None:
    assert any(word in text for text in errors(judged(lock, platform))), word


def test_v100_has_its_way() -> None:
    lock = changed(module="proprietary")
    assert not errors(judged(lock, "dgx-v100"))
    names = [item.name for item in packages(lock, "dgx-v100", "ubuntu 24.04").packages]
    assert names == ["cuda-drivers-580", "nvidia-persistenced"]


def test_blocked_with_some_kernels() -> None:
    lock = changed(version="575.57.08")
    system, kernel = "rhel 9.8", "5.14.0-687.5.1.el9_8.x86_64"
    assert any("does not build" in text for text in errors(judged(lock, None, system, kernel)))
    other = judged(lock, None, "rhel 9.6", "5.14.0-570.1.1.el9_6.x86_64")
    assert not any("does not build" in text for text in errors(other) + warnings(other))
    assert any("does not build" in text for text in warnings(judged(lock, None, system, "")))


def test_unverified_is_said() -> None:
    found = judged(STACKS["r620"])
    assert not refused(found)
    assert "driver 620.70.06 is unverified" in warnings(found)
    other = warnings(judged(changed(version="580.200.01")))
    assert any("580.200.01 is not among the versions known to be good" in text for text in other)


@pytest.mark.parametrize("system", ["ubuntu 26.04", "debian 13", "fedora 42", "sles 15.6"])
def test_an_unknown_system_is_refused(system: str) -> None:
    assert any("is not supported" in text for text in errors(judged(STACKS["r595"], system=system)))


def test_a_minor_release_of_rhel_is_known_by_its_major() -> None:
    assert not errors(judged(STACKS[DEFAULT_STACK], system="rocky 9.6", kernel="5.14.0-570"))


def test_an_old_kernel_warns() -> None:
    found = judged(STACKS[DEFAULT_STACK], system="ubuntu 22.04", kernel="6.5.0-45-generic")
    assert not refused(found)
    assert any("kernel 6.5 of ubuntu 22.04 is past its end" in text for text in warnings(found))
    found = judged(STACKS[DEFAULT_STACK], system="debian 12", kernel="6.1.0-40-amd64")
    assert any("6.1 of debian 12: its end of life is not in" in text for text in warnings(found))


def test_a_kernel_too_old_for_the_board_is_refused() -> None:
    lock = STACKS[DEFAULT_STACK]
    found = errors(judged(lock, "hgx-b200", "ubuntu 22.04", "5.15.0-124-generic"))
    assert found == ["hgx-b200 needs kernel 5.17 or later, this is 5.15.0-124-generic"]
    assert not errors(judged(lock, "hgx-b200", "ubuntu 22.04", "6.8.0-90-generic"))


def test_what_is_no_kernel_is_said() -> None:
    assert any(
        "'zen' is no kernel" in text for text in errors(judged(STACKS["r595"], kernel="zen"))
    )


@pytest.mark.parametrize(
    ("name", "system", "refusal"),
    [
        ("r580-k3s136", "dgx-os 7", ""),
        ("r580-k3s136", "dgx-os 7.2.1", ""),
        ("r595", "dgx-os 7", "ships R580, not R595"),
        ("r580-k3s136", "dgx-os 5", "DGX OS 5 is not in the matrix"),
    ],
)
def test_on_dgx_os_the_vendor_decides(name: str, system: str, refusal: str) -> None:
    found = errors(judged(STACKS[name], "dgx-h100", system))
    assert any(refusal in text for text in found) if refusal else found == []


def test_a_release_that_the_stack_does_not_name_warns() -> None:
    found = judged(STACKS[DEFAULT_STACK], "dgx-h100", "dgx-os 6")
    assert not refused(found) and any("not known with DGX OS 6" in t for t in warnings(found))


def test_a_stack_of_dgx_os_is_for_dgx_os() -> None:
    lock = changed(source="dgx-os")
    assert any("this is ubuntu 24.04" in text for text in errors(judged(lock, "dgx-h100")))
    with pytest.raises(UsageError, match="this is ubuntu"):
        packages(lock, "dgx-h100", "ubuntu 24.04")


# Which packages


def packages(lock: StackLock, platform: str, system: str) -> PackageSet:
    os_id, _, os_version = system.partition(" ")
    return package_set(lock, MATRIX, PLATFORMS[platform], os_id, os_version)


def names(found: PackageSet) -> str:
    return " ".join(item.name for item in found.packages)


P = "nvidia-persistenced"
FM = "nvidia-fabricmanager libnvidia-nscq"
OPEN_RPM = "nvidia-open"


@pytest.mark.parametrize(
    ("lock", "platform", "system", "wanted", "method"),
    [
        ("reference-001", "hgx-h100", "ubuntu 22.04",
         f"nvidia-open-570 {P} nvidia-fabricmanager-570 libnvidia-nscq-570", "preferences"),
        ("reference-001", "hgx-h100", "debian 12",
         f"nvidia-open-570 {P} nvidia-fabricmanager-570 libnvidia-nscq-570", "preferences"),
        ("reference-001", "h100-pcie", "ubuntu 22.04", f"nvidia-open-570 {P}", "preferences"),
        ("r580-k3s136", "hgx-h100", "ubuntu 24.04", f"nvidia-open-580 {P} {FM}", "package"),
        ("r580-k3s136", "hgx-a100", "debian 12", f"nvidia-open-580 {P} {FM}", "package"),
        ("r580-k3s136", "h100-nvl", "ubuntu 24.04", f"nvidia-open-580 {P}", "package"),
        ("r580-k3s136", "hgx-b200", "ubuntu 24.04",
         f"nvidia-open-580 {P} {FM} nvlink5-580 nvlsm", "package"),
        ("r580-k3s136", "gb200-nvl72-tray", "ubuntu 24.04",
         f"nvidia-open-580 {P} nvidia-imex", "package"),
        ("r580-k3s136", "hgx-h100", "rhel 9.6", f"{OPEN_RPM} {FM}", "versionlock"),
        ("r580-k3s136", "hgx-b300", "rocky 9.6", f"{OPEN_RPM} {FM} nvlink5 nvlsm", "versionlock"),
        ("r580-k3s136", "dgx-h100", "dgx-os 7", "", "vendor"),
        ("r595", "hgx-h100", "ubuntu 24.04", f"nvidia-open {P} {FM}", "package"),
        ("r595", "hgx-b200", "debian 12", f"nvidia-open {P} {FM} nvlink5 nvlsm", "package"),
        ("r595", "l40s", "almalinux 9.6", OPEN_RPM, "versionlock"),
        ("r620", "dgx-h200", "ubuntu 22.04", f"nvidia-open {P} {FM}", "package"),
        ("r620", "gb200-nvl72-tray", "debian 12", f"nvidia-open {P} nvidia-imex", "package"),
    ],
)  # fmt: skip
def test_packages_of_a_stack(
    lock: str, platform: str, system: str, wanted: str, method: str
) -> None:
    found = packages(STACKS[lock], platform, system)
    assert names(found) == wanted
    assert found.pin.method == method
    version = STACKS[lock].driver.version
    assert found.driver_version == version
    for item in found.packages:
        assert item.version == (None if item.role == "nvlsm" else version)
    assert (found.owner == "vendor") == (method == "vendor")


@pytest.mark.parametrize("system", ["ubuntu 22.04", "ubuntu 24.04", "debian 12", "rhel 9.6"])
@pytest.mark.parametrize("platform", PLATFORMS)
@EVERY
def test_every_set_is_exact(name: str, platform: str, system: str) -> None:
    """No star, no range and no bare name where an installer could choose a version."""
    lock, spec = STACKS[name], PLATFORMS[platform]
    if lock.driver.module not in spec.driver.modules.value:
        return
    found = packages(lock, platform, system)
    roles = [item.role for item in found.packages]
    assert roles.count("driver") == 1 and len(roles) == len(set(roles))
    assert ("fabric_manager" in roles) == spec.fabric.manager.value
    assert ("nvlsm" in roles) == ("nvlink5" in roles) == spec.fabric.subnet_manager.value
    assert ("imex" in roles) == spec.fabric.imex.value
    for item in found.packages:
        assert "{" not in item.name and "*" not in item.name
        assert item.version == lock.driver.version or item.name in found.pin.apart
    assert found.pin.version == lock.driver.version
    assert found.pin.globs and found.stream in (None, f"nvidia-driver:{lock.driver.branch}-open")
    assert bool(found.stream) == system.startswith("rhel")
    assert found.pin.hold == (found.pin.method == "preferences"), "a pinning package and no hold"


def test_the_pin_covers_every_package_of_the_drivers_version() -> None:
    from fnmatch import fnmatch

    for lock in STACKS.values():
        found = packages(lock, "hgx-b200", "ubuntu 24.04")
        for item in found.packages:
            covered = any(fnmatch(item.name, glob) for glob in found.pin.globs)
            assert covered or item.name in found.pin.apart


def test_nvlsm_is_never_of_the_drivers_version() -> None:
    found = packages(STACKS[DEFAULT_STACK], "hgx-b200", "ubuntu 24.04")
    (nvlsm,) = (item for item in found.packages if item.role == "nvlsm")
    assert nvlsm.version is None and nvlsm.version_min == "2025.10.12"
    assert found.pin.apart == ("nvlsm",)
    assert any("nvlsm is not fixed" in note for note in found.notes)


def test_the_ubuntu_archive() -> None:
    lock = changed(source="ubuntu-archive")
    found = packages(lock, "hgx-h100", "ubuntu 24.04")
    assert names(found) == (
        "nvidia-driver-580-server-open nvidia-compute-utils-580-server "
        "nvidia-fabricmanager-580 libnvidia-nscq-580"
    )
    assert found.prebuilt_modules == "linux-modules-nvidia-580-server-open-{flavour}"
    assert found.pin.method == "preferences" and found.pin.hold and found.pin.package is None
    proprietary = changed(source="ubuntu-archive", module="proprietary")
    found = packages(proprietary, "hgx-h100", "ubuntu 24.04")
    assert found.packages[0].name == "nvidia-driver-580-server" and not found.prebuilt_modules


@pytest.mark.parametrize(
    ("lock", "platform", "system", "word"),
    [
        (changed(source="ubuntu-archive"), "hgx-h100", "debian 12", "no package names are known"),
        (changed(source="ubuntu-archive"), "hgx-b200", "ubuntu 24.04", "needs nvlink5"),
        (changed(source="ubuntu-archive"), "gb200-nvl72-tray", "ubuntu 24.04", "needs imex"),
        (changed("reference-001", source="ubuntu-archive"), "hgx-h100", "ubuntu 22.04",
         "transitional to 580"),
        (changed("r595", source="ubuntu-archive"), "hgx-h100", "ubuntu 24.04",
         "no package names are known"),
        (changed(version="550.90.07"), "hgx-h100", "ubuntu 22.04", "no package names are known"),
        (STACKS["r595"], "hgx-h100", "gentoo 2", "no package names are known"),
    ],
    ids=["archive-debian", "archive-b200", "archive-imex", "archive-570", "archive-595", "550",
         "gentoo"],
)  # fmt: skip
def test_no_name_is_guessed(lock: StackLock, platform: str, system: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        packages(lock, platform, system)
    found = judged(lock, platform, system, allow_eol="a test of names")
    assert refused(found)


def test_module_streams() -> None:
    assert packages(STACKS[DEFAULT_STACK], "hgx-h100", "rhel 9").stream == "nvidia-driver:580-open"
    found = packages(changed(module="proprietary"), "dgx-v100", "rhel 9")
    assert found.stream == "nvidia-driver:580-dkms" and names(found) == "cuda-drivers"
    assert "*nvidia*" in found.pin.globs and found.pin.version == "580.173.02"
    notes = packages(STACKS["r595"], "hgx-h100", "rhel 9").notes
    assert any("follow the pattern of 580, 610: unverified" in note for note in notes)


# The lock reaches the checks


@pytest.mark.parametrize(
    ("stack", "known"), [("recorded-r565", True), ("none", False), (None, False)]
)
def test_the_target_carries_the_lock(stack: str | None, known: bool) -> None:
    found = load_stacks(MORE / "stacks")
    site = HostVars(platform="dgx-h100", stack=stack)
    target, _ = choose_platform(Facts(read_snapshot(HEALTHY)), PLATFORMS, site, found)
    assert target is not None and target.site.stack == stack
    assert target.site.lock == (found["recorded-r565"] if known else None)


# The commands


def run(*args: str) -> tuple[int, str]:
    """Exit code and what was printed. A usage error is raised, as ``main.run`` turns it into 2."""
    done = CliRunner().invoke(app, ["stack", *args], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return int(done.return_value or 0), done.output


def test_list_says_how_each_stands() -> None:
    code, text = run("list", "--as-of", "2026-11-30")
    assert code == 0 and "The default is r580-k3s136" in text
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert rows["r580-k3s136"].endswith("supported") and "2028-06-30" in rows["r580-k3s136"]
    assert rows["r620"].endswith("unverified")
    assert "refused without consent" in rows["reference-001"]
    assert "supported" not in run("list", "--as-of", "2029-01-01")[1]
    assert len(list_stacks(STACKS, MATRIX, TODAY)) == 1 + len(STACKS)


def test_show() -> None:
    code, text = run("show", "r580-k3s136", "--platform", "hgx-b200", "--os", "debian 12")
    assert code == 0
    for word in ("580.173.02", "nvlsm", "nvlink5-580", "nvidia-driver-pinning-580.173.02", "[K3s"):
        assert word in text
    assert run("show", "r595", "--yaml")[1] == stack_file("r595")
    vendor = run("show", "r580-k3s136", "--platform", "dgx-h100", "--os", "dgx-os 7")[1]
    assert "packages: none; the vendor owns" in vendor


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["r580-k3s136", "--platform", "dgx-h100", "--os", "ubuntu 24.04", "--kernel", "6.8.0-90"],
         0, "accepted, as of"),
        (["r580-k3s136"], 0, "accepted so far"),
        (["reference-001"], 1, "past its end of life"),
        (["reference-001", "--allow-eol", "frozen demo rig"], 0, "allowed: frozen demo rig"),
        (["r595", "--platform", "dgx-v100"], 1, "no branch after 580"),
        (["r580-k3s136", "--platform", "hgx-h100", "--os", "debian 13"], 1, "is not supported"),
    ],
)  # fmt: skip
def test_check_exits(args: list[str], code: int, word: str) -> None:
    found, text = run("check", *args, "--as-of", "2026-11-30")
    assert (found, word in text) == (code, True), text


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["check", "r58"], "there are r580-k3s136"),
        (["show", "r58"], "there are r580-k3s136"),
        (["diff", "r595", "r58"], "there are r580-k3s136"),
        (["check", "r595", "--platform", "dgx-h10"], "no platform"),
        (["check", "r595", "--os", "debian"], "no ID and VERSION"),
        (["check", "r595", "--kernel", "6.8"], "--kernel needs --os"),
        (["check", "r595", "--as-of", "soon"], "is no day"),
        (["check", "reference-001", "--allow-eol", "because"], "at least 10"),
        (["show", "r595", "--os", "debian 12"], "belong together"),
        (["list", "--stacks-dir", "/nowhere"], "no such folder"),
    ],
)
def test_usage_errors(args: list[str], word: str) -> None:
    with pytest.raises(FabricToolsError, match=word) as raised:
        run(*args)
    assert raised.value.exit_code == 2


def test_words_of_a_sites_own_stack_do_not_steer_the_terminal(tmp_path: Path) -> None:
    text = stack_file("r580-k3s136").replace("id: r580-k3s136", "id: mine")
    title = next(line for line in text.split("\n") if line.startswith("title:"))
    (tmp_path / "mine.yaml").write_text(text.replace(title, 'title: "a \\e[31m\\u202e b"'))
    shown = run("show", "mine", "--stacks-dir", str(tmp_path))[1]
    assert "a  [31m  b" in shown and "\x1b" not in shown and "\u202e" not in shown


def test_a_part_that_names_no_minor_release_is_not_in_the_matrix() -> None:
    lock = STACKS["r580-k3s136"]
    odd = lock.containerd.model_copy(update={"version": "1"})
    found = dict(lives(lock.model_copy(update={"containerd": odd}), MATRIX))
    assert found["containerd 1"] is None


def test_diff() -> None:
    text = run("diff", "r580-k3s136", "r595")[1]
    assert "driver.version  580.173.02 -> 595.91.07" in " ".join(text.split()).replace(
        "driver.version ", "driver.version  "
    )
    assert "k3s" not in text
    same = differences(STACKS["r595"], STACKS["r595"])
    assert same == ["r595 and r595 fix the same versions"]


@pytest.mark.cli
def test_an_unknown_stack_in_the_inventory_is_a_usage_error(tmp_path: Path) -> None:
    from tests.test_files import cli
    from tests.test_files import refused as refused_line

    path = tmp_path / "vars.yaml"
    path.write_text("fabric_host: {platform: dgx-h100, stack: r58}\n")
    refused_line(
        cli("validate", "driver", "--snapshot", str(HEALTHY), "--host-vars", str(path)),
        "no stack 'r58'", "r580-k3s136",
    )  # fmt: skip
    path.write_text("fabric_host: {platform: dgx-h100, stack: recorded-r565}\n")
    args = ["--snapshot", str(HEALTHY), "--host-vars", str(path)]
    done = cli("validate", "driver", *args, "--stacks-dir", str(MORE / "stacks"), "-v")
    assert done.returncode == 0 and b"driver.stack_lock" in done.stdout
    path.write_text("fabric_host: {platform: dgx-h100, stack: r595}\n")
    done = cli("validate", "driver", *args)
    assert done.returncode == 1 and b"595.91.07" in done.stdout
