"""Which packages make up a stack on one operating system, and how they are kept there."""

from __future__ import annotations

from fabric_tools.errors import UsageError
from fabric_tools.models.package_set import Package, PackageSet, Pin
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.stack import Matrix, Naming, StackLock

#: ``os_id`` of a node whose driver, kernel and OFED belong to NVIDIA's DGX OS.
DGX_OS = "dgx-os"

#: Names that a pin must cover so that no package of the driver can move by itself: what is built
#: from the driver's source and what is versioned with it (NVIDIA driver installation guide, version
#: locking, and the names of ``matrix.yaml``).
DRIVER_GLOBS = (
    "*nvidia*",
    "cuda-drivers*",
    "libcuda*",
    "libnvsdm*",
    "libxnvctrl*",
    "nvlink5*",
)


def package_set(
    lock: StackLock, matrix: Matrix, platform: PlatformSpec, os_id: str, os_version: str
) -> PackageSet:
    """What must be installed for ``lock`` on such a node, with the exact upstream version of each.

    ``os_id``, ``os_version``: ID and VERSION_ID of os-release, or ``dgx-os`` and its release. The
    board's needs come from ``platform``, the names from ``matrix``. Whether the lock may be used at
    all is for ``problems``. Raises ``UsageError`` where a needed name is not known: nothing is
    guessed.
    """
    if os_id == DGX_OS or lock.driver.source == DGX_OS:
        return _vendor_owned(lock, os_id)
    naming = naming_of(lock, matrix, os_id)
    where = f"stack {lock.id} on {os_id} {os_version}"
    if naming is None:
        raise UsageError(
            f"no package names are known for branch {lock.driver.branch} from {lock.driver.source}",
            where=where,
            try_next="take another source or branch (see `fabric-tools stack list`)",
        )
    if naming.refused:
        raise UsageError(naming.refused, where=where, try_next="take source cuda-repo")
    packages = _packages(lock, matrix, platform, naming, where)
    stream = naming.stream.get(lock.driver.module)
    prebuilt = naming.prebuilt_modules if lock.driver.module == "open" else None
    return PackageSet(
        owner="fabric-tools",
        source=lock.driver.source,
        driver_version=lock.driver.version,
        module=lock.driver.module,
        packages=packages,
        stream=f"nvidia-driver:{_named(stream, lock)}" if stream else None,
        prebuilt_modules=_named(prebuilt, lock) if prebuilt else None,
        pin=_pin(lock, naming, packages),
        notes=_notes(lock, naming, platform),
    )


def naming_of(lock: StackLock, matrix: Matrix, os_id: str) -> Naming | None:
    """The matrix's row of names for this source, operating system and branch."""
    driver = lock.driver
    rows = (item for item in matrix.naming if item.covers(driver.source, os_id, driver.branch))
    return next(rows, None)


def _vendor_owned(lock: StackLock, os_id: str) -> PackageSet:
    if os_id != DGX_OS:
        raise UsageError(
            f"its driver comes with DGX OS, and this is {os_id}",
            where=f"stack {lock.id}",
            try_next="take a stack whose driver.source is cuda-repo",
        )
    return PackageSet(
        owner="vendor",
        source=DGX_OS,
        driver_version=lock.driver.version,
        module=lock.driver.module,
        pin=Pin(method="vendor"),
        notes=("the vendor owns driver, kernel and OFED: verified, never installed or pinned",),
    )


def _packages(
    lock: StackLock, matrix: Matrix, platform: PlatformSpec, naming: Naming, where: str
) -> tuple[Package, ...]:
    """Driver first, then what the board needs. ``where`` is for the refusal."""
    version, fabric = lock.driver.version, platform.fabric
    driver = naming.driver.get(lock.driver.module)
    wanted: list[tuple[str, str | None, bool]] = [("driver", driver, True)]
    wanted += [("persistence", naming.persistence, False)]
    if fabric.manager.value:
        wanted += [("fabric_manager", naming.fabric_manager, True), ("nscq", naming.nscq, True)]
    if fabric.subnet_manager.value:
        # nvlink5 pulls in libnvsdm where that has no known name of its own.
        wanted += [("nvlink5", naming.nvlink5, True), ("nvsdm", naming.nvsdm, False)]
    if fabric.imex.value:
        wanted += [("imex", naming.imex, True)]
    found = []
    for role, name, needed in wanted:
        if name is not None:
            found.append(_package(role, _named(name, lock), version))
        elif needed:
            raise _no_name(role, platform, where)
    if fabric.subnet_manager.value:
        if naming.nvlsm is None:
            raise _no_name("nvlsm", platform, where)
        row = matrix.branch(lock.driver.branch)
        least = row.nvlsm_min if row else None
        exact = lock.nvlsm.version
        found.append(Package(name=naming.nvlsm, role="nvlsm", version=exact, version_min=least))
    return tuple(found)


def _package(role: str, name: str, version: str) -> Package:
    return Package.model_validate({"name": name, "role": role, "version": version})


def _no_name(role: str, platform: PlatformSpec, where: str) -> UsageError:
    return UsageError(
        f"{platform.id} needs {role}, for which this source has no package",
        where=where,
        try_next="take a stack whose driver.source is cuda-repo",
    )


def _named(name: str, lock: StackLock) -> str:
    return name.replace("{branch}", str(lock.driver.branch))


def _pin(lock: StackLock, naming: Naming, packages: tuple[Package, ...]) -> Pin:
    """The installer pins the exact revisions it resolved: a version with a star never chooses."""
    version = lock.driver.version
    method = naming.pin or "preferences"
    return Pin(
        method=method,
        package=f"nvidia-driver-pinning-{version}" if method == "package" else None,
        version=version,
        globs=DRIVER_GLOBS,
        apart=tuple(item.name for item in packages if item.version != version),
        hold=method == "preferences",
    )


def _notes(lock: StackLock, naming: Naming, platform: PlatformSpec) -> tuple[str, ...]:
    notes = []
    if naming.seen and lock.driver.branch not in naming.seen:
        seen = ", ".join(map(str, naming.seen))
        notes.append(
            f"names of branch {lock.driver.branch} follow the pattern of {seen}: unverified"
        )
    if naming.persistence is None:
        notes.append("nvidia-persistenced comes with the driver package, its own name is not known")
    if platform.fabric.subnet_manager.value and naming.nvsdm is None:
        notes.append("libnvsdm comes with nvlink5, its own name is not known")
    if platform.fabric.subnet_manager.value and lock.nvlsm.version is None:
        notes.append("nvlsm is not fixed by the lock: hold it at what was installed")
    return tuple(notes)
