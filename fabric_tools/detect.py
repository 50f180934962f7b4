"""Which platform is this node? By exact product, PCI id, chassis and count; never the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.models.facts import DmiProduct, GpuRosters, PciDevices
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec, SiteSpec, Sourced, Target
from fabric_tools.models.report import PlatformChoice
from fabric_tools.models.stack import StackLock
from fabric_tools.models.system import Virtualization
from fabric_tools.parsers.reader import Facts, Missing

_DECLARE = "name the platform with --platform"
#: An NVSwitch in a list of lspci without numeric ids.
_UNNUMBERED = "NVSwitch"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the node showed of itself. ``gpus`` is the greatest number that any source listed."""

    products: frozenset[str]
    ids: frozenset[str]
    gpus: int
    switches: frozenset[str]
    chassis: str | None
    virtual: bool
    bare_metal: bool

    def __str__(self) -> str:
        chassis = f"chassis {self.chassis}" if self.chassis else "chassis not recorded"
        number = f"{self.gpus} GPU{'s' if self.gpus != 1 else ''}" if self.gpus else "no GPU"
        where = f"{chassis}, a virtual machine" if self.virtual else chassis
        return ", ".join([*sorted(self.products), *sorted(self.ids), number, where])


def choose_platform(
    facts: Facts,
    platforms: dict[str, PlatformSpec],
    site: HostVars,
    stacks: Mapping[str, StackLock] | None = None,
) -> tuple[Target | None, PlatformChoice]:
    """What to judge the node by, and why; None where it cannot be told.

    A platform that the site declares must be a key of ``platforms``. A node without any recorded
    GPU cannot be told. ``stacks``: where the lock of the declared stack is looked up.
    """
    seen = _look(facts)
    if site.platform is not None:
        spec, why = platforms[site.platform], "declared"
    else:
        found, why = _detect(seen, platforms, site)
        if found is None:
            return None, PlatformChoice(why=why)
        spec = found
    target, doubt = _target(spec, seen, site)
    if target is None:
        return None, PlatformChoice(why=f"{spec.id} ({why}): {doubt}")
    lock = (stacks or {}).get(site.stack or "")
    target = target.model_copy(update={"site": target.site.model_copy(update={"lock": lock})})
    return target, PlatformChoice(id=spec.id, title=spec.title, why=why)


def _look(facts: Facts) -> Seen:
    rosters, pci, dmi = facts.get(GpuRosters), facts.get(PciDevices), facts.get(DmiProduct)
    virt = facts.get(Virtualization)
    lists = () if isinstance(rosters, Missing) else rosters.rosters
    devices = () if isinstance(pci, Missing) else pci.devices
    gpus = [] if isinstance(pci, Missing) else gpus_on_bus(pci)
    return Seen(
        products=frozenset(g.product for item in lists for g in item.gpus if g.product),
        ids=frozenset(d.vendor_device for d in gpus if d.vendor_device),
        gpus=max([len(gpus), *(len(item.gpus) for item in lists)]),
        switches=frozenset(
            d.vendor_device or _UNNUMBERED
            for d in devices
            if d.vendor_device or "NVSwitch" in d.name
        ),
        chassis=None if isinstance(dmi, Missing) else dmi.product_name,
        virtual=not isinstance(virt, Missing) and virt.virtual,
        bare_metal=not isinstance(virt, Missing) and not virt.virtual,
    )


def _detect(
    seen: Seen, platforms: dict[str, PlatformSpec], site: HostVars
) -> tuple[PlatformSpec | None, str]:
    if not seen.products and not seen.ids and seen.gpus:
        return None, (
            f"{seen.gpus} GPUs, but no whole product name was seen: the table of nvidia-smi "
            f"shortens it; record `nvidia-smi -L` or `nvidia-smi -q -x`; {_DECLARE}"
        )
    if not seen.products and not seen.ids:
        return None, f"no GPU was seen; {_DECLARE}"
    models = [spec for spec in platforms.values() if _is_model(spec, seen)]
    fits = [spec for spec in models if _is_chassis(spec, seen)]
    if not fits:
        return None, f"no platform file for {seen}; {_DECLARE}"
    whole = [spec for spec in fits if not _too_few(spec, seen, site)]
    if not whole:
        board = next((spec for spec in fits if not spec.match.dmi_products), fits[0])
        return None, f"{seen}: {_too_few(board, seen, site)}"
    if len(whole) == 1:
        return whole[0], f"detected: {seen}"
    names = ", ".join(spec.id for spec in whole)
    if seen.chassis is None and _alike(whole):
        chosen = next((spec for spec in whole if not spec.match.dmi_products), whole[0])
        return chosen, f"detected: {seen}, and {names} have the same values"
    return None, f"{seen} fits several platform files: {names}; {_DECLARE}"


def _is_model(spec: PlatformSpec, seen: Seen) -> bool:
    models = spec.gpu.models.value
    return seen.products <= set(models.values()) and seen.ids <= set(models)


