"""Read ``~/.ssh/config`` for what paramiko can honour, and refuse by name what it cannot.

An option that would silently mean something else here than with ``ssh`` is refused; the way out is
always ``--transport openssh``, which is the system's own client.
"""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko

from fabric_tools.errors import UsageError

#: Options that change who is trusted, how the node is reached, what authenticates or what protects
#: the connection, and that this transport does not honour.
REFUSED = (
    "addressfamily",
    "bindaddress",
    "bindinterface",
    "canonicalizehostname",
    "certificatefile",
    "ciphers",
    "hostkeyalgorithms",
    "hostkeyalias",
    "identityagent",
    "kexalgorithms",
    "knownhostscommand",
    "macs",
    "pkcs11provider",
    "proxycommand",
    "pubkeyacceptedalgorithms",
    "pubkeyacceptedkeytypes",
    "revokedhostkeys",
    "securitykeyprovider",
)
#: Values that say "as if it were not set".
_UNSET = ("no", "none", "any")
#: Their values may hold tokens (%d) and variables (${HOME}), which are not expanded here.
_PLAIN = ("userknownhostsfile", "globalknownhostsfile")
_MAX_BYTES = 1024 * 1024
_MAX_INCLUDE_DEPTH = 8
_WAY_OUT = "use --transport openssh"


@dataclass(frozen=True, slots=True)
class Hop:
    """One host to connect to, as the configuration resolves it."""

    alias: str
    hostname: str
    port: int
    user: str | None
    identity_files: tuple[Path, ...]
    identities_only: bool
    known_hosts: tuple[Path, ...]
    proxy_jump: tuple[str, ...]


class SshConfig:
    """The user's configuration file; an absent one is empty."""

    def __init__(self, path: Path | None, own: Mapping[str, str] | None = None) -> None:
        """``own``: options (lower case) for the target itself, before those of the file."""
        self._own = own or {}
        self._path = path or Path("~/.ssh/config").expanduser()
        if path and not path.is_file():
            raise UsageError("no such file", where=str(path), try_next="give an ssh_config file")
        text = _read(self._path, 0) if self._path.is_file() else ""
        try:
            self._config = paramiko.SSHConfig.from_text(text)
        except paramiko.ConfigParseError as error:
            raise UsageError(str(error), where=str(self._path), try_next=_WAY_OUT) from error

    def resolve(self, target: str, *, is_target: bool = False) -> Hop:
        """``[user@]host[:port]`` or an alias of the file. Raises ``UsageError`` by option name.

        ``is_target``: the node itself and no jump host, so that its own options count.
        """
        user, host, port = split_target(target)
        try:
            found = self._config.lookup(host)
        except (paramiko.ConfigParseError, ImportError, OSError) as error:
            raise UsageError(
                f"not understood for host {host}: {error}", where=str(self._path), try_next=_WAY_OUT
            ) from error
        if is_target:
            found.update(self._own)
        for option in (*REFUSED, *_PLAIN):
            value = str(found.get(option, "none")).lower()
            if value not in _UNSET and (option in REFUSED or re.search(r"%|\$\{", value)):
                raise UsageError(
                    f"{option} is set for host {host} and not honoured by the built-in transport",
                    where=str(self._path), try_next=_WAY_OUT,
                )  # fmt: skip
        hostname = str(found.get("hostname", host))
        _check_name(hostname, str(self._path))
        return Hop(
            alias=host,
            hostname=hostname,
            port=port or _port(str(found.get("port", 22)), f"{self._path}: host {host}"),
            user=user or found.get("user"),
            identity_files=_identities(found.get("identityfile", [])),
            identities_only=str(found.get("identitiesonly", "no")).lower() == "yes",
            known_hosts=_known_hosts(found),
            proxy_jump=_jumps(found.get("proxyjump")),
        )


