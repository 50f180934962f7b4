"""NCCL's own log (``NCCL_DEBUG=INFO``): which network, which devices, GPUDirect, NVLS, warnings.

Evidence: lines re-rendered from facts of public reports (RoCE, Socket, GPUDirect disabled, NVLS
bind failure); merged devices and plugins follow NCCL's source (format unverified).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.nccl import NcclChannels, NcclDebug, NcclNic, NvlsState, TextNote
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, note, read_lines

PROBE = "nccl_debug"
_MAX_LINES, _MAX_LINE, _MAX_NOTES, _MAX_NICS = 200_000, 1 << 20, 200, 4096

_NETWORK = re.compile(r"Using network (\S[^\n]{0,60})$")
_NIC = re.compile(
    r"\[(\d{1,4})\] ?([A-Za-z][\w.+-]{0,63})(?::uverbs\d{1,4})?:(\d{1,3})(?:/(RoCE|IB)\b)?",
    re.ASCII,
)
_SOCKET = re.compile(r"\[\d{1,4}\]([\w.@-]{1,40}):", re.ASCII)
_NVLS = re.compile(r"NVLS multicast support is (not )?available")
_NVLS_OFF = re.compile(r"NCCL_NVLS_ENABLE set by environment to (\d+)", re.ASCII)
_NVLS_FAILED = re.compile(r"Failed to (?:bind|create|add|map|allocate)\b.{0,60}(?:NVLS|Multicast)")
_ENVIRONMENT = re.compile(r"\b(NCCL_\w{1,60}) set by environment to (.{0,200})", re.ASCII)
_HCA = re.compile(r"\b(NCCL_\w{1,60}) set to (.{1,200})", re.ASCII)
_VERSION = re.compile(r"NCCL version (\d[\w.+-]{1,40})", re.ASCII)
_RANKS = re.compile(r"\bnRanks (\d{1,7})\b", re.ASCII)
_NODES = re.compile(r"\bnNodes (\d{1,6})\b", re.ASCII)
_FABRIC = re.compile(r"MNNVL busId .{1,120}? state (\d{1,4})\b", re.ASCII)
_CUDA = re.compile(r"(?:CUDA|Cuda|cuda) (?:error|failure) (\d{1,6})\b", re.ASCII)
_GDR_OFF = re.compile(r"GPU Direct RDMA Disabled for (?:HCA|GPU)|\bPXN \d+ GDR 0\b")
_LOG = re.compile(r" NCCL (?:INFO|WARN|TRACE)\b|NCCL version \d|\bNET/\w{1,20} ?: ")
_FAILED = re.compile(r"Test (?:CUDA |NCCL )?failure\b")


@dataclass
class _Seen:
    """What the lines have said so far."""

    networks: dict[str, int] = field(default_factory=dict)
    using: dict[str, int] = field(default_factory=dict)
    nics: dict[tuple[str, int], NcclNic] = field(default_factory=dict)
    sockets: dict[str, None] = field(default_factory=dict)
    no_device: bool = False
    verbs_missing: bool = False
    gdr_off: bool = False
    dmabuf: bool | None = None
    net: int = 0
    net_gdr: int = 0
    p2p: int = 0
    shm: int = 0
    nvls: dict[NvlsState, int] = field(default_factory=dict)
    versions: dict[str, None] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    fabric: dict[int, None] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    warnings: list[TextNote] = field(default_factory=list)
    cuda: dict[int, None] = field(default_factory=dict)
    log_lines: int = 0

    def network_line(self, line: str, number: int) -> None:
        if match := _NETWORK.search(line):
            self.networks.setdefault(match[1].strip(), number)
        elif "NET/IB : Using [" in line:
            self.using.setdefault("IB", number)
            devices = line.split("Using ", 1)[1].split(" OOB ", 1)[0]
            for nic in _NIC.finditer(devices):
                key = (nic[2], int(nic[3]))
                if len(self.nics) < _MAX_NICS and key not in self.nics:
                    self.nics[key] = NcclNic(
                        line=number, index=int(nic[1]), name=nic[2], port=key[1], link_layer=nic[4]
                    )
        elif "NET/Socket : Using [" in line:
            self.using.setdefault("Socket", number)
            for match in _SOCKET.finditer(line.split("Using ", 1)[1]):
                self.sockets.setdefault(match[1])
        elif "NET/IB : No device found" in line:
            self.no_device = True
        elif "Failed to open libibverbs" in line:
            self.verbs_missing = True

    def channel(self, line: str) -> None:
        via = line.rsplit(" via ", 1)[1]
        if via.startswith("NET/"):
            self.net += 1
            self.net_gdr += "/GDRDMA" in via
        elif via.startswith("P2P"):
            self.p2p += 1
        elif via.startswith("SHM"):
            self.shm += 1

    def nvls_line(self, line: str, number: int) -> None:
        state: NvlsState | None = None
        if _NVLS_FAILED.search(line):
            state = "failed"
        elif match := _NVLS_OFF.search(line):
            state = "disabled_by_environment" if int(match[1][:9]) == 0 else None
        elif match := _NVLS.search(line):
            state = "unavailable" if match[1] else "available"
        if state is not None:
            self.nvls.setdefault(state, number)

    def details(self, line: str) -> None:
        if "DMA-BUF is available" in line:
            self.dmabuf = True
        if " GDR 0" in line or "Direct RDMA" in line:
            self.gdr_off = self.gdr_off or _GDR_OFF.search(line) is not None
        if "nRanks" in line and (match := _RANKS.search(line)):
            self.ranks.add(int(match[1]))
        if "nNodes" in line and (match := _NODES.search(line)):
            self.nodes.add(int(match[1]))
        if "MNNVL busId" in line and (match := _FABRIC.search(line)):
            self.fabric.setdefault(int(match[1]))
        if " set " not in line or len(self.environment) >= 500:
            return
        if match := _ENVIRONMENT.search(line) or _HCA.search(line):
            self.environment.setdefault(match[1], match[2].rstrip(". "))

    def line(self, line: str, number: int) -> None:
        if ("NCCL" not in line and "NET/" not in line) or _LOG.search(line) is None:
            if "Test " in line and _FAILED.search(line) and len(self.warnings) < _MAX_NOTES:
                self.warnings.append(note(number, line))
            return
        self.log_lines += 1
        if "NCCL version" in line and (match := _VERSION.search(line)):
            self.versions.setdefault(match[1])
        if " NCCL WARN " in line:
            if len(self.warnings) < _MAX_NOTES:
                self.warnings.append(note(number, line))
            if match := _CUDA.search(line):
                self.cuda.setdefault(int(match[1]))
        if " via " in line and "Channel " in line:
            self.channel(line)
            return
        if "NET/" in line or "network" in line or "libibverbs" in line:
            self.network_line(line, number)
        if "NVLS" in line or "Multicast" in line:
            self.nvls_line(line, number)
        self.details(line)

    def gdrdma(self, network: str | None) -> bool | None:
        if self.gdr_off:
            return False
        if self.net:
            return self.net_gdr == self.net
        if network == "Socket" and not self.p2p and not self.shm:
            return False
        return None


_WORST: tuple[NvlsState, ...] = ("failed", "disabled_by_environment", "unavailable", "available")


def _one(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None


def parse_nccl_debug(text: str) -> NcclDebug:
    """What the log says; text without a line of NCCL's log is refused."""
    seen = _Seen()
    lines = read_lines(PROBE, text, max_chars=16 * MIB, max_lines=_MAX_LINES, max_line=_MAX_LINE)
    for number, line in enumerate(lines, start=1):
        if len(line) <= 8192:
            seen.line(line, number)
    if not seen.log_lines:
        raise ParseError(PROBE, 0, "no line of NCCL's log (NCCL_DEBUG=INFO)")
    networks = seen.networks or seen.using
    network = next(iter(networks)) if len(networks) == 1 else None
    layers = {nic.link_layer for nic in seen.nics.values()}
    state = next((word for word in _WORST if word in seen.nvls), None)
    return NcclDebug(
        network=network,
        networks=tuple(networks),
        network_line=networks[network] if network else None,
        nics=tuple(seen.nics.values()),
        link_layer=next(iter(layers)) if len(layers) == 1 else None,
        socket_interfaces=tuple(seen.sockets)[:100],
        no_ib_device=seen.no_device,
        verbs_missing=seen.verbs_missing,
        channels=NcclChannels(net=seen.net, net_gdrdma=seen.net_gdr, p2p=seen.p2p, shm=seen.shm),
        gdrdma=seen.gdrdma(network),
        dmabuf=seen.dmabuf,
        nvls=state,
        nvls_line=seen.nvls[state] if state else None,
        nccl_version=next(iter(seen.versions)) if len(seen.versions) == 1 else None,
        ranks=_one(seen.ranks),
        nodes=_one(seen.nodes),
        fabric_states=tuple(seen.fabric)[:100],
        environment=seen.environment,
        warnings=tuple(seen.warnings),
        cuda_errors=tuple(seen.cuda)[:100],
    )
