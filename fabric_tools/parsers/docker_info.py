"""Runtimes in `docker info`, as text or with `--format '{{json .}}'`.

Evidence: two lines re-rendered from facts; the JSON follows the documentation (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import DockerRuntimes
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    as_dict,
    as_str,
    json_start,
    load_json,
    numbered,
    read_lines,
)

PROBE = "docker_info"

_RUNTIMES = re.compile(r"\s*Runtimes:((?: [\w.-]{1,80}){1,60})$", re.ASCII)
_DEFAULT = re.compile(r"\s*Default Runtime: ([\w.-]{1,80})$", re.ASCII)


def parse_docker_info(text: str) -> DockerRuntimes:
    """Runtimes and the default one."""
    lines = read_lines(PROBE, text, max_line=1024 * 1024)
    start = json_start(lines)
    if start is not None:
        info = as_dict(load_json(PROBE, "\n".join(lines[start:])))
        names = tuple(as_dict(info.get("Runtimes")))
        if not names:
            raise ParseError(PROBE, start + 1, "no Runtimes")
        return DockerRuntimes(
            runtimes=names, default=as_str(info.get("DefaultRuntime")), line=start + 1
        )
    runtimes: tuple[tuple[str, ...], int] | None = None
    default: str | None = None
    for number, line in numbered(lines):
        if match := _RUNTIMES.match(line[:6000]):
            if runtimes is not None:
                raise ParseError(PROBE, number, "Runtimes stands there twice")
            runtimes = (tuple(match[1].split()), number)
        elif match := _DEFAULT.match(line[:200]):
            default = match[1]
    if runtimes is None:
        raise ParseError(PROBE, 0, "no line 'Runtimes:'")
    return DockerRuntimes(runtimes=runtimes[0], default=default, line=runtimes[1])
