"""`dcgmi nvlink -s` (text) and `dcgmi nvlink -e -g N -j`.

Evidence: fixtures of the JSON and of one excerpt of the text; the whole text is schema-derived
(format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.dcgm import (
    DcgmLinkErrors,
    DcgmLinks,
    DcgmLinkState,
    DcgmNvlinkErrors,
    DcgmNvlinkStatus,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    Finder,
    as_dict,
    as_int,
    as_list,
    as_str,
    json_start,
    load_json,
    numbered,
    read_lines,
)
from fabric_tools.parsers.saved import bare

PROBE = "dcgmi_nvlink"

_LETTERS: dict[str, DcgmLinkState] = {
    "U": "up",
    "D": "down",
    "X": "disabled",
    "_": "not_supported",
}
_GPU = re.compile(r"\s*gpuId (\d{1,4}):$", re.ASCII)
_SWITCH = re.compile(r"\s*(?:physical|switch|nvSwitch|entity)(?:Id|ID)? (\d{1,4}):$", re.ASCII)
_LINKS = re.compile(r"\s*[UDX_](?: [UDX_]){0,255}$")
_LINK = re.compile(r"Link (\d{1,4})$", re.ASCII)
_FRAME = re.compile(r"[+|]")


def _add(found: list[DcgmLinks], at: tuple[int, int], line: str, number: int) -> None:
    if any(links.id == at[0] for links in found):
        raise ParseError(PROBE, number, f"{at[0]} stands there twice")
    links = tuple(_LETTERS[letter] for letter in line.split())
    found.append(DcgmLinks(id=at[0], line=at[1], links=links))


def parse_dcgm_nvlink_status(text: str) -> DcgmNvlinkStatus:
    """Letters below the number of each GPU; those of the key line are no links."""
    lines = read_lines(PROBE, bare(text), max_lines=5000, max_line=1200)
    gpus: list[DcgmLinks] = []
    switches: list[DcgmLinks] | None = None
    into, at = gpus, None
    head = key = False
    for number, line in numbered(lines):
        stripped = line.strip()
        if _LINKS.match(line) and at is not None:
            _add(into, at, line, number)
            at = None
            continue
        if at is not None:
            raise ParseError(PROBE, number, f"no links below {at[0]}: {stripped[:60]!r}")
        if gpu := _GPU.match(line):
            into, at = gpus, (int(gpu[1]), number)
        elif switch := _SWITCH.match(line):
            switches = [] if switches is None else switches
            into, at = switches, (int(switch[1]), number)
        elif stripped.startswith("NvSwitches:") or stripped == "No NvSwitches found.":
            switches = [] if switches is None else switches
        elif stripped.startswith("Key: "):
            key = True
        elif "NvLink Link Status" in line or stripped == "GPUs:":
            head = True
        elif not (_FRAME.match(stripped) or "dcgmi nvlink" in line):
            raise ParseError(PROBE, number, f"not a line of dcgmi nvlink -s: {stripped[:60]!r}")
    if not gpus:
        raise ParseError(PROBE, 0, "no GPU with links")
    return DcgmNvlinkStatus(
        gpus=tuple(gpus),
        switches=None if switches is None else tuple(switches),
        complete=head and key and at is None,
    )


def parse_dcgm_nvlink_errors(text: str) -> DcgmNvlinkErrors:
    """Counters of each link of the one GPU that the header names."""
    lines = read_lines(PROBE, bare(text), max_line=1024 * 1024)
    start = json_start(lines)
    if start is None:
        raise ParseError(PROBE, 0, "no JSON")
    root = as_dict(load_json(PROBE, "\n".join(lines[start:])))
    header = [as_str(word) or "" for word in as_list(root.get("header"))]
    numbers = [as_int(word.removeprefix("GPU ")) for word in header if word.startswith("GPU ")]
    if "NVLINK Error Counts" not in header or len(numbers) != 1 or numbers[0] is None:
        raise ParseError(PROBE, start + 1, "the header is not 'NVLINK Error Counts' of one GPU")
    finder = Finder("\n".join(lines))
    links: list[DcgmLinkErrors] = []
    for name, entry in as_dict(root.get("body")).items():
        match, counters = _LINK.match(name), as_dict(as_dict(entry).get("children"))
        line = finder.key(name)
        if match is None or not counters:
            raise ParseError(PROBE, line, f"not the counters of a link: {name[:40]!r}")
        counts = {key: as_int(as_dict(value).get("value")) for key, value in counters.items()}
        links.append(DcgmLinkErrors(index=int(match[1]), line=line, counts=counts))
    if not links or len({link.index for link in links}) != len(links):
        raise ParseError(PROBE, start + 1, "no links, or one of them twice")
    return DcgmNvlinkErrors(gpu=numbers[0], links=tuple(links))
