"""Filters of our roles; Ansible looks for them beside the playbook that it runs."""

from __future__ import annotations

from fabric_tools.ansible.filters import filters


class FilterModule:
    def filters(self) -> dict[str, object]:
        return dict(filters())
