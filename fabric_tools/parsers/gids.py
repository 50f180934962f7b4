"""GIDs: ``show_gids``, or a dump of ``/sys/class/infiniband/*/ports/*/gids`` and ``gid_attrs``.

Evidence: real captures of show_gids (tabs and spaces, bond, a port without interface) and of our
own "index gid type interface" lines on soft RoCE; the ``grep .`` form is schema-derived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fabric_tools.models.rdma import Gid, GidTable
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import ELIDED, PROMPT, read_lines

PROBE = "gids"
Version = Literal["v1", "v2"]

_GID = r"[0-9a-fA-Fx*]{4}(?::[0-9a-fA-Fx*]{4}){7}"
_ROW = re.compile(
    rf"\s*([A-Za-z][\w.-]{{0,63}})\s+(\d{{1,3}})\s+(\d{{1,5}})\s+({_GID})"
    r"(?:\s+(\d{1,3}(?:\.\d{1,3}){3}))?(?:\s+([vV][12]))?(?:\s+([\w.@:-]{1,40}))?$",
    re.ASCII,
)
_HEAD = re.compile(r"\s*DEV\s+PORT\s+INDEX\s+GID\b|\s*---\s+----\s+-----")
_COUNT = re.compile(r"\s*n_gids_found=(\d{1,6})$", re.ASCII)
_PLAIN = re.compile(rf"\s*(\d{{1,5}})\s+({_GID})\s+(.{{1,80}})$", re.ASCII)
_PATH = re.compile(
    r"(?:/sys/\S{0,200}/infiniband/)?([\w.-]{1,64})/ports/(\d{1,3})/(gids|gid_attrs/types"
    r"|gid_attrs/ndevs)/(\d{1,5}): ?(.*)$",
    re.ASCII,
)
_TYPE = re.compile(r"(?:IB/)?RoCE ([vV][12])|IB")
_MAPPED = re.compile(r"0000:0000:0000:0000:0000:ffff:([0-9a-f]{4}):([0-9a-f]{4})")
_ZERO = ":".join(["0000"] * 8)
_EMPTY = re.compile(rf"\s*(\d{{1,5}})\s+{_ZERO}$", re.ASCII)
_NOISE = re.compile(r"(?:grep|cat|head|tail): .{1,400}: ")
_MAX_GIDS = 20_000


def mapped_ipv4(gid: str) -> str | None:
    """The IPv4 address inside a GID, None where it is none."""
    match = _MAPPED.fullmatch(gid.lower())
    if match is None:
        return None
    value = int(match[1] + match[2], 16)
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def version_of(text: str, number: int) -> Version | None:
    """v1 or v2; None for a GID of InfiniBand."""
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise ParseError(PROBE, number, f"not a GID type: {text[:40]!r}")
    if match[1] is None:
        return None
    return "v1" if match[1].lower() == "v1" else "v2"


@dataclass
class _Open:
    """A GID of sysfs, whose attributes stand in other files."""

    line: int
    gid: str
    type: str | None = None
    type_line: int = 0
    ndev: str | None = None


class SysfsGids:
    """Collects the files of a sysfs dump."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int], _Open] = {}
        self._attributes: dict[tuple[str, int, int, str], tuple[int, str]] = {}

    def take(self, line: str, number: int) -> bool:
        """Whether the line was one of these files."""
        match = _PATH.match(line)
        if match is None:
            return False
        key, value = (match[1], int(match[2]), int(match[4])), match[5].strip()
        if match[3] == "gids":
            if re.fullmatch(_GID, value) is None:
                raise ParseError(PROBE, number, f"not a GID: {value[:50]!r}")
            if key in self._found or len(self._found) >= _MAX_GIDS:
                raise ParseError(PROBE, number, "a GID stands there twice, or there are too many")
            self._found[key] = _Open(number, value.lower())
        else:
            attribute = (*key, match[3])
            if attribute in self._attributes:
                raise ParseError(PROBE, number, "an attribute stands there twice")
            self._attributes[attribute] = (number, value)
        return True

    @property
    def empty(self) -> bool:
        """Whether no such file came yet."""
        return not self._found and not self._attributes

    def table(self) -> GidTable | None:
        """What was found, None if nothing was."""
        if not self._found:
            return None
        gids: list[Gid] = []
        empty: list[int] = []
        complete = True
        for key, item in self._found.items():
            if item.gid == _ZERO:
                empty.append(key[2])
                continue
            line, kind = self._attributes.get((*key, "gid_attrs/types"), (0, ""))
            ndev = self._attributes.get((*key, "gid_attrs/ndevs"), (0, ""))[1]
            complete = complete and bool(kind)
            gids.append(
                Gid(
                    line=item.line,
                    device=key[0],
                    port=key[1],
                    index=key[2],
                    gid=item.gid,
                    ipv4=mapped_ipv4(item.gid),
                    version=version_of(kind, line) if kind else None,
                    ndev=ndev or None,
                )
            )
        return GidTable(gids=tuple(gids), empty=tuple(empty), complete=complete)


