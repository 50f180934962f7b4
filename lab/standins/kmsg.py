"""Kernel messages of the lab node: `dmesg`, `journalctl -k`, and writing them.

They lie in ``run/lab/kmsg``, one ``SECONDS.MICROS PRIORITY TEXT`` a line: seconds since the node's
boot, syslog priority 0 (emergency) to 7 (debug). Forms printed: util-linux ``dmesg`` (plain and
with ``-T``, ``-x``, ``-t``), journalctl ``short``, ``short-iso``, ``short-monotonic``, ``cat``.
"""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path
from typing import NamedTuple

_LINE = re.compile(r"(\d{1,10})\.(\d{6}) (\d)(?: (.*))?")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
#: Options of journalctl that take a value of their own.
_VALUED = ("-o", "--output", "-b", "--boot", "-n", "--lines", "-p", "--priority", "-g", "--grep")
_IGNORED = ("--no-pager", "-q", "--quiet", "-a", "--all", "--no-hostname", "-k", "--dmesg", "-l")


class Message(NamedTuple):
    """One message. ``at_us``: microseconds since boot."""

    at_us: int
    priority: int
    text: str

    @property
    def stamp(self) -> str:
        """The time in brackets, as the kernel prints it."""
        return f"[{self.at_us // 10**6:>5}.{self.at_us % 10**6:06}]"


def read(root: Path) -> list[Message]:
    """Every message, in order of time. A line of another form is kept as text, never dropped."""
    try:
        lines = (root / "run/lab/kmsg").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = [Message(0, 6, "")]
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            found.append(Message(found[-1].at_us, 6, line))
        else:
            at_us = int(match[1]) * 10**6 + int(match[2])
            found.append(Message(at_us, int(match[3]), match[4] or ""))
    return sorted(found[1:], key=lambda message: message.at_us)


def append(root: Path, text: str, priority: int = 6, at_s: float | None = None) -> None:
    """Write one message, now or ``at_s`` seconds after boot."""
    seconds = max(0.0, time.time() - booted_at(root)) if at_s is None else at_s
    line = f"{seconds:.6f} {priority} {text}\n"
    path = root / "run/lab/kmsg"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def boot_messages(root: Path, release: str, cmdline: str) -> None:
    """The first two lines of a boot, by which a reader knows that the log is whole."""
    build = "(lab@lab) (gcc, GNU ld) #1 SMP PREEMPT_DYNAMIC"
    append(root, f"Linux version {release} {build}", 5, 0.0)
    append(root, f"Command line: {cmdline}", 6, 0.0)


def booted_at(root: Path) -> float:
    """When the node's first process started, seconds since the epoch.

    Where there is no ``/proc``, the last message counts as now.
    """
    try:
        stat = (root / "proc/stat").read_text()
        btime = next(int(line.split()[1]) for line in stat.splitlines() if line[:6] == "btime ")
        start = (root / "proc/1/stat").read_text().rpartition(")")[2].split()[19]
        return btime + int(start) / os.sysconf("SC_CLK_TCK")
    except (OSError, StopIteration, IndexError, ValueError):
        last = read(root)
        return time.time() - (last[-1].at_us / 1e6 if last else 0.0)


def dmesg(args: list[str], root: Path) -> tuple[str, int]:
    """The text and the exit status."""
    words: set[str] = set()
    level = ""
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-l", "--level"):
            level = value if equals else (rest.pop(0) if rest else "")
        elif name in (
            "-T",
            "--ctime",
            "-x",
            "--decode",
            "-t",
            "--notime",
            "-k",
            "--kernel",
            "-P",
            "--nopager",
        ):
            words.add(name.lstrip("-")[0])
        else:
            return f"dmesg: option {word} is not simulated by this stand-in\n", 1
    wanted = [_LEVELS.index(name) for name in level.split(",") if name in _LEVELS]
    lines, start = [], booted_at(root) if "T" in words or "c" in words else 0.0
    for message in read(root):
        if level and message.priority not in wanted:
            continue
        stamp = message.stamp + " "
        if start:
            moment = time.localtime(start + message.at_us / 1e6)
            stamp = time.strftime("[%a %b %e %H:%M:%S %Y] ", moment)
        if words & {"t", "n"}:
            stamp = ""
        decoded = f"kern  :{_LEVELS[message.priority]:<6}: " if words & {"x", "d"} else ""
        lines.append(f"{decoded}{stamp}{message.text}")
    return "".join(line + "\n" for line in lines), 0


def asks_kernel(args: list[str]) -> bool:
    """Whether this journalctl is about kernel messages (``-k``, also among joined letters)."""
    return any(word == "--dmesg" or re.fullmatch(r"-[a-z]*k[a-z]*", word) for word in args)


def journal(args: list[str], root: Path) -> tuple[str, int]:
    """``journalctl -k``: the text and the exit status."""
    options: dict[str, str] = {}
    rest = [part for word in args for part in _parted(word)]
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in _IGNORED:
            continue
        if name not in _VALUED:
            return f"journalctl: option {word} is not simulated by this stand-in\n", 1
        bare_boot = name in ("-b", "--boot") and (not rest or not re.fullmatch(r"-?\d+", rest[0]))
        if not equals and not bare_boot:
            value = rest.pop(0) if rest else ""
        options[name.lstrip("-")[0]] = value
    if options.get("b", "0") not in ("", "0", "-0"):
        return "Data from the specified boot is not available: No such boot ID in journal\n", 1
    found = read(root)
    if "p" in options:
        level = options["p"]
        limit = int(level) if level.isdigit() else _LEVELS.index(level) if level in _LEVELS else 7
        found = [message for message in found if message.priority <= limit]
    if "g" in options:
        pattern = re.compile(options["g"], re.IGNORECASE if options["g"].islower() else 0)
        found = [message for message in found if pattern.search(message.text)]
    if options.get("n", "").isdigit():
        found = found[-int(options["n"]) :] if int(options["n"]) else []
    return _printed(found, options.get("o", "short"), root)


def _parted(word: str) -> list[str]:
    """``-kb`` is ``-k -b``, ``-n5`` is ``-n 5``."""
    if re.fullmatch(r"-[kqab]{2,}", word):
        return [f"-{letter}" for letter in word[1:]]
    if re.fullmatch(r"-[nopbg][^-=].*", word):
        return [word[:2], word[2:]]
    return [word]


def _printed(found: list[Message], form: str, root: Path) -> tuple[str, int]:
    host, start = socket.gethostname(), booted_at(root)
    formats = {"short": "%b %d %H:%M:%S", "short-iso": "%Y-%m-%dT%H:%M:%S%z"}
    lines = []
    for message in found:
        if form == "cat":
            lines.append(message.text)
        elif form == "short-monotonic":
            lines.append(f"{message.stamp} {host} kernel: {message.text}")
        elif form in formats:
            when = time.strftime(formats[form], time.localtime(start + message.at_us / 1e6))
            lines.append(f"{when} {host} kernel: {message.text}")
        else:
            return f"journalctl: output {form} is not simulated by this stand-in\n", 1
    return "".join(line + "\n" for line in lines) or "-- No entries --\n", 0
