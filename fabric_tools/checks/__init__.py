"""All checks there are. One module a subject; each check is declared once, by ``@check``.

``CHECKS`` is the one explicit list: what does not stand here does not run, and a test proves that
no declared check is left out and that each has a passing and a failing recorded case.
"""

from __future__ import annotations

from fabric_tools.checks import driver, fabric, gpu, host, kernel, nvlink, pci
from fabric_tools.checks.registry import Check
from fabric_tools.phases import Phase

CHECKS: tuple[Check, ...] = (
    *host.CHECKS,
    *pci.CHECKS,
    *driver.CHECKS,
    *gpu.CHECKS,
    *kernel.CHECKS,
    *fabric.CHECKS,
    *nvlink.CHECKS,
)

BY_ID: dict[str, Check] = {item.id: item for item in CHECKS}


def for_phase(phase: Phase) -> tuple[Check, ...]:
    """The checks of one phase's gate, in the order of ``CHECKS``."""
    return tuple(item for item in CHECKS if phase in item.phases)
