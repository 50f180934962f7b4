"""What runs inside Ansible: plugins are a few lines beside the playbooks, their logic is here."""
