"""One line a host at the end; see fabric_tools/ansible/summary.py. Here, as Ansible looks here."""

from __future__ import annotations

from fabric_tools.ansible.summary import CallbackModule

__all__ = ["CallbackModule"]
