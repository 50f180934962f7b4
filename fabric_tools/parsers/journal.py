"""Messages out of `journalctl -o json`, `-o verbose` and `-o export`; other forms stay as they are.

Evidence: systemd's documentation of its export formats (format unverified).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from fabric_tools.parsers.base import ParseError

_VERBOSE = re.compile(r"\s{0,8}MESSAGE=(.*)$")
_BOOT_ID = re.compile(r"\s{0,8}_BOOT_ID=([0-9a-f]{32})$")
_TRANSPORT = re.compile(r"\s{0,8}_TRANSPORT=(\w{1,20})$")
_ENTRY = re.compile(r"\w{3} \d{4}-\d\d-\d\d .{1,60} \[s=|__CURSOR=")


def messages(probe: str, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Each message with its line; ``-- Boot ID --`` stands where the boot changes."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    if first.startswith("{") and '"MESSAGE"' in first:
        return _changes(_of_json(probe, lines))
    if _ENTRY.match(first):
        return _changes(_of_fields(lines))
    return enumerate(lines, start=1)


def _changes(entries: Iterator[tuple[int, str, str]]) -> Iterator[tuple[int, str]]:
    last = ""
    for number, boot, message in entries:
        if last and boot and boot != last:
            yield number, f"-- Boot {boot} --"
        last = boot or last
        yield number, message


def _of_json(probe: str, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise ParseError(probe, number, "a line of JSON that is cut or damaged") from None
        if not isinstance(entry, dict):
            raise ParseError(probe, number, "not an entry of the journal")
        message, boot = entry.get("MESSAGE"), entry.get("_BOOT_ID")
        if entry.get("_TRANSPORT", "kernel") != "kernel":
            continue
        if not isinstance(message, str):  # bytes that are no text: null or numbers
            message = ""
        yield number, boot if isinstance(boot, str) else "", f"kernel: {message}"


def _of_fields(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    number, message, boot, transport = 0, "", "", "kernel"
    for at, line in enumerate([*lines, "__CURSOR="], start=1):
        if _ENTRY.match(line):
            if number and transport == "kernel":
                yield number, boot, f"kernel: {message}"
            number, message, boot, transport = 0, "", "", "kernel"
        elif match := _VERBOSE.match(line):
            number, message = at, match[1]
        elif match := _BOOT_ID.match(line):
            boot = match[1]
        elif match := _TRANSPORT.match(line):
            transport = match[1]
