"""An inventory as Ansible reads it: vault, group_vars, patterns, dynamic sources.

Beside a host's ``fabric_host`` it gives what is needed to reach the host with the product's own
transport: the settings of Ansible's ssh connection, from variables, ansible.cfg and environment.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import get_file_vault_secret
from ansible.plugins.loader import connection_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from pydantic import SecretStr

from fabric_tools.ansible.ssh_args import ssh_options
from fabric_tools.ansible.values import HOST_VARIABLE, plain, site_of
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.report.text import printable

_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh")
_LOCAL = ("local", "ansible.builtin.local")
#: Of what Ansible says of an error; it may quote the whole inventory.
_MAX_CHARS = 500
_PASSWORDS = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")


@dataclass(frozen=True, slots=True)
class Node:
    """One host. ``options`` are those of ssh_config, lower case; ``address`` what ssh is given.

    ``become``: whether to become root; ``password``: sudo's, where the inventory has one.
    """

    name: str
    site: HostVars
    address: str
    local: bool
    options: dict[str, str]
    become: bool
    password: SecretStr | None


def read_inventory(
    sources: Sequence[str], limit: str | None = None, vault_files: Sequence[Path] = ()
) -> tuple[Node, ...]:
    """The hosts of an inventory that ``limit`` names (all without one), in its order.

    Raises ``UsageError`` where a source cannot be read, no host is left, or a host cannot be
    reached as its variables say.
    """
    for source in sources:
        if "," not in source and not Path(source).exists():
            raise UsageError("no such inventory", where=source)
    with _usage(", ".join(sources)), _every_source():
        loader = DataLoader()
        loader.set_vault_secrets(_secrets(loader, vault_files))
        inventory = InventoryManager(loader=loader, sources=list(sources))
        inventory.subset(limit)
        hosts = inventory.get_hosts()
        variables = VariableManager(loader=loader, inventory=inventory)
    if not hosts:
        raise UsageError(f"no host{f' matches {limit!r}' if limit else ''}", where=sources[0])
    return tuple(_node(host, variables, loader) for host in hosts)


@contextmanager
def _usage(where: str) -> Iterator[None]:
    """One line for what Ansible refuses, with what it warned of on the way there."""
    warned = io.StringIO()
    try:
        with redirect_stderr(warned):
            yield
    except AnsibleError as error:
        why = printable(warned.getvalue()).removeprefix("[WARNING]: ")[:_MAX_CHARS]
        what = printable(str(error))[:_MAX_CHARS]
        raise UsageError(f"{what} ({why})" if why else what, where=where) from error
    sys.stderr.write(warned.getvalue())


@contextmanager
def _every_source() -> Iterator[None]:
    """A source that cannot be read must not silently shrink the fleet."""
    names = ("INVENTORY_UNPARSED_IS_FAILED", "INVENTORY_ANY_UNPARSED_IS_FAILED")
    before = [getattr(C, name) for name in names]
    try:
        for name in names:
            setattr(C, name, True)
        yield
    finally:
        for name, value in zip(names, before, strict=True):
            setattr(C, name, value)


def _secrets(loader: DataLoader, files: Sequence[Path]) -> list[tuple[str, Any]]:
    """Of the files given, of ansible.cfg and of the environment; nothing is ever asked."""
    named = [str(path) for path in files] or [*C.DEFAULT_VAULT_IDENTITY_LIST]
    if not files and C.DEFAULT_VAULT_PASSWORD_FILE:
        named.append(str(C.DEFAULT_VAULT_PASSWORD_FILE))
    found = []
    for text in named:
        label, _, file = text.rpartition("@") if not Path(text).exists() else ("", "", text)
        if file in ("prompt", "prompt_ask_vault_pass"):
            raise UsageError(
                "a vault password that is asked for is not supported", where=text,
                try_next="give --vault-password-file",
            )  # fmt: skip
        label = label or C.DEFAULT_VAULT_IDENTITY
        secret = get_file_vault_secret(filename=file, vault_id=label, loader=loader)
        secret.load()
        found.append((label, secret))
    return found


def _node(host: Any, manager: VariableManager, loader: DataLoader) -> Node:
    name = str(host.get_name())
    with _usage(name):
        variables: dict[str, Any] = manager.get_vars(host=host)
        templar = Templar(loader=loader, variables=variables)
        site = site_of(templar.template(variables.get(HOST_VARIABLE)), name)
        # Not the magic variables of a play, which mean nothing here and may be large.
        said = {key: templar.template(variables[key]) for key in _wanted() if key in variables}
        kind = str(said.get("ansible_connection", C.DEFAULT_TRANSPORT))
        password = next((said[key] for key in _PASSWORDS if said.get(key)), None)
        local = kind in _LOCAL
        if not local and kind not in _SSH:
            raise UsageError(
                f"ansible_connection {kind} is not one of ssh and local", where=name,
                try_next="run the playbooks, which use Ansible's connection, or leave it out "
                "with --limit",
            )  # fmt: skip
        options = {} if local else _options(said, name)
    address = options.pop("hostname", "") or name
    return Node(
        name=name,
        site=site,
        address=f"[{address}]" if ":" in address and not address.startswith("[") else address,
        local=local,
        options=options,
        become=boolean(plain(said.get("ansible_become", True)), strict=False),
        password=SecretStr(str(password)) if password else None,
    )


def _wanted() -> set[str]:
    """Names of the variables that say how to reach a host."""
    connection_loader.get("ssh", class_only=True)  # Ansible then knows the plugin's settings
    of_ssh = C.config.get_plugin_vars("connection", "ssh")
    return {"inventory_hostname", "ansible_connection", "ansible_become", *_PASSWORDS, *of_ssh}


def _options(said: dict[str, Any], name: str) -> dict[str, str]:
    """Settings of Ansible's ssh connection as options of ssh_config."""

    def setting(option: str) -> str:
        value = C.config.get_config_value(
            option, plugin_type="connection", plugin_name="ssh", variables=said
        )
        return "" if value is None else str(plain(value))

    found = {
        "hostname": setting("host"),
        "port": setting("port"),
        "user": setting("remote_user"),
        "identityfile": setting("private_key_file"),
    }
    args = [setting(option) for option in ("ssh_common_args", "ssh_extra_args")]
    more = ssh_options(" ".join(args), name)
    return more | {name: value for name, value in found.items() if value}
