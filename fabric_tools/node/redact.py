"""Remove what must not leave the site, and keep what the verdicts need.

Equal values get equal placeholders within one snapshot, in the shape of the original, so that a
redacted snapshot is judged like the original: two GPUs keep two different UUIDs. Addresses become
ones for documentation or benchmarks (RFC 5737, 3849, 2544), MAC addresses locally administered
ones.

A host or user may be called like a word of the tools (``gpu``, ``nvidia``). Such a name is replaced
only where it can be nothing else (before ``kernel:``, under ``/home``, before ``@``).
"""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any, Callable, Dict, Iterable, List, Match, Pattern, Set, Tuple

# A node may print anything: repeated parts are bounded where text that almost matches would
# otherwise be read again and again.
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_MAC = re.compile(
    r"(?<![0-9A-Fa-f:.-])[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:.-])"
    r"|(?<=\benx)[0-9A-Fa-f]{12}\b"
)
_IB_GUID = re.compile(
    r"(?<![0-9A-Fa-f:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![0-9A-Fa-f:])|"
    r"(?i:(?<=guid)\W{0,4}(?:0x)?[0-9a-f]{16}\b)|(?<=-g )0x[0-9a-fA-F]{16}\b"
)
#: An IPoIB address: queue pair, prefix and GUID, 20 bytes.
_IPOIB = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){19}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]\d|\d)")
#: K3s' default ranges of pods and services are the same everywhere; NO_PROXY must name them.
_EVERYWHERE = {"10.42.0.0", "10.43.0.0"}
_BENCHMARK = ipaddress.IPv4Address("198.18.0.0")
#: Eight groups of four digits, as the kernel prints GIDs.
_GID_CHARS = 39
#: Not behind a letter: apt's settings are called Acquire::http, Dir::Cache. The letter of a line
#: end in JSON, as in what the collector read from files, is none.
_IPV6 = re.compile(
    r"(?:(?<=\\[nrt])|(?<![0-9A-Za-z:.]))[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[\d.]+)?"
)
_HEX_ID = re.compile(r"\b[0-9a-fA-F]{32}\b")
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}"
    r"(?!(?:service|socket|slice|scope|mount|target|timer)\b)[A-Za-z]{2,63}(?![\w-])"
)
_PRIVATE_KEY = re.compile(
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?:(?:(?!-----BEGIN).){0,20000}?-----END [A-Z ]*PRIVATE KEY-----|[A-Za-z0-9+/=\s]*)"
)

