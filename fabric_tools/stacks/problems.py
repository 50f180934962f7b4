"""What stands against a stack: on a board, an operating system, a kernel, on a day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from fabric_tools.errors import UsageError
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.stack import Branch, Life, Matrix, Problem, StackLock
from fabric_tools.stacks.packages import DGX_OS, naming_of, package_set

#: An end of life this near is worth a warning (a choice of this project: a quarter to plan in).
_SOON = timedelta(days=90)


def problems(
    lock: StackLock,
    matrix: Matrix,
    *,
    platform: PlatformSpec | None = None,
    os_id: str = "",
    os_version: str = "",
    kernel: str = "",
    as_of: date,
    allow_eol: str = "",
) -> tuple[Problem, ...]:
    """Errors refuse the stack, warnings are printed. Errors first.

    What is not given (``platform`` None, ``os_id`` or ``kernel`` empty) is not judged. ``os_id``,
    ``os_version``: as for ``package_set``; ``kernel``: ``uname -r``. ``allow_eol``: the reason for
    which a stack past its end of life is accepted; "": it is not.
    """
    day = as_of.date() if isinstance(as_of, datetime) else as_of
    found = [
        *_versions(lock, matrix),
        *_ends(lock, matrix, day, allow_eol.strip()),
        *_blocked(lock, matrix, kernel),
    ]
    if platform is not None:
        found += _board(lock, platform, kernel)
    if os_id:
        found += _system(lock, matrix, platform, os_id, os_version)
    if os_id and kernel:
        found += _kernel(matrix, f"{os_id} {os_version}", kernel, day)
    return tuple(sorted(found, key=lambda item: item.severity != "error"))


def refused(found: tuple[Problem, ...]) -> bool:
    """Whether one of these is an error."""
    return any(item.severity == "error" for item in found)


def _error(what: str, source: str = "", try_next: str = "") -> Problem:
    return Problem(severity="error", what=what, source=source, try_next=try_next)


def _warning(what: str, source: str = "", try_next: str = "") -> Problem:
    return Problem(severity="warning", what=what, source=source, try_next=try_next)


def _versions(lock: StackLock, matrix: Matrix) -> Iterator[Problem]:
    driver = lock.driver
    branch = matrix.branch(driver.branch)
    if branch is None:
        known = ", ".join(str(item.number) for item in matrix.branches)
        yield _error(f"driver branch {driver.branch} is not in the matrix (there are {known})")
        return
    if driver.module not in branch.modules:
        kinds = " or ".join(branch.modules)
        what = f"R{branch.number} has no {driver.module} module, only {kinds}"
        yield _error(what, branch.source)
    if not driver.confirmed:
        yield _warning(f"driver {driver.version} is unverified", driver.evidence)
    elif driver.version not in branch.known_good:
        what = f"driver {driver.version} is not among the versions known to be good"
        good = ", ".join(sorted(branch.known_good)) or "none"
        yield _warning(f"{what} of R{branch.number} ({good}): unverified", driver.evidence)
    for name, part in lock.components.items():
        if part.version is not None and not part.confirmed and name != "fabric_manager":
            yield _warning(f"{name} {part.version} is unverified", part.source)


def _ends(lock: StackLock, matrix: Matrix, day: date, allow_eol: str) -> Iterator[Problem]:
    for name, life in lives(lock, matrix):
        if life is None:
            yield _warning(f"{name}: its end of life is not in the matrix")
        elif life.is_over(day) and allow_eol:
            what = f"{name} is past its end of life ({life.shown()}), allowed: {allow_eol}"
            yield _warning(what, life.source)
        elif life.is_over(day):
            what = f"{name} is past its end of life ({life.shown()}): no more security updates"
            yield _error(what, life.source, "another stack, or allow_eol with a reason")
        elif life.eol is not None and life.eol - day <= _SOON:
            yield _warning(f"{name} ends in {(life.eol - day).days} days", life.source)


def lives(lock: StackLock, matrix: Matrix) -> list[tuple[str, Life | None]]:
    """Whatever in the lock has an end of life, with the matrix's row, None where there is none."""
    branch: Branch | None = matrix.branch(lock.driver.branch)
    found: list[tuple[str, Life | None]] = []
    if branch is not None:  # that it is not in the matrix is an error of its own
        found.append((f"driver branch R{branch.number}", branch))
    kubernetes, runtime = lock.kubernetes, (lock.containerd.version or "").split(".")
    if kubernetes is not None:
        rows = {item.release: item for item in matrix.kubernetes}
        found.append((f"Kubernetes {kubernetes}", rows.get(kubernetes)))
    if lock.containerd.version is not None:  # one that names no minor is in no row
        minor = ".".join(runtime[:2])
        ends = {item.release: item for item in matrix.containerd}
        found.append((f"containerd {minor}", ends.get(minor)))
    return found


def _blocked(lock: StackLock, matrix: Matrix, kernel: str) -> Iterator[Problem]:
    """A block that holds for some kernels warns where the kernel was not named."""
    for row in matrix.blocked:
        if row.version != lock.driver.version:
            continue
        if kernel and not kernel.startswith(row.kernel):
            continue
        what = f"driver {row.version} is blocked: {row.reason}"
        source = f"{row.source}, checked {row.checked}"
        yield _error(what, source) if kernel or not row.kernel else _warning(what, source)


