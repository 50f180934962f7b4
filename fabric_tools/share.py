"""Where the playbooks and the rest that is no Python lie: in the wheel, or beside a checkout."""

from __future__ import annotations

from pathlib import Path

from fabric_tools.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def shared(name: str) -> Path:
    """The folder ``name`` (``playbooks``, ``examples`` ...). Raises ``UsageError`` for none.

    The wheel carries them in ``_share`` (hatch_build.py); a checkout has them at its root. Roles
    lie in ``playbooks/roles``, where Ansible finds them without any configuration.
    """
    for folder in (_PACKAGE / "_share" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise UsageError(
        f"this installation carries no {name}", where=str(_PACKAGE), try_next="install the wheel"
    )