#: (what precedes the value, the value): the value is replaced, what precedes it stays.
_SERIALS = (
    re.compile(
        r"(?i)(<(?:\w{0,40}serial\w{0,40}|asset_tag)>\s*)([^<\s][^<]{0,200}?)(?=\s{0,40}</)"
    ),
    re.compile(
        r"(?i)(\bserial(?:[ _-]?(?:number|no\.?))?(?:\s*[:=]\s*|\s+is\s+))([A-Z0-9][\w.-]{3,})"
    ),
    re.compile(r"(\[(?:SN|AS|V\d)\][^:\n]{0,80}:\s*)(\S.*)"),
    re.compile(r"(?i)(\b(?:guid\s*[:=]|(?:\w+_)?pdi\s*(?:[:=]|>))\s*)(0x[0-9a-f]{6,})"),
    re.compile(r"(?i)(\bserial number\s+)([0-9a-f]{2}(?:-[0-9a-f]{2}){7})\b"),
    re.compile(r"(?i)(\b(?:PART)?UUID=)([0-9a-f]{8}-[0-9a-f]{2}|[0-9a-f]{4}-[0-9a-f]{4})(?![\w-])"),
    re.compile(r"(?i)(\b[ni]qn\.)([\w.:-]+)"),
    re.compile(r"(?i)(\b(?:naa\.|eui\.|wwn-0x))([0-9a-f]{6,})"),
    # ip -j -d link
    re.compile(r"(\"(?:ifalias|phys_switch_id|phys_port_id)\"\s*:\s*\")([^\"\n]+)"),
)
#: What lldpcli prints of switches and cables, in its two forms of JSON (json, json0).
_NEIGHBOURS = (
    re.compile(
        r"(\"(?:descr|serial|asset|manufacturer|unique-id|location)\"\s*:\s*"
        r"(?:\[\s*\{\s*\"value\"\s*:\s*)?\")([^\"\n]+)"
    ),
    re.compile(r"(\"name\"\s*:\s*\[\s*\{\s*\"value\"\s*:\s*\")([^\"\n]+)"),
    re.compile(
        r"(\"chassis\"\s*:\s*\{\s*\")"
        r"((?!(?:id|descr|name|ttl|mgmt-ip|mgmt-iface|capability)\")[^\"\n]+)"
    ),
)
#: Names of processes are people's projects and paths. Their lines stay: checks read them.
_PROCESSES = (
    re.compile(r"(<process_name>)([^<]+)(?=</)"),
    re.compile(r"(\bpid=[^,\n]{0,40}, name=)([^<,\n][^,\n]*)"),  # Xid
    re.compile(r"(?m)(^ +Type +: [CGM+]{1,3}\n +Name +: )(\S.*)"),
    re.compile(
        r"(?m)(^\| +\d+ +\S+ +\S+ +\d+ +[CGM+]{1,3} +)(\S.{0,200}?)"
        r"(?= {1,80}(?:\d+MiB|N/A) +\|$)"
    ),
)
_SECRET = (
    r"(?:password|passwd|passphrase|token|secret|api[_-]?key|access[_-]?key|credential)[\w-]{0,40}"
)
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|"
_SECRETS = (
    re.compile(r"(?i)(%s[\"']?\s*[=:]\s*)(%s[^\s\"',;]+)" % (_SECRET, _QUOTED)),
    re.compile(r"(?i)(--?%s\s+)(%s[^\s\"',;]+)" % (_SECRET, _QUOTED)),
    re.compile(r"(?i)(\bauthorization:\s*)(.+)"),
    re.compile(r"(?i)(\bbearer\s+)([\w.~+/=-]+)"),
    re.compile(r"(://)([^\s/@]{1,2000})(?=@)"),
    re.compile(r"()(\beyJ[\w-]{5,}\.[\w-]+\.[\w-]+)"),
    re.compile(r"()(\bK10[0-9a-f]{64}::\S+)"),
    re.compile(r"()(\b(?:hf_|ghp_|gho_|glpat-|nvapi-|xox[bp]-)[\w-]{10,})"),
    re.compile(r"()(\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)"),
)
_NOT_SERIAL = {"n/a", "none", "unknown"}
_NOBODY = {"localhost", "root", ""}
#: Words that checks read, or that stand beside what they read.
_WORDS = """
active auto board bridge bus completed controller corporation count cuda current daemon dcgm
debian default device disabled display driver enabled error exited fabric fabricmanager failed
failure fallen fatal gpu gpus host ib in-progress inactive link kernel linux loaded manager max
mem memory mig mlx mode module name nic no node none normal not-found nouveau nvlink nvidia nvrm
nvswitch ok open pci pcie pending persistence phb pix product pxb release remapped row running
server state success supported switch sxid sys system systemd timeout ubuntu unit unknown user
version volatile xid yes
"""
#: H100, GB200, NV18, HBM3, GPU0 and their like; gpu042 is a host.
_PRODUCT = re.compile(r"[a-z]{0,3}(?:0|[1-9]\d*)[a-z]?|[dh]gx\w*")


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
    """Redacts texts of one node.

    ``names``: host and user names to remove. ``words``: what the tools say, beside what is known.
    """

    def __init__(self, names: Iterable[str], words: Iterable[str] = ()) -> None:
        self._names = _Names()
        known = {name.lower() for name in names} - _NOBODY
        ours = set(_WORDS.split()).union(word.lower() for word in words)
        # Longest first: the domain name before its first label.
        self._words = [
            (_name_pattern(name, ours), name) for name in sorted(known, key=len, reverse=True)
        ]

    def text(self, text: str) -> str:
        """The text with every value that identifies somebody or something replaced."""
        text = _PRIVATE_KEY.sub("REDACTED PRIVATE KEY", text)
        for pattern in _SECRETS:
            text = pattern.sub(lambda m: m.group(1) + "REDACTED", text)
        for pattern in _SERIALS:
            text = pattern.sub(self._serial, text)
        if '"lldp"' in text[:4096]:
            for pattern in _NEIGHBOURS:
                text = pattern.sub(self._neighbour, text)
        for pattern in _PROCESSES:
            text = pattern.sub(self._process, text)
        text = _EMAIL.sub(
            lambda m: self._names.get("mail", m.group(), lambda n: "mail-%d@example.org" % n), text
        )
        text = _UUID.sub(self._uuid, text)
        text = _IPOIB.sub(self._ipoib, text)
        text = _MAC.sub(self._mac, text)
        text = _IB_GUID.sub(self._guid, text)
        text = _IPV4.sub(self._ipv4, text)
        text = _IPV6.sub(self._ipv6, text)
        text = _HEX_ID.sub(lambda m: self._names.get("id", m.group(), lambda n: "%032x" % n), text)
        for pattern, name in self._words:
            text = pattern.sub(self.name(name), text)
        return text

    def name(self, name: str) -> str:
        """The placeholder of a host or user name."""
        return self._names.get("name", name, lambda n: "name-%d" % n) if name else ""

    def _serial(self, match: "Match[str]") -> str:
        value = match.group(2)
        if value.lower() in _NOT_SERIAL:
            return match.group()
        return match.group(1) + self._names.get("serial", value, lambda n: "REDACTED%05d" % n)

    def _neighbour(self, match: "Match[str]") -> str:
        value = match.group(2)
        return match.group(1) + self._names.get("neighbour", value, lambda n: "neighbour-%d" % n)

    def _ipoib(self, match: "Match[str]") -> str:
        new = self._names.get("ipoib", match.group(), lambda n: "%040x" % n)
        return ":".join(new[i : i + 2] for i in range(0, 40, 2))

    def _process(self, match: "Match[str]") -> str:
        return match.group(1) + self._names.get(
            "process", match.group(2), lambda n: "process-%d" % n
        )

    def _mac(self, match: "Match[str]") -> str:
        separator = match.group(1) or ""
        digits = match.group().replace(separator, "") if separator else match.group()
        new = self._names.get("mac", digits, lambda n: "%012x" % (0x020000000000 + n))
        return separator.join(new[i : i + 2] for i in range(0, 12, 2))

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
        if address.is_loopback or address.is_unspecified or str(address) in _EVERYWHERE:
            return match.group()
        return self._ipv4_name(address)

    def _ipv4_name(self, address: ipaddress.IPv4Address) -> str:
        return self._names.get(
            "ipv4",
            str(address),
            # RFC 5737 has few; 198.18.0.0/15 (RFC 2544) is for benchmarks and no site's either
            lambda n: "192.0.2.%d" % n if n < 255 else str(_BENCHMARK + n % 2**17),
        )

    def _ipv6(self, match: "Match[str]") -> str:
        try:
            address = ipaddress.IPv6Address(match.group())
        except ValueError:
            return match.group()
        if address.is_loopback or address.is_unspecified:
            return match.group()
        if len(match.group()) == _GID_CHARS:
            return self._gid(address)
        return self._names.get("ipv6", str(address), lambda n: "2001:db8::%x" % n)

    def _gid(self, address: ipaddress.IPv6Address) -> str:
        """A GID is written out in full, and of what kind it is must stay readable."""
        if address.ipv4_mapped is not None:
            new = ipaddress.IPv6Address("::ffff:" + self._ipv4_name(address.ipv4_mapped))
        else:
            head = "fe80::%x" if address.is_link_local else "2001:db8::%x"
            new = ipaddress.IPv6Address(self._names.get("gid", str(address), lambda n: head % n))
        # Not .exploded: from Python 3.13 on it writes a mapped address with dots.
        digits = "%032x" % int(new)
        return ":".join(digits[i : i + 4] for i in range(0, 32, 4))


