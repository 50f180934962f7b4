"""Stacks as text: the list, one lock with its sources, its packages, and what two differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

from fabric_tools.models.package_set import PackageSet
from fabric_tools.models.stack import Matrix, StackLock
from fabric_tools.stacks.problems import lives, problems


def list_stacks(stacks: Mapping[str, StackLock], matrix: Matrix, day: date) -> list[str]:
    """One line a stack: id, driver, K3s, ends of life, and how it stands on that day."""
    rows = [("stack", "driver", "K3s", "driver until", "Kubernetes until", "state")]
    for lock in stacks.values():
        branch = matrix.branch(lock.driver.branch)
        ends = dict(lives(lock, matrix))
        kubernetes = ends.get(f"Kubernetes {lock.kubernetes}")
        rows.append(
            (
                lock.id,
                f"{lock.driver.version} {lock.driver.module}",
                lock.k3s.version or "-",
                branch.shown() if branch else "not known",
                kubernetes.shown() if kubernetes else "not known",
                state(lock, matrix, day),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def state(lock: StackLock, matrix: Matrix, day: date) -> str:
    """``supported``, or in a few words what stands against it by itself, without a node."""
    over = [name for name, life in lives(lock, matrix) if life is not None and life.is_over(day)]
    if over:
        return f"refused without consent, past its end of life: {', '.join(over)}"
    errors = [item for item in problems(lock, matrix, as_of=day) if item.severity == "error"]
    if errors:
        return f"refused: {errors[0].what}"
    branch = matrix.branch(lock.driver.branch)
    good = branch is not None and lock.driver.version in branch.known_good
    return "supported" if lock.driver.confirmed and good else "unverified"


def explain_stack(lock: StackLock, matrix: Matrix) -> str:
    """Every value of a lock with its source, and when its parts end."""
    driver = lock.driver
    text = f"{driver.version}, branch {driver.branch}, {driver.module} module, from {driver.source}"
    lines = [f"{lock.id}: {lock.title}", f"driver = {text}{_doubt(driver.confirmed)}  "]
    lines[-1] += f"[{driver.evidence}]"
    for name, part in lock.components.items():
        version = part.version or "not fixed"
        lines.append(f"{name} = {version}{_doubt(part.confirmed)}  [{part.source}]")
    for name, life in lives(lock, matrix):
        end = f"{life.shown()}  [{life.source}]" if life else "not in the matrix"
        lines.append(f"end of life of {name} = {end}")
    return "\n".join(lines)


def _doubt(confirmed: bool) -> str:
    return "" if confirmed else " (unverified)"


def explain_packages(wanted: PackageSet) -> str:
    """What is installed for it on one system, and how it is kept there."""
    if wanted.owner == "vendor":
        return f"packages: none; {'; '.join(wanted.notes)}"
    lines = [f"module stream: {wanted.stream}"] if wanted.stream else []
    for item in wanted.packages:
        version = item.version or (f"{item.version_min} or later" if item.version_min else "any")
        lines.append(f"package {item.name} = {version}  [{item.role.replace('_', ' ')}]")
    if wanted.prebuilt_modules:
        lines.append(f"signed modules: {wanted.prebuilt_modules}")
    lines.append(f"kept by: {_kept(wanted)}")
    lines += [f"note: {note}" for note in wanted.notes]
    return "\n".join(lines)


def _kept(wanted: PackageSet) -> str:
    pin = wanted.pin
    if pin.method == "package":
        return f"{pin.package} (not together with apt-mark hold)"
    if pin.method == "versionlock":
        return f"dnf versionlock of {', '.join(pin.globs)} at {pin.version}"
    return f"a preferences file for {', '.join(pin.globs)} and apt-mark hold"


def differences(first: StackLock, second: StackLock) -> list[str]:
    """What two locks differ in, by the names of the file; sources are not compared."""
    left, right = dict(_values(first)), dict(_values(second))
    names = [name for name in left if left[name] != right[name]]
    if not names:
        return [f"{first.id} and {second.id} fix the same versions"]
    width = max(len(name) for name in names)
    return [f"{name:{width}}  {left[name]} -> {right[name]}" for name in names]


def _values(lock: StackLock) -> Iterator[tuple[str, str]]:
    for name in ("version", "module", "source"):
        yield f"driver.{name}", str(getattr(lock.driver, name))
    for name, part in lock.components.items():
        yield name, part.version or "not fixed"


def matrix_page(matrix: Matrix) -> list[str]:
    """The driver branches and the block list for the generated documents."""
    lines = [f"Checked on {matrix.checked}.", ""]
    lines += ["| branch | type | end of life | CUDA | modules | known to be good |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in matrix.branches:
        good = ", ".join(row.known_good) or "none"
        modules = ", ".join(row.modules)
        lines.append(
            f"| R{row.number} | {row.type} | {row.shown()} | {row.cuda} | {modules} | {good} |"
        )
    lines += ["", "| blocked | with kernel | why |", "|---|---|---|"]
    for bad in matrix.blocked:
        kernel = f"{bad.kernel}*" if bad.kernel else "any"
        lines.append(f"| {bad.version} | {kernel} | {bad.reason} ({bad.source}) |")
    return lines
