"""The node itself: is it the machine we think, with a system we support?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import DmiProduct, GpuRosters, OsRelease, PciDevices
from fabric_tools.models.platform import OsSpec, Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


@check(
    "host.platform",
    phases=(Phase.PREFLIGHT,),
    title="the hardware is the platform it is judged as",
    remedy="declare the right platform, or find out why this chassis holds other GPUs",
    waivable=False,  # judged as the wrong platform, no other verdict means anything
)
def platform(
    pci: PciDevices | Missing,
    rosters: GpuRosters | Missing,
    dmi: DmiProduct | Missing,
    spec: Target,
) -> Iterator[Finding]:
    """GPU model and chassis must equal the platform file's, exactly and never by substring.

    The GPU is known from its PCI id (before a driver is installed) or from nvidia-smi; the chassis
    from its DMI product name, where that was recorded. An unknown product is UNKNOWN, never the
    nearest match.
    """
    models = spec.gpu.models.value
    expected = f"{spec.id}: " + " or ".join(f"{name} ({pci})" for pci, name in models.items())
    wrong: list[str] = []
    seen: list[str] = []
    evidence: list[Evidence] = []
    if not isinstance(pci, Missing):
        ids = sorted({d.vendor_device for d in gpus_on_bus(pci) if d.vendor_device})
        seen += ids
        wrong += [i for i in ids if i not in models]
        evidence += [at(pci, d.line) for d in gpus_on_bus(pci)[:1]]
    if not isinstance(rosters, Missing):
        names = sorted({g.product for item in rosters.rosters for g in item.gpus if g.product})
        seen += names
        wrong += [n for n in names if n not in models.values()]
        evidence += [at(rosters.best, g.line) for g in rosters.best.gpus[:1]]
    if not seen:
        reason = pci if isinstance(pci, Missing) else Missing(pci.probe, "no GPU seen", True)
        yield unknown(NODE, reason, expected)
        return
    match = spec.match
    if isinstance(dmi, Missing):
        if not wrong and (match.dmi_products or match.not_dmi_products):
            # The GPUs fit, but whose chassis this is decides which file it is.
            yield unknown(NODE, dmi, expected)
            return
    else:
        seen.append(dmi.product_name)
        evidence.append(at(dmi, dmi.line))
        if match.dmi_products and dmi.product_name not in match.dmi_products:
            wrong.append(dmi.product_name)
        if dmi.product_name in match.not_dmi_products:
            wrong.append(dmi.product_name)
    status = Status.FAIL if wrong else Status.PASS
    yield Finding(NODE, status, expected, ", ".join(wrong or seen), tuple(evidence))


@check(
    "host.os",
    phases=(Phase.PREFLIGHT,),
    title="the distribution is one this product supports",
    remedy="install a supported release; other releases have other package names and kernels",
)
def os_supported(os: OsRelease, want: OsSpec) -> Iterator[Finding]:
    """``ID`` and ``VERSION_ID`` of os-release must stand in the platform file's list.

    RHEL and its rebuilds are compared by major version, Ubuntu and Debian by the whole of it.
    """
    supported = want.supported.value
    names = {f"{os.id} {os.version_id}", f"{os.id} {os.version_id.partition('.')[0]}"}
    status = Status.PASS if names & set(supported) else Status.FAIL
    actual = f"{os.id} {os.version_id}"
    yield Finding(NODE, status, ", ".join(supported), actual, (at(os, os.line),))


CHECKS: tuple[Check, ...] = (platform, os_supported)
