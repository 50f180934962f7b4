"""Ansible's variables as plain data, and ``fabric_host`` as the model, with file and line."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pydantic import ValidationError

from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.report.text import printable
from fabric_tools.yaml_file import first_problem

#: The name of an inventory's variable that says what a site declares of a host.
HOST_VARIABLE = "fabric_host"


def plain(value: Any) -> Any:
    """Ansible's tagged, lazy and encrypted values as what they stand for."""
    if value is None or isinstance(value, bool | int | float | datetime | date):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def site_of(value: Any, host: str) -> HostVars:
    """``fabric_host``, its templates resolved, as the model; none is an empty one.

    Raises ``UsageError`` with the field and, where Ansible knows them, file and line.
    """
    if value is None:
        return HostVars()
    try:
        return HostVars.model_validate(plain(value))
    except ValidationError as error:
        place = _place(value, error.errors(include_url=False, include_input=False)[0]["loc"])
        where = ": ".join(part for part in (place, host, HOST_VARIABLE) if part)
        raise UsageError(printable(first_problem(error)), where=where) from error


def _place(value: Any, path: tuple[int | str, ...]) -> str:
    """``FILE:LINE`` of the innermost value on ``path`` that says where it stands, or ""."""
    found = _origin(value)
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            break
        found = _origin(value) or found
    return found


def _origin(value: Any) -> str:
    """Ansible has no public way to ask; where this one has changed, the line is not told."""
    try:
        from ansible._internal._datatag._tags import Origin

        tag = Origin.get_tag(value)
        return f"{tag.path}:{tag.line_num}" if tag and tag.path and tag.line_num else ""
    except (ImportError, AttributeError):
        return ""
