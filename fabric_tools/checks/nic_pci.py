"""NICs on the PCI bus: their link, and whether GPU and NIC may talk to each other directly."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.pci import gpus_on_bus
from fabric_tools.checks.rails import no_fabric
from fabric_tools.checks.registry import NODE, Check, Finding, at, check
from fabric_tools.models.facts import PciDevice, PciDevices
from fabric_tools.models.platform import Target
from fabric_tools.models.system import Virtualization
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_NIC_CLASSES = ("Ethernet controller", "Infiniband controller", "InfiniBand controller")
_NIC_WORDS = ("Mellanox", "ConnectX", "BlueField")
_ACS_OFF = "ACSCtl all off on bridges to GPUs and NICs"
#: What systemd-detect-virt calls a container: its kernel is another machine's.
_CONTAINERS = (
    *("openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot"),
    *("pouch", "container-other"),
)
_AS_ROOT = "record `lspci -D -nn -vv` as root"


def nics_on_bus(pci: PciDevices) -> list[PciDevice]:
    """Network functions of Mellanox (vendor 15b3, class 02xx); by name where ids are missing.

    Virtual functions are left out: they have no link of their own.
    """
    return [
        device
        for device in pci.devices
        if (
            (device.vendor_device or "").startswith("15b3:")
            or (device.vendor_device is None and any(w in device.name for w in _NIC_WORDS))
        )
        and (
            (device.device_class or "").startswith("02")
            or (device.device_class is None and device.class_name in _NIC_CLASSES)
        )
        and "Virtual Function" not in device.name
    ]


def _may_be_bridge(nic: PciDevice, spec: Target) -> bool:
    """ConnectX-7 in InfiniBand mode on a board that manages its NVSwitches through such chips."""
    return (
        spec.fabric.subnet_manager.value
        and spec.site.profile.fabric == "roce"
        and nic.class_name.lower().startswith("infiniband")
        and (nic.vendor_device == "15b3:1021" or "ConnectX-7" in nic.name)
    )


def _bus(device: PciDevice) -> tuple[str, int]:
    domain, bus, _ = device.bus_id.split(":")
    return domain, int(bus, 16)


def _shown(device: PciDevice) -> str:
    speed = f"{device.link_sta_gt_s or 0:g} of {device.link_cap_gt_s or 0:g} GT/s"
    return f"{device.bus_id}: {speed}, x{device.link_sta_width} of x{device.link_cap_width}"


@check(
    "nic.pcie_link",
    phases=(Phase.PREFLIGHT, Phase.ROCE),
    title="every NIC has its full PCIe link",
    remedy="reseat the card or its riser; compare the BIOS link settings with a good node; a card "
    "in a slot that is narrower or older than itself belongs elsewhere",
    not_applicable=no_fabric,
)
def pcie_link(pci: PciDevices, spec: Target) -> Iterator[Finding]:
    """Current speed and width of each NIC against its own capability (LnkSta, LnkCap).

    A 400G port needs 32 GT/s x16; at x8 or 16 GT/s it comes up and delivers half: as many cards as
    the platform has compute ports must have a link that carries one. Unlike a GPU, a
    NIC does not slow an idle link down. Counted are cards, not functions, where the platform file
    knows how many there are. An NVSwitch at 16 GT/s x2 has its full link and is no NIC.
    """
    count = spec.nic.count.value
    expected = "LnkSta as LnkCap" + (f", {count} cards or more" if count is not None else "")
    found = [nic for nic in nics_on_bus(pci) if not _may_be_bridge(nic, spec)]
    silent = [nic for nic in found if not nic.answers]
    if not found:
        virtual = any("Virtual Function" in device.name for device in pci.devices)
        actual = "no NIC of NVIDIA or Mellanox is listed"
        actual = "only virtual functions: their link is the host's" if virtual else actual
        remedy = "look at `lspci -D -nn -vv` of the host" if virtual else _AS_ROOT
        yield Finding(NODE, Status.UNKNOWN, expected, actual, (at(pci),), remedy)
    elif silent:
        actual = f"{', '.join(nic.bus_id for nic in silent)} does not answer (rev ff)"
        remedy = "it has fallen off the bus: read dmesg for mlx5_core; drain and power cycle"
        proof = tuple(at(pci, nic.line) for nic in silent[:3])
        yield Finding(NODE, Status.FAIL, expected, actual, proof, remedy)
    else:
        yield _links(pci, found, spec, expected)


#: An 800G card may have a second link (Socket Direct), which lspci shows as a card of its own.
_ONE_LINK_GBITS_S = 400


def _port_gbits_s(spec: Target) -> int | None:
    """The least that a compute port of this host is to carry; None where nothing tells it."""
    declared = [rail.port_gbits_s for rail in spec.site.rails if rail.port_gbits_s is not None]
    return min(declared) if declared else spec.nic.port_gbits_s.value


def _carries(nic: PciDevice, gbits_s: int) -> bool:
    """Whether the link as it runs is no narrower than a port; 128b/130b from 8 GT/s on."""
    return (nic.link_sta_gt_s or 0.0) * (nic.link_sta_width or 0) * 128 / 130 >= gbits_s


def _slow(nic: PciDevice) -> bool:
    narrow = (nic.link_sta_width or 0) < (nic.link_cap_width or 0)
    return narrow or (nic.link_sta_gt_s or 0.0) < (nic.link_cap_gt_s or 0.0)


def _links(pci: PciDevices, found: list[PciDevice], spec: Target, expected: str) -> Finding:
    """The links of NICs that answer."""
    count, gbits_s = spec.nic.count.value, _port_gbits_s(spec)
    told = [nic for nic in found if None not in (nic.link_cap_width, nic.link_sta_width)]
    bad = [nic for nic in told if _slow(nic)]
    untold = [nic for nic in found if nic not in told]
    cards = sorted({nic.bus_id.rpartition(".")[0] for nic in found})
    proof = tuple(at(pci, nic.link_line or nic.line) for nic in (bad or untold or found)[:3])
    actual = "; ".join(map(_shown, (bad or told)[:8])) + (" ..." if len(bad or told) > 8 else "")
    if bad:
        return Finding(NODE, Status.FAIL, expected, actual, proof)
    if untold:
        denied = any(nic.access_denied for nic in untold)
        why = "access denied (run as root)" if denied else "no link lines (use -vv)"
        actual = f"{', '.join(nic.bus_id for nic in untold[:8])}: {why}"
        return Finding(NODE, Status.UNKNOWN, expected, actual, proof, _AS_ROOT)
    if count is not None and len(cards) < count:
        remedy = "find the lost NIC: power cycle, reseat; in a VM pass every NIC through"
        actual = f"{len(cards)} cards: {', '.join(cards)}"
        return Finding(NODE, Status.FAIL, expected, actual, proof, remedy)
    if count is not None and gbits_s is not None and gbits_s <= _ONE_LINK_GBITS_S:
        fit = {nic.bus_id.rpartition(".")[0] for nic in found if _carries(nic, gbits_s)}
        if len(fit) < count:
            remedy = "a card of an earlier generation, or a slot limited in BIOS: compare with a "
            remedy += "good node; slower ports by design: port_gbits_s of the rails"
            actual = f"{len(fit)} of {count} cards have a link for {gbits_s} Gb/s; {actual}"
            return Finding(NODE, Status.FAIL, expected, actual, proof, remedy)
    return Finding(NODE, Status.PASS, expected, f"{len(cards)} cards; {actual}", proof)


def _bridges(pci: PciDevices) -> list[PciDevice]:
    return [
        device
        for device in pci.devices
        if device.answers
        and (
            (device.device_class or "").startswith("0604")
            or (device.device_class is None and device.class_name == "PCI bridge")
        )
    ]


def _behind(bridge: PciDevice) -> list[tuple[str, int]]:
    """Every bus that this bridge leads to."""
    if bridge.buses is None:
        return []
    first, last = bridge.buses
    return [(_bus(bridge)[0], number) for number in range(first, last + 1)]


def _tops(bridges: list[PciDevice]) -> dict[tuple[str, int], PciDevice]:
    """Bus -> the port of the processor that it hangs below: the one with the lowest bus."""
    tops: dict[tuple[str, int], PciDevice] = {}
    for bridge in sorted(bridges, key=_bus):
        for bus in _behind(bridge):
            tops.setdefault(bus, bridge)
    return tops


@check(
    "pci.acs",
    phases=(Phase.ROCE,),
    title="no bridge between GPU and NIC redirects their traffic (ACS)",
    remedy="`setpci -s BUS:DEV.FN ECAP_ACS+0x6.w=0` on each bridge that is named, at every boot "
    "(a systemd unit), or ACS off in the BIOS",
    not_applicable=no_fabric,
)
def acs(pci: PciDevices, virt: Virtualization | Missing, spec: Target) -> Iterator[Finding]:
    """ACSCtl of every PCI bridge that leads to a GPU or to a NIC beside one: all off.

    With Access Control Services on, a packet from NIC to GPU takes the way through the processor,
    which about halves GPUDirect bandwidth (NVIDIA, NCCL troubleshooting; nccl-tests#112). Bridges
    that lead to NVSwitches or disks only may keep it on. ACSCap says what a bridge could do, not
    what is on. A virtual machine shows its own bridges, not those of its host.
    """
    expected = _ACS_OFF
    if not isinstance(virt, Missing) and virt.virtual:
        yield _not_bare(virt)
        return
    bridges = _bridges(pci)
    gpus = {_bus(device) for device in gpus_on_bus(pci)}
    nics = {_bus(device) for device in nics_on_bus(pci)}
    to_gpu = {b.bus_id for b in bridges if not gpus.isdisjoint(_behind(b))}
    to_nic = {b.bus_id for b in bridges if not nics.isdisjoint(_behind(b))}
    tops = _tops(bridges)
    on = [bridge for bridge in bridges if bridge.acs]
    beside = {b.bus_id for b in on if tops.get(_bus(b), b).bus_id in to_gpu}
    bad = [b for b in on if b.bus_id in to_gpu or b.bus_id in to_nic & beside]
    alone = [b for b in on if b not in bad and b.bus_id in to_nic]
    lost = [b for b in on if b.buses is None]
    seen = bool(to_gpu) or any(b.acs is not None for b in bridges)
    if bad:
        yield _acs_finding(pci, Status.FAIL, bad)
    elif any(b.access_denied for b in bridges) or (bridges and not pci.detailed):
        actual = "lspci hides ACSCtl from this user, or was not asked for it (-vv)"
        proof = at(pci, next((b.line for b in bridges if b.access_denied), bridges[0].line))
        yield Finding(NODE, Status.UNKNOWN, expected, actual, (proof,), _AS_ROOT)
    elif lost:
        why = ": where these lead is not told (the Bus: lines are missing)"
        yield _acs_finding(pci, Status.UNKNOWN, lost, why, _AS_ROOT)
    elif not seen:
        actual = "no bridge that leads to a GPU is listed" if bridges else "no PCI bridge is listed"
        yield Finding(NODE, Status.UNKNOWN, expected, actual, (at(pci),), _AS_ROOT)
    elif untold := [b for b in bridges if b.acs_capable and b.acs is None]:
        why = f"ACSCap without ACSCtl: {', '.join(b.bus_id for b in untold[:6])}"
        proof = at(pci, untold[0].line)
        yield Finding(NODE, Status.UNKNOWN, expected, why, (proof,), _AS_ROOT)
    elif isinstance(virt, Missing) and virt.recorded:
        why = f"whether this is a virtual machine is not told: {virt.reason}"
        remedy = "record `systemd-detect-virt`"
        yield Finding(NODE, Status.UNKNOWN, expected, why, (at(virt, virt.line),), remedy)
    elif alone:
        remedy = "no GPU is beside these NICs; if they are rails, switch ACS off here too"
        yield _acs_finding(pci, Status.WARN, alone, remedy=remedy)
    else:
        off = [bridge for bridge in bridges if bridge.acs == ()]
        rest = f"; on elsewhere: {', '.join(b.bus_id for b in on[:6])}" if on else ""
        actual = f"off on {len(off)} of {len(bridges)} bridges{rest}"
        proofs = tuple(at(pci, b.acs_line or b.line) for b in (off or bridges)[:3])
        yield Finding(NODE, Status.PASS, expected, actual, proofs)


def _not_bare(virt: Virtualization) -> Finding:
    proof = (Evidence(probe=virt.probe, line=virt.line),)
    if virt.kind in _CONTAINERS:
        actual = f"a container ({virt.kind}), not the machine itself"
        remedy = "collect on the machine, outside the container; this is no reason to waive"
    else:
        actual = f"a virtual machine ({virt.kind}): the bridges of its host cannot be seen"
        remedy = "look at `lspci -D -nn -vv` of the host, then waive this check for the guest"
    return Finding(NODE, Status.UNKNOWN, _ACS_OFF, actual, proof, remedy)


def _acs_finding(
    pci: PciDevices, status: Status, shown: list[PciDevice], why: str = "", remedy: str = ""
) -> Finding:
    actual = "; ".join(f"{b.bus_id} {' '.join(f'{n}+' for n in b.acs or ())}" for b in shown[:6])
    actual += f" and {len(shown) - 6} more" if len(shown) > 6 else ""
    proof = tuple(at(pci, b.acs_line or b.line) for b in shown[:3])
    return Finding(NODE, status, _ACS_OFF, actual + why, proof, remedy)


CHECKS: tuple[Check, ...] = (pcie_link, acs)
