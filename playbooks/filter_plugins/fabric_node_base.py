"""Filters of the role node_base; their logic is in the package."""

from fabric_tools.ansible.node_base import FILTERS


class FilterModule:
    """Found by Ansible beside the playbooks."""

    def filters(self):
        """Name to function."""
        return FILTERS
