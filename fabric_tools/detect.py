"""Which platform is this node? By exact product, PCI id and chassis; never by the nearest match."""

from __future__ import annotations

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.models.facts import DmiProduct, GpuInventory, PciDevices
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import PlatformChoice
from fabric_tools.parsers.reader import Facts, Missing


def choose_platform(
    facts: Facts, platforms: dict[str, PlatformSpec], declared: str | None
) -> tuple[PlatformSpec | None, PlatformChoice]:
    """The platform file to judge by, and why; None where the node cannot be told.

    ``declared`` must be a key of ``platforms``. A node without any recorded GPU cannot be told.
    """
    if declared is not None:
        spec = platforms[declared]
        return spec, PlatformChoice(id=spec.id, title=spec.title, why="declared")
    products, ids = _seen_gpus(facts)
    dmi = facts.get(DmiProduct)
    chassis = None if isinstance(dmi, Missing) else dmi.product_name
    if not products and not ids:
        why = f"no GPU was seen: {_why_none(facts)}"
        return None, PlatformChoice(why=f"{why}; name the platform with --platform")
    fits = [spec for spec in platforms.values() if _fits(spec, products, ids, chassis)]
    shown = ", ".join([*sorted(products), *sorted(ids)])
    if fits and chassis is None and _alike(fits):
        names = ", ".join(spec.id for spec in fits)
        why = f"detected: {shown}; chassis not recorded, and {names} have the same values"
        chosen = next((spec for spec in fits if not spec.match.dmi_products), fits[0])
        return chosen, PlatformChoice(id=chosen.id, title=chosen.title, why=why)
    if len(fits) == 1:
        why = f"detected: {shown} in chassis {chassis}"
        return fits[0], PlatformChoice(id=fits[0].id, title=fits[0].title, why=why)
    if not fits:
        why = f"no platform file for {shown} in chassis {chassis or 'not recorded'}"
    else:
        why = f"{shown} fits several platform files: {', '.join(spec.id for spec in fits)}"
    return None, PlatformChoice(why=f"{why}; name it with --platform")


def _why_none(facts: Facts) -> str:
    """Why neither the driver nor the bus showed a GPU."""
    found = (facts.get(GpuInventory), facts.get(PciDevices))
    reasons = [fact.reason if isinstance(fact, Missing) else f"none in {fact.probe}"
               for fact in found]  # fmt: skip
    return "; ".join(reasons)


def _seen_gpus(facts: Facts) -> tuple[set[str], set[str]]:
    """Product names from the driver and PCI ids from the bus."""
    inventory, pci = facts.get(GpuInventory), facts.get(PciDevices)
    products, ids = set(), set()
    if not isinstance(inventory, Missing):
        products = {gpu.product for gpu in inventory.gpus if gpu.product}
    if not isinstance(pci, Missing):
        ids = {device.vendor_device for device in gpus_on_bus(pci) if device.vendor_device}
    return products, ids


def _fits(spec: PlatformSpec, products: set[str], ids: set[str], chassis: str | None) -> bool:
    match = spec.match
    if not products <= set(match.gpu_products) or not ids <= set(match.gpu_pci_ids):
        return False
    if chassis is None:  # an unknown chassis decides nothing
        return True
    if match.dmi_products and chassis not in match.dmi_products:
        return False
    return chassis not in match.not_dmi_products


def _alike(fits: list[PlatformSpec]) -> bool:
    """Whether it makes no difference for any check which of these files is taken."""
    values = [
        spec.model_dump(include={"gpu", "nvlink", "fabric", "os"}, mode="json") for spec in fits
    ]
    return all(_values(item) == _values(values[0]) for item in values)


def _values(section: object) -> object:
    """The values without their sources."""
    if isinstance(section, dict):
        return section["value"] if "source" in section else {
            name: _values(part) for name, part in section.items()
        }  # fmt: skip
    return section
