"""The NVMe array for weights and caches, where the inventory declares one."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.inventory import Array
from fabric_tools.models.os_state import DeviceLinks, Fstab, Mount, Mounts
from fabric_tools.models.platform import SiteSpec, Target
from fabric_tools.models.storage import MdArray, MdArrays
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

Trouble = tuple[str, Evidence]


def _none(target: Target) -> str:
    return "" if target.site.array else f"no array is declared ({target.site.source})"


@check(
    "storage.array",
    phases=(Phase.BASE,),
    title="the declared array is whole, mounted, and will be at the next boot",
    remedy="compare `cat /proc/mdstat`, `findmnt` and /etc/fstab with the array of the inventory; "
    "the base phase makes it, from drives that hold nothing",
    not_applicable=_none,
)
def array(
    arrays: MdArrays, links: DeviceLinks, mounts: Mounts, fstab: Fstab, site: SiteSpec
) -> Iterator[Finding]:
    """Exactly the declared drives, with the declared level, none missing; mounted where declared.

    Drives and array are found by their stable names, because the kernel's change from boot to boot.
    An array that is being rebuilt is worth a warning. fstab must name it, by whatever name or tag,
    without ``noauto`` and ``ro``.
    """
    want = site.array
    assert want is not None
    expected = f"{want.level} of {len(want.devices)} drives at {want.mount} ({want.filesystem})"
    if not arrays.complete:
        cut = Missing(arrays.probe, "the list of arrays is cut", recorded=True)
        yield unknown(NODE, cut, expected)
        return
    name = _kernel_name(want.device, links)
    found = next((item for item in arrays.arrays if item.name == name), None)
    if found is None:
        actual = f"{want.device}: no such array is running"
        yield Finding(NODE, Status.FAIL, expected, actual, (at(arrays), at(links)))
        return
    place = at(arrays, found.line)
    troubles = [
        *((text, place) for text in _devices(found, want, links)),
        *((text, place) for text in _health(found, want)),
        *_mounted(mounts, want, name, links),
        *_next_boot(fstab, want, name, links),
    ]
    if troubles:
        actual = "; ".join(text for text, _ in troubles[:6])
        evidence = tuple(dict.fromkeys(each for _, each in troubles))
        yield Finding(NODE, Status.FAIL, expected, actual, evidence)
    elif found.action in ("resync", "recovery", "reshape"):
        yield Finding(NODE, Status.WARN, expected, f"{name}: {found.action} goes on", (place,))
    else:
        yield Finding(NODE, Status.PASS, expected, f"{name}, whole and mounted", (place,))


def _kernel_name(path: str, links: DeviceLinks) -> str:
    """``/dev/md/fabric`` -> ``md127``; of a name that is no link its last part."""
    link = links.names.get(path)
    return link.value if link else path.rpartition("/")[2]


def _devices(found: MdArray, want: Array, links: DeviceLinks) -> Iterator[str]:
    lost = [path for path in want.devices if path not in links.names and "/by-" in path]
    if lost:
        yield f"not here: {', '.join(lost[:4])}"
    wanted = {_kernel_name(path, links) for path in want.devices if path not in lost}
    has = {(member.device or "").rpartition("/")[2] for member in found.members}
    if has - wanted:
        yield f"holds {', '.join(sorted(has - wanted)[:4])}, which is not declared"
    if wanted - has:
        yield f"lacks {', '.join(sorted(wanted - has)[:4])}"
    if found.level != want.level:
        yield f"is {found.level or 'of no level'}"


def _health(found: MdArray, want: Array) -> Iterator[str]:
    if not found.state.startswith("active"):
        yield f"is {found.state}"
    if "read-only" in found.state and "auto-read-only" not in found.state:
        yield "is read-only"
    if found.failed or found.degraded:
        yield f"is degraded ({found.failed} failed, {found.active} of {found.wanted} active)"
    elif found.degraded is None and want.level != "raid0":
        yield "does not say whether it is whole"
    spare = [member.device for member in found.members if "spare" in member.state]
    if spare:
        yield f"{spare[0]} is a spare and not in use"


def _is_on(mount: Mount, name: str, links: DeviceLinks) -> bool:
    return mount.source is not None and _kernel_name(mount.source, links) == name


def _mounted(mounts: Mounts, want: Array, name: str, links: DeviceLinks) -> Iterator[Trouble]:
    """What was mounted last covers what was mounted there before."""
    here = [mount for mount in mounts.mounts if mount.target == want.mount]
    if not here:
        yield f"nothing is mounted at {want.mount}", at(mounts)
        return
    mount, place = here[-1], at(mounts, here[-1].line)
    if not _is_on(mount, name, links):
        yield f"{mount.source} is mounted at {want.mount}", place
    elif mount.fstype != want.filesystem:
        yield f"its filesystem is {mount.fstype}", place
    elif "ro" in mount.options:
        yield "is mounted read-only", place


def _next_boot(fstab: Fstab, want: Array, name: str, links: DeviceLinks) -> Iterator[Trouble]:
    here = [mount for mount in fstab.mounts if mount.target.rstrip("/") == want.mount]
    if not here:
        yield f"fstab has no {want.mount}: it is gone after the next boot", at(fstab)
        return
    mount, place = here[-1], at(fstab, here[-1].line)
    if not _is_on(mount, name, links):
        yield f"fstab mounts {mount.source} at {want.mount}", place
    elif mount.fstype not in (want.filesystem, "auto"):
        yield f"fstab says {mount.fstype}", place
    elif wrong := {"noauto", "ro"} & set(mount.options):
        yield f"fstab says {sorted(wrong)[0]}", place


CHECKS: tuple[Check, ...] = (array,)
