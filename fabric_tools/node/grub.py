"""Which kernel boots next, by what the boot loader will read. Nothing is asked of a tool.

GRUB's own menu (grub.cfg) decides, not what /etc/default/grub would make of it the next time. A
menu of boot loader entries (BLS, RHEL) names its choice in grubenv. Where none of this tells, the
answer says so; the newest kernel is a guess and is never given for a fact where there is a choice.
The BLS form follows the Boot Loader Specification (format unverified).
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_MAX_BYTES = 1024 * 1024
_KERNEL = re.compile(r"/(?:vmlinuz|vmlinux|Image)-([^\s/\"']{1,200})")
_RELEASE = re.compile(r"\d{1,3}\.\d{1,4}[\w.+~-]{0,120}\Z")
_ENTRY = re.compile(r"\s*(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\")(.*)")
_ID = re.compile(r"(?:--id|\$menuentry_id_option|\$\{menuentry_id_option\})\s+['\"]?([^'\"\s{]+)")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S+)")
_DEFAULT = re.compile(r"\s*set\s+default=[\"']?([^\"'\n]*)")
_ASSIGNED = re.compile(r"\s*(?:export\s+)?GRUB_DEFAULT=(.*)")
_CFG = ("boot/grub/grub.cfg", "boot/grub2/grub.cfg")
_ENV = ("boot/grub/grubenv", "boot/grub2/grubenv")
_BLS = "boot/loader/entries"


class Choice(NamedTuple):
    """``kernel`` is None where it cannot be told; ``how`` says how it was found, or why not."""

    kernel: Optional[str]
    how: str


class _Item(NamedTuple):
    title: str
    ident: str
    kernel: Optional[str]
    items: List["_Item"]


def next_kernel(installed: Sequence[str], root: str = "/") -> Choice:
    """The kernel that boots next; ``installed`` are those in /boot, the newest first."""
    if not installed:
        return Choice(None, "no kernel in /boot")
    denied = _denied(root)
    if denied:
        return Choice(None, "cannot tell: /%s may not be read" % denied)
    env = _environment(root)
    entries = _bls(root)
    menu = next((text for text in (read_text(root, name) for name in _CFG) if text), "")
    if "blscfg" in menu or (entries and not menu):
        return _by_bls(entries, env)
    if menu:
        return _by_menu(menu, env)
    return _without_menu(installed, env, root)


def _denied(root: str) -> str:
    """What the boot loader reads and this process may not, or "": that is not "absent"."""
    for name in (*_CFG, *_ENV, _BLS):
        path = os.path.join(root, name)
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                os.listdir(path)
            else:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except PermissionError:
            return name
        except OSError:
            continue
    return ""


def sorted_releases(names: Sequence[str]) -> List[str]:
    """Kernel releases, the newest first: numbers compared as numbers."""
    return sorted((n for n in names if _RELEASE.match(n)), key=_key, reverse=True)


def _key(release: str) -> List[Tuple[int, int, str]]:
    parts = re.findall(r"\d+|[a-z]+", release)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def read_text(root: str, name: str) -> str:
    """A small regular file as text; empty where there is none or it may not be read."""
    path = os.path.join(root, name)
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as handle:
            return handle.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _environment(root: str) -> Dict[str, str]:
    """Variables of grubenv, a block of ``name=value`` lines padded with ``#``."""
    text = next((text for text in (read_text(root, name) for name in _ENV) if text), "")
    pairs = (line.partition("=") for line in text.split("\n") if not line.startswith("#"))
    return {name: value.strip() for name, equals, value in pairs if equals}


def _by_menu(text: str, env: Dict[str, str]) -> Choice:
    menu = _menu(text)
    word, how = "", ""
    if env.get("next_entry"):
        word, how = env["next_entry"], "next_entry of grubenv"
    else:
        said = [m.group(1) for m in map(_DEFAULT.match, text.split("\n")) if m]
        said = [value for value in said if "next_entry" not in value]
        word, how = (said[-1] if said else "0"), "the default of grub.cfg"
        if "saved_entry" in word:
            word, how = env.get("saved_entry") or "0", "saved_entry of grubenv"
        elif "$" in word:
            return Choice(None, "cannot tell: grub.cfg sets its default to %s" % word[:80])
    kernel = _resolve(menu, word or "0")
    if kernel is None:
        return Choice(None, "cannot tell: %s is %r, which grub.cfg has no kernel for" % (how, word))
    return Choice(kernel, "%s: %s" % (how, word or "0"))


