"""All checks there are. One module a subject; each check is declared once, by ``@check``.

``CHECKS`` is the one explicit list: what does not stand here does not run, and a test proves that
no declared check is left out and that each has a passing and a failing recorded case.
"""

from __future__ import annotations

from fabric_tools.checks import (
    clock,
    cuda,
    driver,
    fabric,
    fleet,
    gpu,
    gpu_health,
    gpu_memory,
    growth,
    host,
    kernel,
    nccl,
    nic,
    nic_growth,
    nic_pci,
    nvlink,
    packages,
    pci,
    proxy,
    roce,
    roce_links,
    roce_load,
    roce_qos,
    settings,
    sources,
    storage,
)
from fabric_tools.checks.registry import Check
from fabric_tools.phases import Phase

CHECKS: tuple[Check, ...] = (
    *host.CHECKS,
    *sources.CHECKS,
    *clock.CHECKS,
    *proxy.CHECKS,
    *settings.CHECKS,
    *storage.CHECKS,
    *pci.CHECKS,
    *driver.CHECKS,
    *packages.CHECKS,
    *cuda.CHECKS,
    *gpu.CHECKS,
    *gpu_memory.CHECKS,
    *gpu_health.CHECKS,
    *kernel.CHECKS,
    *fabric.CHECKS,
    *nvlink.CHECKS,
    *nccl.CHECKS,
    *nic_pci.CHECKS,
    *nic.CHECKS,
    *roce.CHECKS,
    *roce_qos.CHECKS,
    *roce_links.CHECKS,
    *roce_load.CHECKS,
    *growth.CHECKS,
    *nic_growth.CHECKS,
    *fleet.CHECKS,
)

BY_ID: dict[str, Check] = {item.id: item for item in CHECKS}


def for_phase(phase: Phase) -> tuple[Check, ...]:
    """The checks of one phase's gate, in the order of ``CHECKS``."""
    return tuple(item for item in CHECKS if phase in item.phases)
