"""``ip -j -d link`` and the text of ``ip link`` or ``ip addr`` (plain, ``-d``, ``-o``, ``-s -s``).

Evidence: real text of bonds, virtual functions, altnames and pods; switchdev, statistics and VRF
are re-rendered from facts; JSON is read in ``ip_link_json``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabric_tools.models.network import Bond, BondSlave, IpLink, IpLinks, LinkErrors
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import PROMPT, read_lines
from fabric_tools.parsers.ip_link_json import PROBE, parse_ip_link_json

_MAX_LINKS = 5000
_HEAD = re.compile(
    r"\s{0,8}(\d{1,8}): ([^\s:@]{1,40})(?:@([^\s:]{1,40}))?: <([A-Z0-9_,-]{0,400})> (.{0,2000})$",
    re.ASCII,
)
_ETHER = re.compile(
    r"link/([a-z0-9_]{1,20})(?: ([0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){0,31}))?(?= |$)", re.ASCII
)
_INET = re.compile(r"inet6? ([0-9a-fA-F.:]{2,45}(?:/\d{1,3})?)\b", re.ASCII)
_ALTNAME = re.compile(r"altname (\S{1,128})$")
_VF = re.compile(r"vf \d{1,5}\s", re.ASCII)
_COLUMNS = re.compile(r"([RT]X)(?::| errors:)\s+(.{1,200})$")
_NUMBERS = re.compile(r"(?:\d{1,20}\s*){1,12}$", re.ASCII)
_KINDS = (
    "vlan", "bond", "bridge", "vxlan", "vrf", "dummy", "veth", "macvlan", "ipvlan", "tun", "team",
    "ifb", "ipoib", "gre", "geneve",
)  # fmt: skip


@dataclass
class _Open:
    """An interface whose lines are still being read."""

    line: int
    index: int
    name: str
    link: str | None
    flags: tuple[str, ...]
    head: str
    details: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    columns: tuple[str, list[str]] | None = None

    def below(self, line: str) -> None:
        """An indented line."""
        stripped = line.strip()
        if match := _COLUMNS.match(stripped):
            self.columns = (match[1].lower(), match[2].split())
        elif self.columns and _NUMBERS.match(stripped):
            side, names = self.columns
            self.columns = None
            values = stripped.split()
            if len(values) == len(names):
                for name, value in zip(names, values, strict=False):
                    self.counters.setdefault(f"{side}_{name}", int(value))
        elif len(self.details) < 5000:
            self.details.append(stripped)


def _after(name: str, text: str) -> str | None:
    """The word behind ``name``."""
    at = f" {text} ".find(f" {name} ")
    if at < 0:
        return None
    words = text[at + len(name) :].split(maxsplit=1)
    return words[0] if words and words[0] not in ("...", "\u2026") else None


def _number(item: _Open, name: str, text: str) -> int | None:
    word = _after(name, text)
    if word is None:
        return None
    if re.fullmatch(r"[0-9]{1,10}", word) is None:
        raise ParseError(PROBE, item.line, f"{item.name}: {name} {word[:20]!r}")
    return int(word)


def _bond(item: _Open, details: str) -> tuple[Bond | None, BondSlave | None]:
    bond = slave = None
    for line in item.details:
        if line.startswith("bond mode "):
            mode = _after("mode", line)
            bond = Bond(mode=mode or "", miimon_ms=_number(item, "miimon", line)) if mode else None
        elif line.startswith("bond_slave "):
            slave = BondSlave(
                state=_after("state", line),
                mii_status=_after("mii_status", line),
                ad_actor_oper_port_state=_number(item, "ad_actor_oper_port_state", line),
                ad_partner_oper_port_state=_number(item, "ad_partner_oper_port_state", line),
            )
    return bond, slave


def _cut(item: _Open) -> bool:
    """The line of a bond is names and values, and with LACP it goes on to ``ad_select``."""
    bonds = [line for line in item.details if line.startswith("bond mode ")]
    return any(
        len(line.split()) % 2 == 0 or (" 802.3ad " in line and " ad_select " not in f"{line} ")
        for line in bonds
    )


def _errors(counters: dict[str, int]) -> LinkErrors | None:
    if not counters:
        return None
    return LinkErrors(
        rx_errors=counters.get("rx_errors"),
        rx_dropped=counters.get("rx_dropped"),
        rx_length_errors=counters.get("rx_length"),
        rx_crc_errors=counters.get("rx_crc"),
        tx_errors=counters.get("tx_errors"),
        tx_dropped=counters.get("tx_dropped"),
    )


def _kind(details: list[str]) -> str | None:
    return next((line.split()[0] for line in details if line.split()[0] in _KINDS), None)


def _closed(item: _Open) -> IpLink:
    mtu = _number(item, "mtu", item.head)
    if mtu is None:
        raise ParseError(PROBE, item.line, f"{item.name}: no mtu")
    details = [line for line in item.details if line and not _VF.match(line)]
    joined = " ".join(details)
    ether = next((m for line in details if (m := _ETHER.match(line))), None)
    bond, slave = _bond(item, joined)
    return IpLink(
        line=item.line,
        index=item.index,
        name=item.name,
        link=item.link,
        flags=item.flags,
        mtu_bytes=mtu,
        min_mtu_bytes=_number(item, "minmtu", joined),
        max_mtu_bytes=_number(item, "maxmtu", joined),
        state=_after("state", item.head),
        carrier="LOWER_UP" in item.flags and "NO-CARRIER" not in item.flags,
        admin_up="UP" in item.flags,
        master=_after("master", item.head),
        mac=ether[2].lower() if ether and ether[2] else None,
        link_type=ether[1] if ether else None,
        kind=_kind(details),
        parentdev=_after("parentdev", joined),
        altnames=tuple(m[1] for line in details if (m := _ALTNAME.match(line))),
        addresses=tuple(m[1] for line in details if (m := _INET.match(line))),
        vfs=len(item.details) - len(details) - sum(not line for line in item.details),
        bond=bond,
        bond_slave=slave,
        errors=_errors(item.counters),
    )


def _opened(match: re.Match[str], number: int) -> _Open:
    flags = tuple(flag for flag in match[4].split(",") if flag)
    return _Open(number, int(match[1]), match[2], match[3], flags, match[5])


def parse_ip_link(text: str) -> IpLinks:
    """Every interface, in order."""
    if text.lstrip()[:1] == "[":
        return parse_ip_link_json(text)
    found: list[_Open] = []
    elided = False
    for number, whole in enumerate(read_lines(PROBE, text, max_line=20_000), start=1):
        # -o puts a backslash where a line ends.
        for line in whole.split("\\"):
            if not line.strip():
                continue
            elided = elided or "..." in line or "\u2026" in line
            if match := _HEAD.match(line):
                found.append(_opened(match, number))
                if len(found) > _MAX_LINKS:
                    raise ParseError(PROBE, number, f"more than {_MAX_LINKS} interfaces")
            elif found and line[0] in " \t":
                found[-1].below(line)
            elif line.strip() in ("...", "\u2026") or PROMPT.match(line):
                continue
            elif found or re.match(r"\d{1,8}: ", line):
                raise ParseError(PROBE, number, f"not ip link: {line.strip()[:60]!r}")
    if not found:
        raise ParseError(PROBE, 0, "no interface")
    names = [item.name for item in found]
    if len(set(names)) != len(names):
        raise ParseError(PROBE, 0, "an interface stands there twice")
    # The last line without its newline may be cut.
    whole_text = text.endswith("\n") and not elided and not any(map(_cut, found))
    return IpLinks(links=tuple(map(_closed, found)), complete=whole_text)
