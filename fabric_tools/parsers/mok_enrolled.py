"""`mokutil --list-enrolled`: the machine owner's keys.

Evidence: mokutil's own lines ("[key 1]") and those of OpenSSL's X509_print (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import MokKeys
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "mok_enrolled"
_KEY = re.compile(r"\[key (\d{1,4})\]$")
_SUBJECT = re.compile(r"\s+Subject:(?:.*[ ,/])?CN ?= ?(.{1,200})$")
_EMPTY = "MokListRT is empty"


def parse_mok_enrolled(text: str) -> MokKeys:
    """The common name of every key's subject. A key without one is not understood."""
    found: dict[str, int] = {}
    at, named, empty = 0, True, False
    for number, line in numbered(read_lines(PROBE, text)):
        if match := _KEY.match(line.strip()):
            if not named:
                raise ParseError(PROBE, at, "a key without a subject (cut?)")
            at, named = number, False
        elif line.strip() == _EMPTY:
            empty = True
        elif at and (match := _SUBJECT.match(line)):
            found[match[1].split(", ")[0].split("/")[0].strip()] = number
            named = True
        elif not at:
            raise ParseError(PROBE, number, f"not a key of mokutil: {line.strip()[:80]!r}")
    if not named:
        raise ParseError(PROBE, at, "a key without a subject (cut?)")
    if not found and not empty:
        raise ParseError(PROBE, 0, "no key, and not said that there is none")
    return MokKeys(lines=found)