def _name_pattern(name: str, words: Set[str]) -> "Pattern[str]":
    escaped = re.escape(name)
    if len(name) < 3 or name in words or _PRODUCT.fullmatch(name):
        text = r"(?<=/home/){0}(?![\w-])|(?<=[\]\d] ){0}(?= kernel:)|(?<![\w.-]){0}(?=@)"
        return re.compile("(?i)" + text.format(escaped))
    # With the domain that follows: only the short name may be known.
    return re.compile(r"(?i)(?<!\w)%s(?:\.[a-z0-9-]{1,63}){0,8}(?!\w)" % escaped)


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
    redactor = Redactor(local_names(copy["host"]), _vocabulary(copy["probes"]))
    for result in copy["probes"].values():
        for field in ("stdout", "stderr", "note"):
            result[field] = redactor.text(result[field])
    copy["host"] = {
        key: redactor.text(value) if isinstance(value, str) else value
        for key, value in copy["host"].items()
    }
    copy["host"]["hostname"] = redactor.name(snapshot["host"]["hostname"])
    copy["redacted"] = True
    return copy


def _vocabulary(probes: Dict[str, Any]) -> Set[str]:
    """Words of the commands, and of the XML tags that they answered with."""
    words = set()  # type: Set[str]
    for result in probes.values():
        found = list(result["argv"])
        if result["stdout"].lstrip().startswith("<?xml"):
            found += re.findall(r"<([\w.-]+)", result["stdout"])
        for text in found:
            words.update([text, *re.split(r"[^A-Za-z0-9]+", text)])
    return {word.lower() for word in words}
