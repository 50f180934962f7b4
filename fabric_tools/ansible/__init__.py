"""What Ansible loads: the gate's action plugin, the summary, the reader of inventories.

Only here may ansible be imported. ``playbooks/action_plugins`` and ``callback_plugins`` hold
re-exports of a few lines, because Ansible looks beside the playbook that it runs.
"""
