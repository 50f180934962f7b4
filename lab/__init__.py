"""Simulated nodes: real systemd, sshd, apt and dpkg in containers, hardware that is only told.

``python -m lab up`` makes them, ``break`` puts a cause of failure in place, ``heal`` takes it away,
``down`` leaves the host as it was. Nothing here is part of the product; what it says is simulated.
"""