def _shown(match: re.Match[str], number: int) -> Gid:
    word = (match[6] or "").lower()
    return Gid(
        line=number,
        device=match[1],
        port=int(match[2]),
        index=int(match[3]),
        gid=match[4].lower(),
        ipv4=match[5],
        version="v1" if word == "v1" else "v2" if word == "v2" else None,
        ndev=match[7],
    )


def _plain(match: re.Match[str], number: int) -> Gid:
    kind = _TYPE.match(match[3])
    rest = match[3][kind.end() :].split() if kind else []
    if kind is None or len(rest) > 1:
        raise ParseError(PROBE, number, f"not a GID line: {match[3][:40]!r}")
    gid = match[2].lower()
    return Gid(
        line=number,
        device=None,
        port=None,
        index=int(match[1]),
        gid=gid,
        ipv4=mapped_ipv4(gid),
        version=version_of(kind[0], number),
        ndev=rest[0] if rest else None,
    )


def started(gids: list[Gid], counted: int | None, sysfs: SysfsGids) -> bool:
    """Whether a GID or the count came already; before that banners may stand there."""
    return bool(gids) or counted is not None or not sysfs.empty


def parse_gids(text: str) -> GidTable:
    """Every GID, whichever of the three forms the text has."""
    sysfs, gids, counted, plain = SysfsGids(), list[Gid](), None, False
    empty: list[int] = []
    elided = False
    lines = read_lines(PROBE, text, max_lines=100_000, max_line=1000)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or _HEAD.match(line) or sysfs.take(line, number):
            continue
        if len(gids) > _MAX_GIDS:
            raise ParseError(PROBE, number, f"more than {_MAX_GIDS} GIDs")
        if match := _ROW.match(line):
            gids.append(_shown(match, number))
        elif match := _EMPTY.match(line):
            empty.append(int(match[1]))
        elif match := _PLAIN.match(line):
            plain = True
            gids.append(_plain(match, number))
        elif (match := _COUNT.match(line)) and counted is None:
            counted = int(match[1])
        elif ELIDED.match(line):
            elided = True
        elif started(gids, counted, sysfs) and not (PROMPT.match(line) or _NOISE.match(line)):
            raise ParseError(PROBE, number, f"not a GID line: {line.strip()[:60]!r}")
    from_sysfs = sysfs.table()
    if from_sysfs is not None and not gids and counted is None:
        return from_sysfs.model_copy(update={"complete": from_sysfs.complete and not elided})
    if from_sysfs is not None or (not gids and counted != 0):
        raise ParseError(PROBE, 0, "no GID" if from_sysfs is None else "two forms in one text")
    if len({(gid.device, gid.port, gid.index) for gid in gids}) != len(gids):
        raise ParseError(PROBE, 0, "a GID stands there twice")
    whole = plain if counted is None else counted == len(gids)
    return GidTable(gids=tuple(gids), empty=tuple(empty), complete=whole and not elided)
