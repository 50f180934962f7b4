"""Remove what must not leave the site, and keep what the verdicts need.

Equal values get equal placeholders within one snapshot, in the shape of the original, so that a
redacted snapshot is judged like the original: two GPUs keep two different UUIDs. Addresses become
ones reserved for documentation (RFC 5737, RFC 3849), MAC addresses locally administered ones.
"""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any, Callable, Dict, List, Match, Tuple

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_MAC = re.compile(r"(?<![0-9A-Fa-f:.])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:.])")
_IB_GUID = re.compile(
    r"(?<![0-9A-Fa-f:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9A-Fa-f:])|"
    r"(?i:(?<=guid)\W{0,4}(?:0x)?[0-9a-f]{16}\b)|(?<=-g )0x[0-9a-fA-F]{16}\b"
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]\d|\d)")
_IPV6 = re.compile(r"(?<![0-9A-Fa-f:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[\d.]+)?")
_HEX_ID = re.compile(r"\b[0-9a-f]{32}\b")

#: (what precedes the value, the value): the value is replaced, what precedes it stays.
_SERIALS = (
    re.compile(r"(?i)(<(?:\w*serial\w*|asset_tag)>\s*)([^<\s][^<]*?)(?=\s*</)"),
    re.compile(
        r"(?i)(\bserial(?:[ _-]?(?:number|no\.?))?(?:\s*[:=]\s*|\s+is\s+))([A-Z0-9][\w.-]{3,})"
    ),
    re.compile(r"(\[(?:SN|AS|V\d)\][^:\n]*:\s*)(\S.*)"),
    re.compile(r"(?i)(\bguid\s*[:=]\s*)(0x[0-9a-f]{6,})"),
)
_SECRETS = (
    re.compile(
        r"(?i)((?:password|passwd|passphrase|token|secret|api[_-]?key|access[_-]?key|credential)"
        r"[\w-]*[\"']?\s*[=:]\s*[\"']?)([^\s\"',;]+)"
    ),
    re.compile(r"(?i)(\bauthorization:\s*)(.+)"),
    re.compile(r"(?i)(\bbearer\s+)([\w.~+/=-]+)"),
    re.compile(r"(://[^\s/:@]*:)([^\s/@]+)(?=@)"),
    re.compile(r"()(\beyJ[\w-]{5,}\.[\w-]+\.[\w-]+)"),
    re.compile(r"()(\bK10[0-9a-f]{64}::\S+)"),
    re.compile(r"()(\b(?:hf_|ghp_|gho_|glpat-|nvapi-|xox[bp]-)[\w-]{10,})"),
    re.compile(r"()(\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)"),
)
_NOT_SERIAL = {"n/a", "none", "unknown"}
_KEEP_NAMES = {"localhost", "root", "node", "ubuntu", "debian", "kernel", "nvidia", "linux", ""}


class _Names:
    """Hands out the same placeholder for the same value."""

    def __init__(self) -> None:
        self._given: Dict[Tuple[str, str], str] = {}
        self._count: Dict[str, int] = {}

    def get(self, kind: str, value: str, make: Callable[[int], str]) -> str:
        key = (kind, value.lower())
        if key not in self._given:
            self._count[kind] = self._count.get(kind, 0) + 1
            self._given[key] = make(self._count[kind])
        return self._given[key]


class Redactor:
    """Redacts texts of one node. ``names``: host and user names to remove."""

    def __init__(self, names: List[str]) -> None:
        self._names = _Names()
        known = sorted({n for n in names if n.lower() not in _KEEP_NAMES and len(n) > 1}, key=len)
        self._words = [(re.compile(r"(?<![\w.-])%s(?![\w-])" % re.escape(n)), n) for n in known]
        self._words.reverse()  # longest first: the domain name before its first label

    def text(self, text: str) -> str:
        """The text with every value that identifies somebody or something replaced."""
        for pattern in _SECRETS:
            text = pattern.sub(lambda m: m.group(1) + "REDACTED", text)
        for pattern in _SERIALS:
            text = pattern.sub(self._serial, text)
        text = _UUID.sub(self._uuid, text)
        text = _MAC.sub(
            lambda m: self._names.get("mac", m.group(), lambda n: _colons(0x020000000000 + n, 2)),
            text,
        )
        text = _IB_GUID.sub(self._guid, text)
        text = _IPV4.sub(self._ipv4, text)
        text = _IPV6.sub(self._ipv6, text)
        text = _HEX_ID.sub(lambda m: self._names.get("id", m.group(), lambda n: "%032x" % n), text)
        for pattern, name in self._words:
            text = pattern.sub(self._names.get("name", name, lambda n: "name-%d" % n), text)
        return text

    def _serial(self, match: "Match[str]") -> str:
        value = match.group(2)
        if value.lower() in _NOT_SERIAL:
            return match.group()
        return match.group(1) + self._names.get("serial", value, lambda n: "REDACTED%05d" % n)

    def _uuid(self, match: "Match[str]") -> str:
        if match.group() == _ZERO_UUID:  # means "none"; checks read it
            return match.group()
        return self._names.get(
            "uuid", match.group(), lambda n: "%08x-0000-4000-8000-%012x" % (n, n)
        )

    def _guid(self, match: "Match[str]") -> str:
        digits = re.sub(r"[^0-9a-fA-F]", "", match.group().lower().replace("0x", ""))[-16:]
        new = self._names.get("guid", digits, lambda n: "%016x" % (0x0200000000000000 + n))
        if match.group().count(":") == 3:
            return ":".join(new[i : i + 4] for i in range(0, 16, 4))
        return match.group()[: len(match.group()) - 16] + new

    def _ipv4(self, match: "Match[str]") -> str:
        try:
            address = ipaddress.IPv4Address(match.group())
        except ValueError:
            return match.group()
        if address.is_loopback or address.is_unspecified:
            return match.group()
        return self._names.get(
            "ipv4",
            str(address),
            lambda n: "192.0.2.%d" % n if n < 255 else "198.51.100.%d" % (n % 255),
        )

    def _ipv6(self, match: "Match[str]") -> str:
        try:
            address = ipaddress.IPv6Address(match.group())
        except ValueError:
            return match.group()
        if address.is_loopback or address.is_unspecified:
            return match.group()
        return self._names.get("ipv6", str(address), lambda n: "2001:db8::%x" % n)


def _colons(value: int, width: int) -> str:
    digits = "%012x" % value
    return ":".join(digits[i : i + width] for i in range(0, 12, width))


def local_names(host: Dict[str, Any]) -> List[str]:
    """Names of this node and of its people: host name, its first label, login users."""
    hostname = str(host.get("hostname", ""))
    names = [hostname, hostname.partition(".")[0]]
    try:
        import pwd

        names += [entry.pw_name for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 60000]
    except (ImportError, OSError):
        pass
    return names


def redact_snapshot(snapshot: Dict[str, Any]) -> Dict[str, Any]:
    """The snapshot with texts redacted and ``redacted`` set. The original is not changed."""
    copy: Dict[str, Any] = json.loads(json.dumps(snapshot))
    redactor = Redactor(local_names(copy["host"]))
    for result in copy["probes"].values():
        for field in ("stdout", "stderr", "note"):
            result[field] = redactor.text(result[field])
    copy["host"] = {
        key: redactor.text(value) if isinstance(value, str) else value
        for key, value in copy["host"].items()
    }
    copy["redacted"] = True
    return copy
