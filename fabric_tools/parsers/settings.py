"""Settings of the system: ``/etc/environment``, apt, sysctl, limits, trusted certificates.

Evidence: real captures of Debian 12 (apt-config 2.6, sysctl of procps 4, limits.conf of PAM 1.5),
pam_env(8) and limits.conf(5) for what their files may hold.
"""

from __future__ import annotations

import re

from fabric_tools.models.os_state import (
    AptConfig,
    Environment,
    LimitLine,
    Limits,
    Setting,
    Sysctls,
    TrustStore,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import load_json, numbered, object_of, read_lines, text_of

_ASSIGN = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w{0,200})=(.*)$", re.ASCII)
_APT = re.compile(r"([A-Za-z0-9][^\s\"]{0,500}|::) \"(.*)\";$")
_SYSCTL = re.compile(r"([A-Za-z0-9_][\w./:@*-]{1,200}) = ?(.*)$", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HEAD = re.compile(r"==> (/\S{1,300}) <==$")


def parse_environment(text: str) -> Environment:
    """As pam_env reads it: quotes around a value fall away, the last of a name counts.

    An empty file is whole: nothing is set. A line that is no assignment is refused.
    """
    values: dict[str, Setting] = {}
    for number, line in numbered(read_lines("environment", text, max_lines=5000)):
        if line.lstrip().startswith("#"):
            continue
        match = _ASSIGN.match(line)
        if match is None:
            raise ParseError("environment", number, "not NAME=value")  # it may be a secret
        value = match[2].strip()
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        values[match[1]] = Setting(line=number, value=value)
    return Environment(values=values)


def parse_apt_config(text: str) -> AptConfig:
    """One ``Name "value";`` a line; a name that ends in ``::`` is an entry of a list."""
    values: dict[str, Setting] = {}
    lists: dict[str, list[Setting]] = {}
    for number, line in numbered(read_lines("apt_config", text, max_lines=20_000)):
        match = _APT.match(line)
        if match is None:
            name = line.partition('"')[
                0
            ].strip()  # the value may be a secret: a proxy with password
            raise ParseError("apt_config", number, f"not a setting of apt: {name[:60]!r}")
        name, setting = match[1].lower(), Setting(line=number, value=match[2])
        if name.endswith("::"):
            lists.setdefault(name, []).append(setting)
        elif name in values:
            raise ParseError("apt_config", number, f"{name[:60]} stands there twice")
        else:
            values[name] = setting
    if "apt" not in values or "dir" not in values or not text.endswith("\n"):
        raise ParseError("apt_config", 0, "no APT or no Dir settings (cut?)")
    return AptConfig(values=values, lists={name: tuple(all_) for name, all_ in lists.items()})


def parse_sysctl(text: str) -> Sysctls:
    """One ``name = value`` a line; lines of sysctl's own troubles are passed over.

    A name that stands there with several values is none: no key that is asked for has more.
    """
    values: dict[str, Setting] = {}
    several: set[str] = set()
    for number, line in numbered(read_lines("sysctl", text)):
        if line.startswith("sysctl: "):
            continue
        match = _SYSCTL.match(line)
        if match is None:
            # Values of some keys have several lines (binfmt_misc); no key that is asked for has.
            continue
        value = match[2].strip()
        before = values.setdefault(match[1], Setting(line=number, value=value))
        if before.value != value:
            several.add(match[1])
    if "kernel.ostype" not in values:
        raise ParseError("sysctl", 0, "no kernel.ostype: not sysctl -a, or cut")
    return Sysctls(values={name: one for name, one in values.items() if name not in several})


def parse_limits(text: str) -> Limits:
    """JSON of the files: ``limits.conf`` first, then ``limits.d`` by name, as PAM reads them.

    A line that PAM does not understand is passed over, as PAM does.
    """
    files = object_of("limits", load_json("limits", text), "the text")
    found: list[LimitLine] = []
    for path in sorted(files, key=lambda name: ("/limits.d/" in name, name)):
        held = text_of("limits", object_of("limits", files[path], path[:80]), "text") or ""
        try:
            lines = read_lines("limits", held, max_lines=20_000)
        except ParseError as error:  # its line is one of the file, not of this text
            raise ParseError("limits", 0, f"{path[:80]}: {error.why}") from None
        for number, line in numbered(lines):
            words = line.partition("#")[0].split()
            if len(words) != 4 or words[1] not in ("soft", "hard", "-"):
                continue
            found.append(
                LimitLine.model_validate(
                    {
                        "path": path, "line": number, "domain": words[0], "kind": words[1],
                        "item": words[2], "value": words[3],
                    }
                )
            )  # fmt: skip
    if not files:
        raise ParseError("limits", 0, "no file")
    return Limits(lines=tuple(found))


def parse_trust_store(text: str) -> TrustStore:
    """``==> PATH <==`` and one fingerprint a line."""
    path, found = "", dict[str, int]()
    for number, line in numbered(read_lines("trust_store", text)):
        head = _HEAD.match(line)
        if head and not path:
            path = head[1]
        elif path and _FINGERPRINT.fullmatch(line.strip()):
            found.setdefault(line.strip(), number)
        else:
            raise ParseError("trust_store", number, f"not a fingerprint: {line.strip()[:60]!r}")
    if not path or not text.endswith("\n"):
        raise ParseError("trust_store", 0, "no path of a bundle, or cut")
    return TrustStore(path=path, fingerprints=found)