def _menu(text: str) -> List[_Item]:
    """Entries and submenus of grub.cfg with the kernel of each, by the depth of their braces."""
    top = []  # type: List[_Item]
    stack = [(0, top)]  # type: List[Tuple[int, List[_Item]]]
    depth = 0
    for line in text.split("\n"):
        found = _ENTRY.match(line)
        if found and line.rstrip().endswith("{"):
            ident = _ID.search(found.group(4))
            item = _Item(found.group(2) or found.group(3) or "", ident.group(1) if ident else "",
                         None, [])  # fmt: skip
            stack[-1][1].append(item)
            depth += 1
            stack.append((depth, item.items))
            continue
        linux = _LINUX.match(line)
        kernel = _KERNEL.search("/" + linux.group(1)) if linux else None
        if kernel and len(stack) > 1 and stack[-2][1]:
            owner = stack[-2][1]
            owner[-1] = owner[-1]._replace(kernel=owner[-1].kernel or kernel.group(1))
        word = line.strip()
        if word.endswith("{"):
            depth += 1
        elif word == "}":
            if len(stack) > 1 and stack[-1][0] == depth:
                stack.pop()
            depth = max(0, depth - 1)
    return top


def _resolve(menu: List[_Item], word: str) -> Optional[str]:
    """``0``, ``1>2``, a title or an id, as GRUB reads them."""
    items, found = menu, None  # type: List[_Item], Optional[_Item]
    for part in word.split(">"):
        part = part.strip()
        if part.isdigit() and int(part) < len(items):
            found = items[int(part)]
        else:
            found = next((item for item in items if part in (item.ident, item.title)), None)
        if found is None:
            return None
        items = found.items
    while found is not None and found.kernel is None:  # a submenu boots its first entry
        found = found.items[0] if found.items else None
    return found.kernel if found else None


def _bls(root: str) -> Dict[str, str]:
    """Name of each boot loader entry and its kernel."""
    folder, found = os.path.join(root, _BLS), {}  # type: str, Dict[str, str]
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".conf"))[:100]
    except OSError:
        return found
    for name in names:
        text = read_text(root, "%s/%s" % (_BLS, name))
        kernel = _KERNEL.search(text)
        if kernel:
            found[name[: -len(".conf")]] = kernel.group(1)
    return found


def _by_bls(entries: Dict[str, str], env: Dict[str, str]) -> Choice:
    for name in ("next_entry", "saved_entry"):
        word = env.get(name, "")
        if word in entries:
            return Choice(entries[word], "%s of grubenv: %s" % (name, word))
        if word:
            return Choice(None, "cannot tell: %s is %r, no entry of /boot/loader" % (name, word))
    if len(set(entries.values())) == 1:
        return Choice(next(iter(entries.values())), "the only entry of /boot/loader")
    return Choice(None, "cannot tell: boot loader entries, and grubenv names none of them")


def _without_menu(installed: Sequence[str], env: Dict[str, str], root: str) -> Choice:
    if env.get("next_entry"):
        return Choice(None, "cannot tell: grubenv has a next_entry and there is no grub.cfg")
    if len(installed) == 1:
        return Choice(installed[0], "the only kernel in /boot")
    names = ["etc/default/grub"]
    try:
        more = sorted(os.listdir(os.path.join(root, "etc/default/grub.d")))
        names += ["etc/default/grub.d/" + name for name in more if name.endswith(".cfg")]
    except OSError:
        pass
    lines = [line for name in names for line in read_text(root, name).split("\n")]
    said = [m.group(1).strip().strip("'\"") for m in map(_ASSIGNED.match, lines) if m]
    word = said[-1] if said else ""
    if word == "saved" and env.get("saved_entry"):
        word = env["saved_entry"]
    if word == "0":
        return Choice(installed[0], "GRUB_DEFAULT=0: the newest in /boot")
    named = [k for k in installed if re.search(r"(?<![\w.])%s(?![\w.])" % re.escape(k), word)]
    named = [k for k in named if not any(k != other and k in other for other in named)]
    if len(named) == 1:
        return Choice(named[0], "GRUB_DEFAULT names it")
    return Choice(None, "cannot tell: no menu of GRUB, and %d kernels in /boot" % len(installed))