def split_target(target: str) -> tuple[str | None, str, int | None]:
    """``user@host:port`` (user and port optional, IPv6 in brackets) into its parts."""
    match = re.fullmatch(
        r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]"
        r"|(?P<host>[^\s:@\[\]-][^\s:@\[\]]*))"
        r"(?::(?P<port>\d+))?",
        target,
    )
    if not match:
        raise UsageError(
            f"not a host: {target!r}", where="--host", try_next="write [user@]host[:port]"
        )
    host = match["v6"] or match["host"]
    _check_name(host, "--host")
    return match["user"], host, _port(match["port"], "--host") if match["port"] else None


def _port(text: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise UsageError(f"not a port: {text[:40]}", where=where, try_next="1 to 65535")
    return int(text)


def _check_name(host: str, where: str) -> None:
    """What the resolver would raise as a UnicodeError: a label that is empty or too long."""
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise UsageError(f"not a host name: {host[:80]!r}", where=where) from error


def _identities(files: list[str] | str) -> tuple[Path, ...]:
    names = [files] if isinstance(files, str) else files
    return tuple(Path(name).expanduser() for name in names if name.lower() != "none")


def _known_hosts(found: paramiko.SSHConfigDict) -> tuple[Path, ...]:
    user = str(found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
    system = str(found.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts"))
    names = [name for name in f"{user} {system}".split() if name.lower() != "none"]
    return tuple(Path(name).expanduser() for name in names)


def _jumps(value: str | None) -> tuple[str, ...]:
    if not value or value.lower() == "none":
        return ()
    return tuple(part.removeprefix("ssh://") for part in value.split(","))


def _read(path: Path, depth: int) -> str:
    """The file with top-level Includes put in place. What cannot be expanded truly is refused."""
    if depth > _MAX_INCLUDE_DEPTH:
        raise UsageError("Include nests too deep", where=str(path), try_next=_WAY_OUT)
    lines: list[str] = []
    in_block = False
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        keyword = words[0].lower()
        if keyword in ("host", "match"):
            in_block = True
        if keyword == "match" and (refused := _refused_criterion(words[1:])):
            raise UsageError(
                f"Match {refused} is not honoured by the built-in transport",
                where=f"{path}:{number}", try_next=_WAY_OUT,
            )  # fmt: skip
        if keyword != "include":
            lines.append(line)
            continue
        if in_block:
            # Inside a block an Include counts only for that block; flat text cannot say so.
            raise UsageError(
                "Include inside a Host or Match block is not honoured by the built-in transport",
                where=f"{path}:{number}", try_next=_WAY_OUT,
            )  # fmt: skip
        for included in _included(words[1] if len(words) > 1 else ""):
            # An included file ends its own blocks: what follows counts for every host again.
            lines += [_read(included, depth + 1), "Host *"]
    return "\n".join(lines)


def _refused_criterion(rest: list[str]) -> str:
    """The first criterion that paramiko would evaluate wrongly or take for true.

    ``user`` is one: the file does not know the user that was given with the host.
    """
    words = iter(re.split(r"[\s=]+", rest[0].lower()) if rest else ())
    for word in words:
        name = word.removeprefix("!").strip('"')
        if name in ("host", "originalhost", "localuser"):
            next(words, "")  # its patterns
        elif name not in ("all", "canonical", "final"):
            return name
    return ""


def _included(patterns: str) -> list[Path]:
    try:
        names = shlex.split(patterns)
    except ValueError as error:
        raise UsageError(f"Include {patterns}: {error}", try_next=_WAY_OUT) from error
    found: list[Path] = []
    for pattern in names:
        path = Path(pattern).expanduser()
        full = path if path.is_absolute() else Path("~/.ssh").expanduser() / path
        found += [Path(name) for name in sorted(glob.glob(str(full)))]
    return [path for path in found if path.is_file()]


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            text = handle.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from error
    if len(text) > _MAX_BYTES:
        raise UsageError("more than 1 MiB", where=str(path), try_next=_WAY_OUT)
    return text