def _is_chassis(spec: PlatformSpec, seen: Seen) -> bool:
    if seen.chassis is None:  # an unknown chassis decides nothing
        return True
    if spec.match.dmi_products:
        return seen.chassis in spec.match.dmi_products
    return seen.chassis not in spec.match.not_dmi_products


def _too_few(spec: PlatformSpec, seen: Seen, site: HostVars) -> str:
    """Why this may be another board or a part of one, or "".

    A board that lost some of its GPUs is still that board. But the same GPU is also sold on smaller
    boards and handed out one by one to virtual machines: half a board or less, in a chassis that
    does not say what it is and without the board's NVSwitches, is not taken for a sick whole one.
    """
    number = spec.gpu.count.value
    if number is None or site.gpu_count is not None or seen.gpus * 2 > number:
        return ""
    if seen.chassis in spec.match.dmi_products:
        return ""
    if spec.fabric.nvswitch_pci_id.value in seen.switches and not seen.virtual:
        return ""
    return (
        f"{spec.id} has {number} GPUs, so this is a smaller board, which needs a platform file of "
        f"its own, or a virtual machine with a part of one: say --gpus N (inventory: gpu_count)"
    )


def _alike(fits: list[PlatformSpec]) -> bool:
    """Whether it makes no difference for any check which of these files is taken.

    The NICs of a chassis are left out: the file without them asks the inventory.
    """
    sections = {"gpu", "nvlink", "fabric", "driver", "nccl", "os"}
    values = [spec.model_dump(include=sections, mode="json") for spec in fits]
    return all(_values(item) == _values(values[0]) for item in values)


def _values(section: object) -> object:
    """The values without their sources."""
    if isinstance(section, dict):
        return section["value"] if "source" in section else {
            name: _values(part) for name, part in section.items()
        }  # fmt: skip
    return section


def _target(spec: PlatformSpec, seen: Seen, site: HostVars) -> tuple[Target | None, str]:
    """The platform as this host was given it; None, and why, where the inventory must say more."""
    number = site.gpu_count or spec.gpu.count.value
    if number is None:
        return None, f"{spec.gpu.count.source}; {seen.gpus} seen"
    sections = {name: getattr(spec, name) for name in PlatformSpec.model_fields}
    declared = set(SiteSpec.model_fields) - {"source", "lock"}
    given = SiteSpec(**{name: getattr(site, name) for name in declared})
    if site.model_fields_set - {"waivers", "schema_version"}:
        given = given.model_copy(update={"source": "inventory"})
    target = Target(**sections, site=given)
    if number != spec.gpu.count.value:
        target = _part_of(target, number, _switched_here(spec, seen, number))
    if site.fabric_manager == "elsewhere" and not _switched_here(spec, seen, number):
        target = _switched_elsewhere(target, "inventory: fabric_manager is elsewhere")
    return target, ""


def _switched_here(spec: PlatformSpec, seen: Seen, number: int) -> bool:
    """Whether the node shows that its NVSwitches, and so their manager, are its own.

    They are on its bus, or its chassis is a whole DGX, or it is no virtual machine and has more
    than half of the board: a smaller board has half at most, so this one lost a GPU. What is
    declared of a part of a board is not believed against that.
    """
    if {spec.fabric.nvswitch_pci_id.value, _UNNUMBERED} & seen.switches:
        return True
    if seen.chassis in spec.match.dmi_products:
        return True
    count = spec.gpu.count.value
    return seen.bare_metal and count is not None and number * 2 > count


def _switched_elsewhere(target: Target, why: str) -> Target:
    """NVSwitches and their manager belong to the host of this virtual machine."""
    none: dict[str, object] = {
        "manager": Sourced(value=False, source=why),
        "subnet_manager": Sourced(value=False, source=why),
        "nvswitch_count": Sourced(value=0, source=why),
    }
    return target.model_copy(update={"fabric": target.fabric.model_copy(update=none)})


def _part_of(target: Target, number: int, here: bool) -> Target:
    """A board of which this host has ``number`` GPUs: the rest, and the switches, are elsewhere.

    Where the switches are ``here``, they and their manager are judged all the same.
    """
    why = f"the inventory gives this host {number} of {target.title}"
    count: Sourced[int | None] = Sourced(value=number, source="inventory: gpu_count")
    update: dict[str, object] = {"gpu": target.gpu.model_copy(update={"count": count})}
    if target.gpu.count.value is not None and number < target.gpu.count.value and not here:
        target = _switched_elsewhere(target, f"{why}; the manager runs outside")
    if number == 1:
        mesh: dict[str, object] = {
            "mesh": Sourced(value="none", source=f"one GPU has no mesh; {why}"),
            "pairs": None,
        }
        if not here:
            alone: dict[str, object] = {
                "reports_state": Sourced(value=False, source=f"{why}; it may not be in the fabric")
            }
            update["fabric"] = target.fabric.model_copy(update=alone)
            mesh["links_per_gpu"] = Sourced(value=0, source=why)
        update["nvlink"] = target.nvlink.model_copy(update=mesh)
    return target.model_copy(update=update)
