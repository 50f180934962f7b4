"""containerd's `config.toml` as K3s renders it, versions 2 and 3, and its template.

Evidence: five texts re-rendered from facts (K3s 1.36 with containerd 2.3, RKE2 with 1.7, one
template; three are excerpts).
"""

from __future__ import annotations

import re
import tomllib

from fabric_tools.models.cluster import ContainerdConfig, ContainerRuntime
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import MIB, as_dict, as_str, read_lines

PROBE = "k3s_containerd"

_PLUGINS = {"io.containerd.grpc.v1.cri": 2, "io.containerd.cri.v1.runtime": 3}
_LINE = re.compile(r"at line (\d{1,9})")
_TABLE = re.compile(
    r"\s*\[.{0,400}\.runtimes\.(?:'([^']{1,80})'|\"([^\"]{1,80})\"|([\w-]{1,80}))\]"
)


def _load(lines: list[str]) -> dict[str, object]:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        at = _LINE.search(str(error))
        number = min(int(at[1]), len(lines)) if at else 0
        raise ParseError(PROBE, number, f"not TOML: {str(error)[:120]}") from None
    except (ValueError, RecursionError, OverflowError):
        raise ParseError(PROBE, 0, "not usable TOML") from None


def _lines_of(lines: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if match := _TABLE.match(line):
            found.setdefault(match[1] or match[2] or match[3], number)
    return found


def _runtime(name: str, value: object, line: int) -> ContainerRuntime:
    options = as_dict(as_dict(value).get("options"))
    binary, cgroup = options.get("BinaryName"), options.get("SystemdCgroup")
    kind = as_dict(value).get("runtime_type")
    if not isinstance(cgroup, bool | None) or not isinstance(binary, str | None):
        raise ParseError(PROBE, line, f"{name}: BinaryName or SystemdCgroup of the wrong type")
    return ContainerRuntime(
        name=name, line=line, runtime_type=as_str(kind), binary=binary, systemd_cgroup=cgroup
    )


def parse_k3s_containerd(text: str) -> ContainerdConfig:
    """Runtimes by their exact names. Lines of a template are left out: it is not the file read."""
    lines = read_lines(PROBE, text, max_chars=MIB, max_lines=20_000, max_line=1000)
    rendered = not any("{{" in line for line in lines)
    root = _load(["" if "{{" in line else line for line in lines])
    plugins, version = as_dict(root.get("plugins")), root.get("version")
    if isinstance(version, bool) or not (version is None or version in (1, 2, 3)):
        raise ParseError(PROBE, 0, f"unknown version {version!r:.40}")
    found = {_PLUGINS[name]: as_dict(plugins[name]) for name in _PLUGINS if name in plugins}
    with_runtimes = {
        number: containerd
        for number, plugin in found.items()
        if (containerd := as_dict(plugin.get("containerd")))
    }
    if len(with_runtimes) > 1:
        raise ParseError(PROBE, 0, "runtimes of version 2 and of version 3 in one file")
    for number in with_runtimes:
        if isinstance(version, int) and version != number:
            raise ParseError(PROBE, 0, f"version {version} with the plugin names of {number}")
    if not plugins and version is None:
        raise ParseError(PROBE, 0, "neither a version nor a plugin of containerd")
    at = _lines_of(lines)
    containerd = next(iter(with_runtimes.values()), {})
    runtimes = as_dict(containerd.get("runtimes"))
    inferred = version if isinstance(version, int) else next(iter(found), None)
    return ContainerdConfig(
        config_version=inferred if rendered else None,
        rendered=rendered,
        runtimes=tuple(_runtime(n, value, at.get(n, 0)) for n, value in runtimes.items()),
        default_runtime=as_str(containerd.get("default_runtime_name")),
        complete=rendered and version is not None and bool(plugins),
    )
