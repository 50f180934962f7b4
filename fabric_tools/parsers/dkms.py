"""`dkms status`: modules built for each kernel.

Evidence: real lines of dkms 2.x (commas) and 3.x (slash); notes in brackets and "added" follow the
tool's source (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import DkmsModule, DkmsStatus
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "dkms"

_LINE = re.compile(
    r"([A-Za-z0-9][\w.+-]{0,80})(?:/|, )([^\s,:/]{1,60})(?:, ([^\s,:]{1,100}), ([^\s,:]{1,20}))?"
    r": (added|built-weak|built|installed-weak|installed|broken)(?![\w-])(.{0,300})$",
    re.ASCII,
)
_NOISE = re.compile(r"Deprecated feature:|(?:\S+@\S+[:~ ].*)?[$#] ?(?:sudo )?dkms ")


def parse_dkms(text: str) -> DkmsStatus:
    """One module a line; no line at all means that dkms knows no module."""
    modules: list[DkmsModule] = []
    for number, line in numbered(read_lines(PROBE, text, max_lines=5000)):
        match = _LINE.match(line.strip())
        if match is None:
            if _NOISE.match(line):
                continue
            raise ParseError(PROBE, number, f"not a line of dkms status: {line.strip()[:100]!r}")
        modules.append(
            DkmsModule(
                line=number,
                name=match[1],
                version=match[2],
                kernel=match[3],
                arch=match[4],
                state=match[5],
                note=match[6].strip(" ()") or None,
            )
        )
    if text and not text.endswith("\n"):  # a note behind the state may be missing
        raise ParseError(PROBE, 0, "the last line is cut")
    return DkmsStatus(modules=tuple(modules))
