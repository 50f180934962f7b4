"""`lspci` of the lab's hardware.

Forms: ``lspci -nn`` and ``-vv`` of HGX H100 hosts (GPU, NVSwitch) and of a host with ConnectX-7;
"(downgraded)" as a RAID controller on a narrow link prints it. Of ``-vv`` only the lines that say
something about a link, a driver or an address are printed.
"""

from __future__ import annotations

from typing import NamedTuple

from .state import Node

#: Transfer rate of each PCIe generation, GT/s.
_GT_S = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32", 6: "64"}
_KNOWN = ("-D", "-n", "-nn", "-v", "-vv", "-vvv", "-k", "-s", "-d")


class _Device(NamedTuple):
    """One line of lspci, and what stands below it."""

    bus_id: str
    kind: str
    code: str
    name: str
    ids: str
    rev: str
    subsystem: str
    numa: int
    driver: str
    cap: tuple[int, int]  # PCIe generation, width
    now: tuple[int, int]
    aspm: str


def devices(node: Node) -> list[_Device]:
    """Everything on the bus, in bus order."""
    vendor = next((name for name in ("nvidia", "nouveau") if name in node.modules), "")
    switch = "nvidia-nvswitch" if vendor == "nvidia" else ""
    plain, aspm = "not supported", "L1, Exit Latency L1 <4us"
    found = [
        _Device("0000:04:00.0", "VGA compatible controller", "0300",
                "ASPEED Technology, Inc. ASPEED Graphics Family", "1a03:2000", "52", "", 0, "",
                (0, 0), (0, 0), plain)
    ]  # fmt: skip
    for item in node.nvswitches:
        name = "NVIDIA Corporation GH100 [H100 NVSwitch]"
        found.append(
            _Device(item.bus_id, "Bridge", "0680", name, item.pci_id, "a1",
                    f"{name} [10de:1796]", item.numa, switch, (4, 2), (4, 2), plain)
        )  # fmt: skip
    for gpu in node.gpus:
        cap = (gpu.pcie_gen_max, gpu.pcie_width_max)
        now = (gpu.pcie_gen_current, gpu.pcie_width_current)
        found.append(
            _Device(gpu.bus, "3D controller", "0302",
                    "NVIDIA Corporation GH100 [H100 SXM5 80GB]", gpu.pci_id, "a1",
                    "NVIDIA Corporation Device [10de:16c1]", gpu.numa, vendor, cap, now, aspm)
        )  # fmt: skip
    for nic in node.nics:
        name = "Mellanox Technologies MT2910 Family [ConnectX-7]"
        found.append(
            _Device(nic.bus_id, "Ethernet controller", "0200", name, nic.pci_id, "",
                    f"{name} [15b3:0026]", nic.numa, "mlx5_core", (5, 16), (5, 16), plain)
        )  # fmt: skip
    return sorted(found, key=lambda device: device.bus_id)


def main(args: list[str], node: Node) -> tuple[str, int]:
    """The text and the exit status. An option that is not simulated is refused, not ignored."""
    options: dict[str, str] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name = word[:2] if word.startswith(("-s", "-d")) else word
        if name not in _KNOWN:
            return f"lspci: option {word} is not simulated by this stand-in\n", 1
        value = word[2:] if name in ("-s", "-d") else ""
        if name in ("-s", "-d") and not value:
            if not rest:
                return f"lspci: option requires an argument -- '{name[1]}'\n", 1
            value = rest.pop(0)
        options[name] = value
    found = [d for d in devices(node) if _slot(d, options.get("-s")) and _ids(d, options.get("-d"))]
    verbose = max((len(name) - 1 for name in options if name.startswith("-v")), default=0)
    text = ""
    for device in found:
        text += _head(device, options) + "\n"
        if verbose:
            text += "".join(line + "\n" for line in _below(device, verbose)) + "\n"
        elif "-k" in options and device.driver:
            text += f"\tKernel driver in use: {device.driver}\n"
    return text, 0


def _slot(device: _Device, wanted: str | None) -> bool:
    """``[[DOMAIN]:][BUS]:[DEVICE][.[FUNCTION]]``; a part that is left out or ``*`` fits all."""
    if wanted is None:
        return True
    domain, bus, rest = device.bus_id.split(":")
    slot, _, function = rest.partition(".")
    *front, last = wanted.split(":")
    want_slot, _, want_function = last.partition(".")
    pairs = [(want_slot, slot), (want_function, function)]
    pairs += list(zip(reversed(front), (bus, domain), strict=False))
    return all(want in ("", "*") or _same(want, have) for want, have in pairs)


def _ids(device: _Device, wanted: str | None) -> bool:
    """``[VENDOR]:[DEVICE][:CLASS]``."""
    if wanted is None:
        return True
    have = (*device.ids.split(":"), device.code)
    pairs = zip(wanted.split(":"), have, strict=False)
    return all(want in ("", "*") or _same(want, part) for want, part in pairs)


def _same(want: str, have: str) -> bool:
    try:
        return int(want, 16) == int(have, 16)
    except ValueError:
        return False


def _head(device: _Device, options: dict[str, str]) -> str:
    place = device.bus_id if "-D" in options else device.bus_id[5:]
    revision = f" (rev {device.rev})" if device.rev else ""
    if "-nn" in options:
        return f"{place} {device.kind} [{device.code}]: {device.name} [{device.ids}]{revision}"
    if "-n" in options:
        return f"{place} {device.code}: {device.ids}{revision}"
    return f"{place} {device.kind}: {device.name}{revision}"


def _below(device: _Device, verbose: int) -> list[str]:
    lines = [f"\tSubsystem: {device.subsystem}"] if device.subsystem else []
    if verbose > 1:
        lines.append(
            "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- "
            "SERR- FastB2B- DisINTx+"
        )
    lines.append(f"\tNUMA node: {device.numa}")
    if verbose > 1 and device.cap[1]:
        (gen, width), (now_gen, now_width) = device.cap, device.now
        lines += [
            "\tCapabilities: [60] Express (v2) Endpoint, MSI 00",
            f"\t\tLnkCap:\tPort #0, Speed {_GT_S.get(gen, 'unknown')}GT/s, Width x{width}, "
            f"ASPM {device.aspm}",
            f"\t\tLnkSta:\tSpeed {_GT_S.get(now_gen, 'unknown')}GT/s ({_word(now_gen, gen)}), "
            f"Width x{now_width} ({_word(now_width, width)})",
        ]
    if device.driver:
        lines.append(f"\tKernel driver in use: {device.driver}")
    return lines


def _word(now: int, capable: int) -> str:
    return "ok" if now >= capable else "downgraded"