def _names(os_id: str, os_version: str) -> tuple[str, str]:
    """By its whole version, and by the major one, as RHEL and its rebuilds are listed."""
    return f"{os_id} {os_version}", f"{os_id} {os_version.partition('.')[0]}"


def _board(lock: StackLock, platform: PlatformSpec, kernel: str) -> Iterator[Problem]:
    """The platform file says which drivers can run its GPUs."""
    want, driver = platform.driver, lock.driver
    low, high, least = want.branch_min, want.branch_max, want.version_min
    if high.value is not None and driver.branch > high.value:
        what = f"{platform.id} runs no branch after {high.value}, this is {driver.branch}"
        yield _error(what, high.source)
    if driver.branch < low.value:
        what = f"{platform.id} needs branch {low.value} or later, this is {driver.branch}"
        yield _error(what, low.source)
    elif least.value is not None and _numbers(driver.version) < _numbers(least.value):
        what = f"{platform.id} needs driver {least.value} or later, this is {driver.version}"
        yield _error(what, least.source)
    if driver.module not in want.modules.value:
        kinds = " or ".join(want.modules.value)
        what = f"{platform.id} needs the {kinds} module, this is the {driver.module} one"
        yield _error(what, want.modules.source)
    if want.versions_bad is not None and driver.version in want.versions_bad.value:
        what = f"driver {driver.version} on {platform.id}: "
        yield _error(what + want.versions_bad.value[driver.version], want.versions_bad.source)
    floor = want.kernel_min
    if floor is not None and kernel and _numbers(kernel)[:2] < _numbers(floor.value)[:2]:
        what = f"{platform.id} needs kernel {floor.value} or later, this is {kernel}"
        yield _error(what, floor.source)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])


def _system(
    lock: StackLock, matrix: Matrix, platform: PlatformSpec | None, os_id: str, os_version: str
) -> Iterator[Problem]:
    if os_id == DGX_OS:
        yield from _dgx_os(lock, matrix, os_version)
        return
    if lock.driver.source == DGX_OS:
        what = f"its driver comes with DGX OS, and this is {os_id} {os_version}"
        yield _error(what, lock.driver.evidence, "a stack whose driver.source is cuda-repo")
        return
    if platform is None:
        names = naming_of(lock, matrix, os_id)
        if names is None or names.refused:
            what = f"no package names are known on {os_id} for R{lock.driver.branch} from "
            yield _error((names.refused if names else "") or what + lock.driver.source)
        return
    supported = platform.os.supported
    if not set(_names(os_id, os_version)) & set(supported.value):
        what = f"{os_id} {os_version} is not supported (but {', '.join(supported.value)})"
        yield _error(what, supported.source)
        return
    try:
        wanted = package_set(lock, matrix, platform, os_id, os_version)
    except UsageError as error:
        yield _error(error.what, try_next=error.try_next)
        return
    for note in wanted.notes:
        yield _warning(note)


def _dgx_os(lock: StackLock, matrix: Matrix, os_version: str) -> Iterator[Problem]:
    """There the vendor's set is verified against the lock, and nothing is installed."""
    major = os_version.partition(".")[0]
    row = next((item for item in matrix.dgx_os if item.release == major), None)
    if row is None:
        known = ", ".join(item.release for item in matrix.dgx_os)
        yield _error(f"DGX OS {os_version} is not in the matrix (there are {known})")
    elif lock.driver.branch not in row.branches:
        ships = " or ".join(f"R{number}" for number in row.branches)
        what = f"DGX OS {major} ships {ships}, not R{lock.driver.branch}; the vendor owns the set"
        yield _error(what, row.source, "a stack of a branch that the vendor ships")
    elif lock.dgx_os.version != major:
        what = f"the stack is not known with DGX OS {major}: unverified"
        yield _warning(what, lock.dgx_os.source)


def _kernel(matrix: Matrix, system: str, kernel: str, day: date) -> Iterator[Problem]:
    """An old kernel warns: which kernel a node runs is not the stack's choice.

    DGX OS kernels are the vendor's; they are not in the matrix.
    """
    numbers = _numbers(kernel)
    if len(numbers) < 2:
        yield _error(f"{kernel!r} is no kernel release, as `uname -r` prints it")
        return
    if system.startswith(DGX_OS):
        return
    series = f"{numbers[0]}.{numbers[1]}"
    row = next((k for k in matrix.kernels if k.os == system and k.series == series), None)
    if row is None:
        yield _warning(f"kernel {series} of {system}: its end of life is not in the matrix")
    elif row.is_over(day):
        what = f"kernel {series} of {system} is past its end of life ({row.shown()})"
        yield _warning(what, row.source, "a kernel that still gets security updates")
    elif row.eol is not None and row.eol - day <= _SOON:
        yield _warning(f"kernel {series} of {system} ends in {(row.eol - day).days} days")
