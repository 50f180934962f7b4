"""What stands for kernel and driver inside a node. Standard library only, Python 3.11.

Installed as the package ``vendorlib`` under /usr/lib/lab; `lab/vendor/files.py` says where.
"""
