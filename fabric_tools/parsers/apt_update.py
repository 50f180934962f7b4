"""Package sources: what `apt-get update` and `dnf makecache` say of every one that is configured.

Evidence: apt 2.6 of Debian 12 against repositories with each of the troubles (real captures). dnf:
its manual, format unverified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric_tools.models.os_state import AptSource, AptUpdate, DnfRepos, SourceTrouble
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "apt_sources"
_MAX_SOURCES = 500
_BLOCK = re.compile(r"==> (.{1,60}) <==$")
_EXIT = re.compile(r"exit (\d{1,3})$", re.ASCII)
_URI = re.compile(r"'(\S{1,1000})' \S{1,1000} \d{1,19}(?: \S{0,200})?$", re.ASCII)
#: Of the lines of progress: what happened, to which source and file. The suite of a flat repository
#: may be empty.
_STEP = re.compile(
    r"(Hit|Get|Ign|Err):\d{1,6} (\S{1,1000}) (\S{0,300}) (InRelease|Release(?:\.gpg)?)(?=\s|$)"
)
_MESSAGE = re.compile(r"([WE]): (\S.*)$")
#: Of messages: a source as in the lines of progress, or the URL of its file.
_NAMED = re.compile(r"([a-z+]{2,20}:/[^\s']{0,1000}) (\S{0,300}) (?:InRelease|Release(?:\.gpg)?)\b")
_URL = re.compile(r"[a-z+]{2,20}:/[^\s']{1,1000}")
#: What dnf says of a repository that it goes on without (format unverified).
_DNF_LOST = re.compile(r"(?:Error|Failed|Ignoring repositories|Cannot)\b")
_USER = re.compile(r"(?<=://)[^\s/@]{1,1000}@")
#: The first that is found in apt's words names the trouble.
_TROUBLES: dict[SourceTrouble, re.Pattern[str]] = {
    "no public key": re.compile(r"NO_PUBKEY|public key is not available"),
    "bad signature": re.compile(
        r"BADSIG|signatures? (?:were|was) invalid|Clearsigned file isn't valid"
        r"|EXPKEYSIG|REVKEYSIG|EXPSIG"
    ),
    "not yet valid": re.compile(r"is not valid yet"),
    "expired": re.compile(r"is expired"),
    "not found": re.compile(r"does not have a Release file|\b404\b"),
    "certificate": re.compile(r"[Cc]ertificate (?:verification failed|is NOT trusted)"),
    "unreachable": re.compile(
        r"Could not (?:resolve|connect|handshake)|Cannot initiate the connection"
        r"|Unable to connect|[Cc]onnection (?:failed|timed out|refused|reset)"
        r"|Network is unreachable|No route to host|Temporary failure|File not found"
    ),
    "refused": re.compile(r"\b(?:401|403|407)\b"),
    "not signed": re.compile(r"is not signed"),
}


def _trouble(words: str) -> SourceTrouble:
    return next((name for name, sign in _TROUBLES.items() if sign.search(words)), "other")


def _bare(words: str) -> str:
    """Words that are shown: without the credentials of an address."""
    return _USER.sub("", words.strip())


def _base(uri: str) -> str:
    """What the signed files of one source have in common, without credentials."""
    bare = re.sub(r"/(?:InRelease|Release(?:\.gpg)?)$", "", _USER.sub("", uri))
    return bare.removesuffix("/.")


def _bases(where: str, suite: str) -> tuple[str, str]:
    """A suite lies under ``dists``, a flat repository where its URI and suite say."""
    uri = _USER.sub("", where).rstrip("/")
    flat = suite.strip("/").removeprefix(".")
    return f"{uri}/dists/{suite}", f"{uri}/{flat}" if flat else uri


@dataclass
class _Source:
    """What is told of one source: ``hints`` stand behind what apt may go without."""

    line: int
    good: bool | None = None
    errors: list[tuple[int, str]] = field(default_factory=list)
    hints: list[tuple[int, str]] = field(default_factory=list)

    def as_fact(self, base: str) -> AptSource:
        if self.good and not self.errors:
            return AptSource(line=self.line, uri=base)
        told = self.errors or self.hints
        words = " ".join(text for _, text in told)
        found = _trouble(words) if words else ("not signed" if self.good is False else "other")
        best = (self.line, "apt says nothing of it")
        number, text = next((item for item in told if _trouble(item[1]) == found), best)
        return AptSource(line=number, uri=base, trouble=found, said=_bare(text)[:300])


class _Reading:
    """What is known of each source while the lines are read."""

    def __init__(self) -> None:
        self.sources: dict[str, _Source] = {}
        self.config: tuple[int, str] | None = None
        self._last: list[tuple[int, str]] | None = None

    def uri(self, line: str, number: int) -> None:
        """A line of --print-uris."""
        if match := _URI.match(line):
            self.sources.setdefault(_base(match[1]), _Source(number))
        elif (message := _MESSAGE.match(line)) is None:
            raise ParseError(PROBE, number, f"not a source of apt: {_bare(line)[:60]!r}")
        elif message[1] == "E":
            self.config = self.config or (number, message[2])

    def answer(self, line: str, number: int) -> None:
        """A line of `apt-get update`."""
        if step := _STEP.match(line):
            source = self._find(_bases(step[2], step[3]))
            if source is None:
                name = _bare(f"{step[2]} {step[3]}")[:80]
                raise ParseError(PROBE, number, f"{name} answers, but is not configured")
            if step[4] != "Release":  # that of a source without InRelease; its signature follows
                source.good = step[1] in ("Hit", "Get")
            self._last = source.errors if step[1] == "Err" else source.hints
        elif line.startswith("  ") and self._last is not None:
            self._last.append((number, line.strip()))
        elif message := _MESSAGE.match(line):
            self._last = None
            self._message(message[1], message[2], number)

    def _find(self, bases: Iterable[str]) -> _Source | None:
        return next((self.sources[base] for base in bases if base in self.sources), None)

    def _message(self, kind: str, words: str, number: int) -> None:
        """Warnings of other things (an old keyring, a misspelt suite) are no trouble here."""
        bases = [base for found in _NAMED.finditer(words) for base in _bases(found[1], found[2])]
        bases += [_base(url.rstrip(".,;:")) for url in _URL.findall(words)]
        source = self._find(bases)
        if source is not None and (kind == "E" or _trouble(words) != "other"):
            source.errors.append((number, words))


def _blocks(probe: str, text: str) -> tuple[list[tuple[int, str, str]], int]:
    """Every line with its number and block, and the exit status at the end."""
    found: list[tuple[int, str, str]] = []
    block, rc = "", None
    for number, line in numbered(read_lines(probe, text, max_lines=20_000)):
        if match := _BLOCK.match(line):
            block = match[1]
            end = _EXIT.match(block)
            rc = int(end[1]) if end else rc
        elif rc is not None:
            raise ParseError(probe, number, "text behind the exit status")
        else:
            found.append((number, block, line))
    if rc is None or not text.endswith("\n"):
        raise ParseError(probe, 0, "no exit status at the end (cut?)")
    return found, rc


def parse_apt_update(text: str) -> AptUpdate:
    """Every configured source and its trouble, if it has one."""
    lines, rc = _blocks(PROBE, text)
    reading = _Reading()
    for number, block, line in lines:
        if block == "apt-get update --print-uris":
            reading.uri(line, number)
        elif block == "apt-get update":
            reading.answer(line, number)
        else:
            raise ParseError(PROBE, number, "outside of the blocks of apt-get")
    if len(reading.sources) > _MAX_SOURCES:
        raise ParseError(PROBE, 0, f"more than {_MAX_SOURCES} sources")
    sources = tuple(source.as_fact(base) for base, source in reading.sources.items())
    if rc and reading.config is None and not any(source.trouble for source in sources):
        raise ParseError(PROBE, 0, f"exit status {rc}, but no source has a trouble")
    at, why = reading.config or (0, "")
    why = _bare(why)
    return AptUpdate(sources=sources, rc=rc, config=why[:300] or None, line=at)


def parse_dnf_makecache(text: str) -> DnfRepos:
    """The first error of dnf, or that it ended well."""
    lines, rc = _blocks("dnf_makecache", text)
    told = [(number, line.strip()) for number, _, line in lines]
    if not rc:
        # A repository with skip_if_unavailable is passed over, and dnf ends well.
        lost = next(((n, words) for n, words in told if _DNF_LOST.match(words)), None)
        if lost is None:
            return DnfRepos()
        return DnfRepos(trouble=_USER.sub("", lost[1])[:300], line=lost[0])
    if not told:
        raise ParseError("dnf_makecache", 0, f"exit status {rc} without a word")
    wrong = next(((n, words) for n, words in told if words.startswith("Error")), told[0])
    return DnfRepos(trouble=_bare(wrong[1])[:300], line=wrong[0])
