"""What the driver phase puts on one host: the stack lock read for its board and its system."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from fabric_tools.ansible.values import site_of
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.package_set import PackageSet
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.stack import StackLock
from fabric_tools.platforms import load_platforms
from fabric_tools.stacks import DEFAULT_STACK, load_matrix, load_stacks, one_stack
from fabric_tools.stacks.packages import package_set
from fabric_tools.stacks.problems import problems


def driver_set(
    fabric_host: Mapping[str, Any],
    os_id: str,
    os_version: str,
    *,
    kernel: str,
    as_of: str,
    platform: str = "",
    platforms: str = "",
    stacks: str = "",
) -> dict[str, Any]:
    """All that the role needs to know, as plain data.

    ``os_id``, ``os_version``: of os-release, or ``dgx-os`` and its release. ``kernel``: `uname -r`.
    ``as_of``: ISO day, for what is past its end of life. ``platform``: what the preflight proof
    found, for a host that declares none. ``platforms``, ``stacks``: folders of the site's own
    files. Raises ``UsageError`` where the stack may not be used here, with every reason.
    """
    host = site_of(fabric_host, "")
    spec = _platform(host.platform or platform, platforms)
    known = load_stacks(Path(stacks) if stacks else None)
    lock, matrix = one_stack(host.stack or DEFAULT_STACK, known), load_matrix()
    consent = host.allow_eol.reason if host.allow_eol else ""
    found = problems(
        lock, matrix, platform=spec, os_id=os_id, os_version=os_version, kernel=kernel,
        as_of=date.fromisoformat(as_of[:10]), allow_eol=consent,
    )  # fmt: skip
    errors = [item for item in found if item.severity == "error"]
    if errors:
        said = "; ".join(item.what for item in errors)
        raise UsageError(
            said,
            where=f"stack {lock.id} on {spec.id}, {os_id} {os_version}",
            try_next=next((item.try_next for item in errors if item.try_next), ""),
        )
    wanted = package_set(lock, matrix, spec, os_id, os_version)
    return {
        **wanted.model_dump(mode="json"),
        "stack": lock.id,
        "platform": spec.id,
        "dkms": wanted.owner != "vendor" and wanted.prebuilt_modules is None,
        "archive": wanted.source == "ubuntu-archive",
        "warnings": [item.what for item in found if item.severity == "warning"],
        **_services(spec, host, lock, wanted),
    }


def _services(
    spec: PlatformSpec, host: HostVars, lock: StackLock, wanted: PackageSet
) -> dict[str, Any]:
    """Units that this board needs, those that must not run on it, and modules to load at boot."""
    manager = spec.fabric.manager.value and host.fabric_manager == "here"
    needed = {
        "nvidia-persistenced": True,
        "nvidia-fabricmanager": manager,
        "nvidia-imex": spec.fabric.imex.value,
    }
    return {
        "services": [name for name, here in needed.items() if here],
        "services_off": [name for name, here in needed.items() if not here],
        "fabric_state": spec.fabric.reports_state.value and manager,
        "load_modules": ["ib_umad"] if spec.fabric.subnet_manager.value else [],
    }


def plain(value: Any) -> Any:
    """Ansible's lazy and tagged containers as ordinary ones."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _platform(platform: str, folder: str) -> PlatformSpec:
    known = load_platforms(Path(folder) if folder else None)
    if not platform:
        raise UsageError(
            "the platform of this host is not known",
            where="fabric_host.platform",
            try_next="run the preflight phase, which finds it, or declare it",
        )
    if platform not in known:
        raise UsageError(
            f"no platform {platform!r}; there are {', '.join(sorted(known))}",
            where="fabric_host.platform",
        )
    return known[platform]
