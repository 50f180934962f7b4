"""The filters of our roles by name. All are pure; a refusal becomes Ansible's own error."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from fabric_tools.ansible import node_base, openpgp, reload, versions
from fabric_tools.ansible.driver_set import driver_set, plain
from fabric_tools.errors import FabricToolsError
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.host import parse_os_release
from fabric_tools.parsers.mokutil import parse_mokutil


def os_release(text: str) -> dict[str, str]:
    """ID and VERSION_ID of /etc/os-release. Raises ``ParseError``."""
    read = parse_os_release(text)
    return {"id": read.id, "version_id": read.version_id}


def dgx_release(text: str) -> str:
    """The release in /etc/dgx-release (``DGX_SWBUILD_VERSION="6.3.1"``), "" for an empty text.

    An upgrade over the network adds DGX_OTA_VERSION, which then counts; the last one stands.
    """
    found: list[tuple[str, str]] = re.findall(
        r'^DGX_(SWBUILD|OTA)_VERSION="?([0-9][0-9.]*)"?\s*$', text, re.MULTILINE
    )
    ota = [version for kind, version in found if kind == "OTA"]
    if text.strip() and not found:
        raise ParseError("dgx_release", 0, "no DGX_SWBUILD_VERSION")
    return (ota or [version for _, version in found] or [""])[-1]


def secure_boot(text: str) -> bool:
    """Whether `mokutil --sb-state` says that Secure Boot is on. Raises ``ParseError``."""
    return bool(parse_mokutil(text).enabled)


_PURE: dict[str, Callable[..., Any]] = {
    "fabric_driver_set": driver_set,
    "fabric_os_release": os_release,
    "fabric_dgx_release": dgx_release,
    "fabric_secure_boot": secure_boot,
    "fabric_openpgp_key": openpgp.checked_key,
    "fabric_madison": versions.madison,
    "fabric_repoquery": versions.repoquery,
    "fabric_installed": versions.installed,
    "fabric_resolve": versions.resolve,
    "fabric_driver_parts": versions.driver_parts,
    "fabric_vendor_names": versions.vendor_names,
    "fabric_held_names": versions.held_names,
    "fabric_other_branches": versions.other_branches,
    "fabric_instead": versions.instead,
    "fabric_moving": versions.moving,
    "fabric_dgx_objections": versions.dgx_objections,
    "fabric_dnf_locks": versions.dnf_locks,
    "fabric_dnf_moving": versions.dnf_moving,
    "fabric_units": reload.units_of,
    "fabric_active": reload.active,
    "fabric_reload_reasons": reload.reload_reasons,
    "fabric_strangers": reload.strangers,
    "fabric_failure_domains": reload.failure_domains,
    "fabric_boot_kernels": reload.boot_kernels,
    "fabric_header_packages": reload.header_packages,
    "fabric_compiler_major": reload.compiler_major,
    "fabric_mok_enrolled": reload.enrolled,
    "fabric_node_settings": node_base.node_settings,
    "fabric_too_low": node_base.too_low,
    "fabric_kernel_held": node_base.kernel_held,
    "fabric_array": node_base.array_declared,
    "fabric_array_plan": node_base.array_plan,
}

#: These get hostvars, which Ansible resolves as it is read: a copy of it would resolve everything.
_AS_IS = frozenset({"fabric_failure_domains"})


def filters() -> dict[str, Callable[..., Any]]:
    """What ``FilterModule.filters`` returns."""
    return {name: _edge(function, name not in _AS_IS) for name, function in _PURE.items()}


def _edge(function: Callable[..., Any], copied: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        from ansible.errors import AnsibleFilterError

        if copied:
            args, kwargs = tuple(plain(arg) for arg in args), plain(kwargs)
        try:
            return function(*args, **kwargs)
        except (FabricToolsError, ParseError) as error:
            raise AnsibleFilterError(str(error)) from error

    return call
