"""The lab: simulated nodes on which the product's own playbooks and gates run.

No part of the wheel.
"""
