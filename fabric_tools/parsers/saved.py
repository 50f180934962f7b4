"""Takes off what the way of saving put around a tool's output: launchers, shells, terminals.

Evidence: prefixes of mpirun and pdsh and shell prompts in recorded samples; those of srun, kubectl,
prterun, script and ansible follow their documentation (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.parsers.base import ParseError, clean_lines

#: More than any of these tools prints, or a kernel keeps; the bound keeps the time short.
MAX_LINES = 300_001

# Looked for first, because it is much faster than the pattern below.
_STARTS = (
    "(", "[", "$ ", "+", "sudo: ", "Warning: ", "Connection ", "Pseudo-", "Defaulted ", "Unable to",
    "Script ", "srun: ", "```", "exit", "logout",
)  # fmt: skip
# A line that the shell, the terminal or the transport wrote, not the tool.
_AROUND = re.compile(
    r"(?:\([\w.-]{1,40}\) )?(?:[\w.-]{1,64}@[\w.-]{1,64}:[^\s$#]{0,200}[$#]"
    r"|\[[\w.-]{1,64}@[\w.-]{1,64} [^\]]{1,100}\][$#]|[\w.-]{1,64}@[\w.-]{1,64} \S{1,100} %)(?: |$)"
    r"|\$ \S|\+{1,3} (?:sudo )?[a-z][\w./-]{0,60}(?: |$)"
    r"|sudo: unable to resolve host |\[sudo\] password for "
    r"|Warning: Permanently added |Connection to \S{1,100} closed\.|Pseudo-terminal will not be "
    r"|Defaulted container \"|Unable to use a TTY - |Script (?:started|done) on \d"
    r"|srun: job \d{1,12} (?:queued and waiting|has been allocated)"
    r"|[\w.-]{1,64} \| (?:CHANGED|SUCCESS) \| rc=0 >>$|```[a-z]{0,12}$|(?:exit|logout)$"
)
# What a launcher puts before every line. Between the first brackets: it cannot be anything else.
_TAGGED = re.compile(r"\[[^\[\]\s]{1,80}\]<std(?:out|err)>:|\[pod/\S{1,200}\] ", re.ASCII)
_NAMED = re.compile(r" {0,6}\d{1,5}: |[A-Za-z0-9][\w.-]{0,62}: |> ", re.ASCII)
# Programs that name themselves so; the same word before every line is their own.
_PROGRAMS = re.compile(
    r"(?i)(?:NVRM|NVML|kernel|systemd|OpenSM|nvlsm|nv-\S*|nvidia\S*|error|warning|info|srun|sudo"
    r"|modinfo|cat|dmesg|\w*error): "
)
# Of one line, a word before a colon may be the tool's own, unless this follows.
_ALONE = re.compile(r"[\[{]|NVRM version:|GPU \d|Fabric Manager version")
_KUBE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{4,9}Z(?: |$)", re.ASCII)


def _is_around(line: str) -> bool:
    likely = line.startswith(_STARTS) or "@" in line[:70] or line.endswith("rc=0 >>")
    return likely and _AROUND.match(line) is not None


def _prefix(told: list[str]) -> str:
    """The text before every one of these lines, or nothing."""
    # A line that the tool left empty is the prefix alone, without the blank at its end.
    first = next((line for line in told if not line.endswith((":", "]", ">"))), told[0])
    match = _TAGGED.match(first)
    if match is None and not _PROGRAMS.match(first):
        match = _NAMED.match(first)
        if match is not None and len(told) == 1 and not _ALONE.match(first, match.end()):
            match = None
    if match is None:
        return ""
    prefix, bare = match[0], match[0].rstrip()
    whole = all(line.startswith(prefix) or line == bare for line in told)
    return prefix if whole else ""


def _without_prefix(lines: list[str]) -> list[str]:
    for _ in range(2):
        told = [line for line in lines if line.strip()]
        if not told:
            return lines
        if all(_KUBE_TIME.match(line) for line in told):
            lines = [_KUBE_TIME.sub("", line, count=1) for line in lines]
            continue
        prefix = _prefix(told)
        if not prefix:
            return lines
        lines = [line[len(prefix) :] for line in lines]
    return lines


def _without_indent(lines: list[str]) -> list[str]:
    """Lines moved to the left by the blanks that all of them begin with."""
    indent = 80
    for line in lines:
        if line:
            indent = min(indent, len(line) - len(line.lstrip(" ")))
            if not indent:
                return lines
    return [line[indent:] for line in lines]


def bare_lines(
    probe: str, text: str, max_lines: int = MAX_LINES, max_line: int | None = None
) -> list[str]:
    """Clean lines of the tool alone; numbering is kept, lines of others become empty.

    ``max_line`` is the longest line that the tool may print; None where one may hold everything.
    """
    if text.count("\n") >= max_lines:
        raise ParseError(probe, 0, f"more than {max_lines} lines")
    if max_line is not None:
        for number, line in enumerate(text.split("\n"), start=1):
            if len(line) > max_line:
                raise ParseError(probe, number, f"a line of more than {max_line} characters")
    lines = clean_lines(text.removeprefix("\ufeff"))
    lines = ["" if _is_around(line) else line for line in lines]
    return _without_indent(_without_prefix(lines))


def bare(text: str) -> str:
    """The same as one text; one of too many lines stays as it is, for the caller to refuse."""
    return text if text.count("\n") >= MAX_LINES else "\n".join(bare_lines("", text))
