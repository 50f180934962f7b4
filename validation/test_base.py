"""The gate of ``base``, from the registry."""

from fabric_tools.phases import Phase
from validation.gate import gate_tests

test_check, test_gate = gate_tests(Phase.BASE)
