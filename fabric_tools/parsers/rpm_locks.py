"""`dnf versionlock list`: packages that dnf keeps at one version.

Evidence: the form of dnf 4 by its plugin's documentation (format unverified); the blocks of dnf 5
are refused.
"""

from __future__ import annotations

import re

from fabric_tools.models.boot import RpmLocks
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "rpm_locks"
_LOCK = re.compile(
    r"([A-Za-z0-9][\w.+-]{0,120})-(?:\d{1,6}:)?\d[^-\s]{0,60}-[^-\s]{1,60}\.(?:\*|[a-z0-9_]{2,10})$",
    re.ASCII,
)


def parse_rpm_locks(text: str) -> RpmLocks:
    """``name-epoch:version-release.arch``, one a line; ``!`` (excluded) is refused."""
    found: dict[str, int] = {}
    for number, line in numbered(read_lines(PROBE, text, max_lines=20_000)):
        if line.startswith("Last metadata expiration check:"):
            continue
        match = _LOCK.match(line.strip())
        if match is None:
            raise ParseError(PROBE, number, f"not a lock: {line.strip()[:80]!r}")
        found.setdefault(match[1], number)
    return RpmLocks(lines=found)
