"""The memory of each GPU: ECC and rows that were taken out of use."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.gpu import Judgement, each
from fabric_tools.checks.registry import Check, Finding, check, every_gpu
from fabric_tools.models.facts import GpuFacts, GpuInventory
from fabric_tools.models.platform import GpuSpec
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

#: More remapped rows than a GPU has spares for. Azure NHC and oci-hpc use the same bound.
REMAP_UNCORRECTABLE_MAX = 512
#: Retired pages from which NVIDIA's dynamic page retirement calls for an RMA.
RETIRED_PAGES_MAX = 60


@check(
    "gpu.ecc_mode",
    phases=(Phase.DRIVER,),
    title="ECC is on, now and after the next reset",
    remedy="`nvidia-smi -e 1`, then reset the GPUs or reboot",
    subjects=every_gpu,
)
def ecc_mode(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Current and pending mode. "Unknown Error" means that the driver could not read it."""
    wanted = want.ecc.value

    def judge(facts: GpuFacts) -> Judgement:
        modes = (facts.ecc_mode_current, facts.ecc_mode_pending)
        actual = f"now {modes[0] or 'not reported'}, pending {modes[1] or 'not reported'}"
        if any(mode not in ("Enabled", "Disabled") for mode in modes):
            return Status.UNKNOWN, actual, "the driver cannot read it: reset the GPU, look again"
        return Status.PASS if modes == (wanted, wanted) else Status.FAIL, actual, ""

    yield from each(inventory, want, f"{wanted}, pending {wanted}", judge)


@check(
    "gpu.ecc_errors",
    phases=(Phase.DRIVER,),
    title="no uncorrectable memory error since the driver was loaded",
    remedy="drain, reset the GPU, test again; RMA only if it comes back or row remapping fails",
    subjects=every_gpu,
)
def ecc_errors(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """Volatile uncorrectable errors (SRAM and DRAM) must be 0.

    Errors over the card's life are a warning: a double-bit error leads to a row remap and a reset,
    not to an RMA by itself. The SRAM threshold flag is the vendor's own sign for replacement.
    """

    def judge(facts: GpuFacts) -> Judgement:
        now, life = facts.ecc_volatile, facts.ecc_aggregate
        if now.sram_uncorrectable is None or now.dram_uncorrectable is None:
            return Status.UNKNOWN, "counters not reported", ""
        actual = f"volatile SRAM {now.sram_uncorrectable}, DRAM {now.dram_uncorrectable}"
        if life.sram_threshold_exceeded:
            return Status.FAIL, f"{actual}; SRAM threshold exceeded", "replace the GPU (RMA)"
        if now.sram_uncorrectable or now.dram_uncorrectable:
            return Status.FAIL, actual, ""
        old = (life.sram_uncorrectable or 0) + (life.dram_uncorrectable or 0)
        if old:
            return Status.WARN, f"{actual}; {old} over its life", "watch this GPU"
        return Status.PASS, actual, ""

    yield from each(inventory, want, "volatile uncorrectable 0", judge)


@check(
    "gpu.row_remap",
    phases=(Phase.DRIVER,),
    title="no row remap (before Ampere: page retirement) is pending or has failed",
    remedy="pending: drain and reset the GPU; failed: replace it (RMA)",
    subjects=every_gpu,
)
def row_remap(inventory: GpuInventory, want: GpuSpec) -> Iterator[Finding]:
    """A pending remap takes effect at the next GPU reset; a failed one means no spare row is left.

    Remapped rows by themselves are normal for a card's life, up to 512 uncorrectable ones. GPUs
    before Ampere take whole pages out of use instead: up to 64, of which 60 are reason for an RMA
    (NVIDIA dynamic page retirement).
    """
    if not want.row_remap.value:
        yield from each(inventory, want, "pending No, fewer than 60 pages", _retired)
        return

    def judge(facts: GpuFacts) -> Judgement:
        pending, failure = facts.remap_pending, facts.remap_failure
        rows = facts.remap_uncorrectable
        actual = f"pending {pending}, failed {failure}, {rows} uncorrectable rows"
        if failure == "Yes":
            return Status.FAIL, actual, "replace the GPU (RMA)"
        if pending == "Yes":
            return Status.FAIL, actual, "drain and reset the GPU, then look again"
        if pending != "No" or failure != "No" or rows is None:
            return Status.UNKNOWN, actual, ""
        return Status.FAIL if rows > REMAP_UNCORRECTABLE_MAX else Status.PASS, actual, ""

    yield from each(inventory, want, "pending No, failed No", judge)


def _retired(facts: GpuFacts) -> Judgement:
    pages, pending = facts.retired_pages, facts.retired_pending
    actual = f"{pages} pages retired, pending {pending}"
    if pending == "Yes":
        return Status.FAIL, actual, "drain and reset the GPU, then look again"
    if pages is None or pending != "No":
        return Status.UNKNOWN, actual, ""
    if pages >= RETIRED_PAGES_MAX:
        return Status.FAIL, actual, "replace the GPU (RMA)"
    return Status.PASS, actual, ""


CHECKS: tuple[Check, ...] = (ecc_mode, ecc_errors, row_remap)
