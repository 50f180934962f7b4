"""`grep -r -H ^ /etc/apt/preferences /etc/apt/preferences.d`: apt's pins, line by line.

Evidence: files of a Debian host; apt_preferences(5).
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import AptPin, AptPins
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "apt_preferences"
_LINE = re.compile(r"(/etc/apt/preferences(?:\.d/[\w.+@-]{1,200})?):(.*)$", re.ASCII)
_FIELD = re.compile(r"(Package|Pin|Pin-Priority|Explanation)\s*:\s*(.*)$", re.IGNORECASE)
#: Files of preferences.d that apt reads: no extension, or this one, and these characters.
_READ = re.compile(r"/etc/apt/preferences(?:\.d/[\w-]+(?:\.pref)?)?$", re.ASCII)


class _Stanza:
    """Lines between two empty ones of one file."""

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line
        self.fields: dict[str, str] = {}
        self.last = ""

    def pin(self) -> AptPin | None:
        if not set(self.fields) - {"explanation"}:
            return None
        missing = {"package", "pin", "pin-priority"} - set(self.fields)
        if missing:
            raise ParseError(PROBE, self.line, f"a stanza without {', '.join(sorted(missing))}")
        priority = self.fields["pin-priority"]
        if not re.fullmatch(r"-?\d{1,6}", priority):
            raise ParseError(PROBE, self.line, f"not a priority: {priority[:40]!r}")
        return AptPin(
            line=self.line,
            file=self.file,
            packages=tuple(self.fields["package"].split()),
            pin=" ".join(self.fields["pin"].split()),
            priority=int(priority),
        )


def parse_apt_preferences(text: str) -> AptPins:
    """Every stanza of every file that apt reads. Comments count as nothing, as in apt."""
    stanzas: list[_Stanza] = []
    open_one: _Stanza | None = None
    for number, line in numbered(read_lines(PROBE, text)):
        match = _LINE.match(line)
        if match is None:
            raise ParseError(PROBE, number, f"not a line of a preferences file: {line[:80]!r}")
        file, said = match[1], match[2]
        if not _READ.match(file) or said.startswith("#"):
            continue
        if not said.strip():
            open_one = None
            continue
        if open_one is None or open_one.file != file:
            open_one = _Stanza(file, number)
            stanzas.append(open_one)
        field = _FIELD.match(said)
        if field is not None:
            name = field[1].lower()
            if name in open_one.fields and name != "explanation":
                raise ParseError(PROBE, number, f"{field[1]} stands twice in one stanza")
            open_one.fields[name] = field[2].strip()
            open_one.last = name
        elif said[0] in " \t" and open_one.last:
            open_one.fields[open_one.last] += " " + said.strip()
        else:
            raise ParseError(PROBE, number, f"not a field: {said[:80]!r}")
    return AptPins(pins=tuple(pin for pin in (s.pin() for s in stanzas) if pin is not None))
