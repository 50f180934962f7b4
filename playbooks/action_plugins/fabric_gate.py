"""The gate of a phase; see fabric_tools/ansible/gate.py. Here, because Ansible looks here."""

from __future__ import annotations

try:
    from fabric_tools.ansible.gate import ActionModule
except ImportError as error:
    import sys

    from ansible.errors import AnsibleError

    raise AnsibleError(
        f"fabric_gate: {sys.executable}, which runs this Ansible, cannot load {error.name}; run "
        "the ansible-playbook that was installed with fabric-tools, or install fabric-tools there"
    ) from error

__all__ = ["ActionModule"]
