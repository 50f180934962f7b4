"""What of the host the lab leaves as it was: sysctls, modules, routes, firewall, links, mounts and
control groups. ``python -m lab.host save|compare FILE`` before and after."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from lab.run import run

#: These count or roll by themselves.
_MOVING = re.compile(
    r"^(?:fs\.(?:dentry-state|file-nr|inode-nr|inode-state|quota\.)|kernel\.(?:random|ns_last_pid|pty)"
    r"|kernel\.(?:tainted|perf_|sched_domain|printk_)|vm\.stat|net\.netfilter\.nf_conntrack_count)"
)


def fingerprint() -> dict[str, str]:
    """Texts by subject; equal before and after."""
    found = {
        "sysctls": _sysctls(),
        "modules": _text(Path("/proc/modules"), first_words=1),
        "routes": _out("ip", "-o", "route", "show", "table", "all"),
        "rules": _out("ip", "-o", "rule"),
        "links": _out("ip", "-br", "link"),
        "namespaces": _out("ip", "netns", "list"),
        "mounts": _text(Path("/proc/self/mounts"), first_words=3),
        "cgroups": _cgroups(),
    }
    if shutil.which("nft"):
        found["nft"] = _rules(_out("nft", "list", "ruleset"))
    if shutil.which("iptables-save"):
        found["iptables"] = _rules(_out("iptables-save"))
    return found


#: Under these an engine keeps its containers; they stay, empty.
_OF_ENGINES = ("libpod_parent", "machine.slice", "docker")


def _cgroups() -> str:
    """The groups at the top of every hierarchy."""
    top = Path("/sys/fs/cgroup")
    roots = [top] if (top / "cgroup.procs").exists() else sorted(top.glob("*/"))
    groups = [path for root in roots for path in root.glob("*/") if path.name not in _OF_ENGINES]
    return "\n".join(sorted(str(path.relative_to(top)) for path in groups))


def _sysctls() -> str:
    lines = []
    for path in sorted(Path("/proc/sys").rglob("*")):
        name = ".".join(path.relative_to("/proc/sys").parts)
        if _MOVING.match(name) or not path.is_file():
            continue
        try:
            lines.append(f"{name} = {path.read_text().strip()}")
        except (OSError, UnicodeDecodeError):
            continue
    return "\n".join(lines)


def _text(path: Path, first_words: int) -> str:
    if not path.exists():
        return ""
    return "\n".join(
        sorted(" ".join(x.split()[:first_words]) for x in path.read_text().splitlines())
    )


def _out(*argv: str) -> str:
    return "\n".join(sorted(run(argv, check=False).stdout.splitlines()))


def _rules(text: str) -> str:
    """Without comments and counters."""
    lines = [
        re.sub(r"\[\d+:\d+\]|counter packets \d+ bytes \d+", "", line) for line in text.split("\n")
    ]
    return "\n".join(line.rstrip() for line in lines if not line.startswith("#"))


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """One line for everything that changed."""
    found = []
    for subject in sorted(before | after):
        old = set(before.get(subject, "").splitlines())
        new = set(after.get(subject, "").splitlines())
        found += [f"{subject}: gone: {line}" for line in sorted(old - new)]
        found += [f"{subject}: new: {line}" for line in sorted(new - old)]
    return found


def main(argv: list[str]) -> int:
    """``save FILE``, ``compare FILE``; exit 0 kept or equal, 1 something changed, 2 usage."""
    if len(argv) != 2 or argv[0] not in ("save", "compare"):
        print("usage: python -m lab.host save|compare FILE", file=sys.stderr)
        return 2
    action, path = argv[0], Path(argv[1])
    if action == "save":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fingerprint()))
        return 0
    changed = differences(json.loads(path.read_text()), fingerprint())
    print("\n".join(f"host: {line}" for line in changed) or "host: as it was before the labs")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
