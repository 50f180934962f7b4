"""What the next boot of this node will be: kernel, headers, nvidia module, nouveau, reboot flag.

Prints one JSON object. What a tool did not answer is null with its reason beside it, never "no".
Also asks a package tool about the packages that are installed (kind ``packages``).
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Dict, List, Optional, Sequence, Tuple

from fabric_tools.node.grub import next_kernel, read_text, sorted_releases
from fabric_tools.node.run import Outcome, Stop, as_text, run_bounded
from fabric_tools.probes import Probe

#: Kernels that are described; a node that keeps more has other troubles.
_MAX_KERNELS = 12
_IMAGE = re.compile(r"vmlinu[xz]-(.+)\Z")
_FIELDS = ("filename", "version", "license", "signer", "sig_id")
_INITRAMFS = ("boot/initrd.img-%s", "boot/initramfs-%s.img")
_CONF = ("etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d",
         "lib/modprobe.d")  # fmt: skip
_NOUVEAU = re.compile(r"(?<![\w-])nouveau(?![\w-])")
_NOUVEAU_FILE = re.compile(r"/nouveau\.ko(?:\.\w{2,4})?\Z")
_FLAGS = ("run/reboot-required", "var/run/reboot-required")
_MAX_ASKED = 500
_LIST_BYTES = 8 * 1024 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,150}(?::[a-z0-9]{2,12})?\Z")


class _Asker:
    """Runs tools until the deadline of the probe."""

    def __init__(self, timeout_s: float, stop: Stop) -> None:
        self._deadline, self._stop = time.monotonic() + timeout_s, stop

    def ask(
        self, argv: Tuple[str, ...], max_bytes: int = 65536, at_most_s: float = 60.0
    ) -> Outcome:
        left_s = min(at_most_s, self._deadline - time.monotonic())
        if left_s <= 0:
            return Outcome("timeout", None, b"", b"", 0.0, "no time left for %s" % argv[0])
        return run_bounded(argv, left_s, max_bytes, stop=self._stop)


def read_next_boot(probe: Probe, stop: Stop, root: str = "/") -> Outcome:
    """The JSON object; ``error`` where not even the running kernel could be told."""
    began = time.monotonic()
    # Tools that hang must leave time for the rest, so that the probe itself answers.
    asker = _Asker(probe.timeout_s - 2.0, stop)
    running = asker.ask(("uname", "-r"), at_most_s=5.0)
    release = as_text(running.stdout).strip()
    if running.status != "ok" or not release:
        return running._replace(status="error" if running.status == "ok" else running.status)
    images = _images(root)
    choice = next_kernel(list(images), root)
    wanted = [release] if choice.kernel in (None, release) else [release, choice.kernel]
    kernels = [
        _kernel(name, images, root, asker if name in wanted else None)
        for name in _releases(images, wanted, root)
    ]
    facts = {
        "running": release,
        "next": choice.kernel,
        "how": choice.how,
        "efi": os.path.isdir(os.path.join(root, "sys/firmware/efi")),
        "kernels": kernels,
        "modprobe": _modprobe(root),
        "initramfs": _initramfs(choice.kernel, root, asker),
        "reboot_required": _reboot_required(root),
    }
    text = (json.dumps(facts, indent=1) + "\n").encode("utf-8")
    took = time.monotonic() - began
    if len(text) > probe.max_bytes:
        return Outcome("cut", None, b"", b"", took, "more than %d bytes" % probe.max_bytes)
    return Outcome("ok", None, text, b"", took, "")


def _images(root: str) -> Dict[str, str]:
    """Kernel release and its image in /boot, the newest first."""
    found = {}
    for name in _listed(os.path.join(root, "boot")):
        image = _IMAGE.match(name)
        if image:
            found[image.group(1)] = "/boot/" + name
    return {name: found[name] for name in sorted_releases(list(found))}


def _releases(images: Dict[str, str], wanted: Sequence[str], root: str) -> List[str]:
    modules = _listed(os.path.join(root, "lib/modules"))
    ordered = sorted_releases(sorted({*images, *modules}))[:_MAX_KERNELS]
    return ordered + [name for name in wanted if name not in ordered]


def _listed(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))[:4096]
    except OSError:
        return []


def _kernel(
    release: str, images: Dict[str, str], root: str, asker: Optional[_Asker]
) -> Dict[str, object]:
    """``module`` is null where there is none or nobody asked; ``module_note`` says which."""
    base = os.path.join(root, "lib/modules", release)
    initramfs = [name % release for name in _INITRAMFS]
    there = [name for name in initramfs if os.path.isfile(os.path.join(root, name))]
    module, note = (None, "not asked") if asker is None else _module(release, asker)
    return {
        "release": release,
        "image": images.get(release),
        "initramfs": "/" + there[0] if there else None,
        "modules": os.path.isdir(base),
        "headers": os.path.isfile(os.path.join(base, "build", "Makefile")),
        "module": module,
        "module_note": note,
    }


def _module(release: str, asker: _Asker) -> Tuple[Optional[Dict[str, str]], str]:
    found = {}  # type: Dict[str, str]
    for field in _FIELDS:
        told = asker.ask(("modinfo", "-k", release, "-F", field, "nvidia"), at_most_s=5.0)
        said = as_text(told.stderr).strip().split("\n")[-1][:200]
        if told.status == "failed" and field == "filename" and said.endswith("not found."):
            return None, "not found"
        if told.status != "ok":
            return None, "modinfo: %s %s %s" % (told.status, told.note, said)
        found[field] = as_text(told.stdout).strip().split("\n")[0][:300]
    return found, ""


def _modprobe(root: str) -> List[Dict[str, str]]:
    """Every line of the modprobe configuration that speaks of nouveau; comments do not count.

    Of files with the same name the first folder wins, as modprobe.d(5) says.
    """
    found, seen = [], set()
    for folder in _CONF:
        for name in _listed(os.path.join(root, folder)):
            if not name.endswith(".conf") or name in seen:
                continue
            seen.add(name)
            for line in read_text(root, "%s/%s" % (folder, name)).split("\n"):
                word = " ".join(line.split("#")[0].split())[:200]
                if _NOUVEAU.search(word):
                    found.append({"file": "/%s/%s" % (folder, name), "line": word})
    return found[:50]


def _initramfs(kernel: Optional[str], root: str, asker: _Asker) -> Dict[str, object]:
    """Whether nouveau lies in the next kernel's initramfs, and the names of its modprobe files."""
    answer = {"path": None, "nouveau": None, "conf": [], "note": ""}  # type: Dict[str, object]
    names = [name % kernel for name in _INITRAMFS] if kernel else []
    path = next((n for n in names if os.path.isfile(os.path.join(root, n))), None)
    if path is None:
        answer["note"] = "no initramfs of the next kernel"
        return answer
    answer["path"] = "/" + path
    tool = "lsinitramfs" if path.startswith("boot/initrd") else "lsinitrd"
    told = asker.ask((tool, os.path.join(root, path)), _LIST_BYTES, 20.0)
    lines = as_text(told.stdout).split("\n")
    files = [line.split(" -> ")[0].split()[-1] for line in lines if line.strip()]
    if told.status != "ok" or not files:
        said = as_text(told.stderr).strip().split("\n")[0][:200]
        answer["note"] = "%s: %s %s %s" % (tool, told.status, told.note, said)
        return answer
    answer["nouveau"] = any(_NOUVEAU_FILE.search("/" + name) for name in files)
    conf = {os.path.basename(n) for n in files if "modprobe.d/" in n and n.endswith(".conf")}
    answer["conf"] = sorted(conf)[:200]
    return answer


def _reboot_required(root: str) -> Optional[List[str]]:
    """Packages that ask for a reboot (an empty list: nobody said which), None where none does."""
    for flag in _FLAGS:
        if os.path.exists(os.path.join(root, flag)):
            text = read_text(root, flag + ".pkgs")
            return sorted({line.strip()[:150] for line in text.split("\n") if line.strip()})[:200]
    return None


def ask_packages(probe: Probe, stop: Stop) -> Outcome:
    """Run ``argv`` of the probe with the installed packages that its patterns match.

    ``argv`` is the command, ``--``, and dpkg's patterns. Where no package matches, the answer is
    empty; where dpkg-query does not answer, its failure is the probe's.
    """
    cut = probe.argv.index("--")
    began = time.monotonic()
    listed = run_bounded(
        ("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${binary:Package}\\n",
         *probe.argv[cut + 1 :]),
        probe.timeout_s / 2, probe.max_bytes, (0, 1), stop=stop,
    )  # fmt: skip
    if listed.status != "ok":
        return listed
    rows = [line.split() for line in as_text(listed.stdout).split("\n")]
    names = [row[1] for row in rows if len(row) == 2 and row[0][1:2] in ("i", "W", "t")]
    names = [name for name in names if _NAME.match(name)]
    if len(names) > _MAX_ASKED:
        why = "%d packages, more than %d" % (len(names), _MAX_ASKED)
        return Outcome("cut", None, b"", b"", time.monotonic() - began, why)
    if not names:
        return Outcome("ok", 0, b"", listed.stderr, time.monotonic() - began, "")
    return run_bounded((*probe.argv[:cut], *names), probe.timeout_s / 2, probe.max_bytes, stop=stop)
