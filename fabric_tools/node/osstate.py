"""State of the operating system that no single command prints: package sources, files, trust.

Nothing on the node is changed: `apt-get update` and `dnf makecache` work in a folder of their own
that is removed, take none of the system's locks and run none of its hooks.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from typing import Callable, Dict, List, Sequence, Tuple

from fabric_tools.node.processes import CLEAN_ENV
from fabric_tools.node.run import Outcome, Stop, as_text, read_file, run_bounded
from fabric_tools.probes import Probe

#: Read after the system's own settings. Only the signed index of each source is asked for (some
#: 100 kB), no package list: a node is asked often, and a fleet shares one mirror. Hooks of `update`
#: would change the node. A mirror that is silent costs apt two timeouts for each of its sources.
_APT_CONF = """#clear Acquire::IndexTargets;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Update::Error-Mode "any";
Acquire::Retries "0";
Acquire::http::Timeout "5";
Acquire::https::Timeout "5";
Dir::State::lists "%(folder)s/lists";
Dir::Cache "%(folder)s/cache";
"""
_MAX_FILES = 200
#: Debian and Ubuntu; RHEL.
TRUST_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)


def ask_apt(probe: Probe, stop: Stop) -> Outcome:
    """Which sources are configured, and what `apt-get update` says of them.

    The text has a block ``==> COMMAND <==`` for each of both and ``==> exit N <==`` at its end.
    """

    def ask(folder: str) -> Sequence[Tuple[str, ...]]:
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs("%s/%s" % (folder, name))
        with open(folder + "/apt.conf", "w", encoding="ascii") as handle:
            handle.write(_APT_CONF % {"folder": folder})
        apt = ("apt-get", "-c", folder + "/apt.conf", "update")
        return (*apt, "--print-uris"), apt

    return _ask_in_folder(probe, stop, ask, ("update --print-uris", "update"), (0, 100))


def ask_dnf(probe: Probe, stop: Stop) -> Outcome:
    """What `dnf makecache` says, with a cache of its own; in the form of ``ask_apt``.

    A source that its own file lets dnf go without (``skip_if_unavailable``) must answer too.
    """

    def ask(folder: str) -> Sequence[Tuple[str, ...]]:
        cache, all_of = (
            "--setopt=cachedir=%s/cache" % folder,
            "--setopt=*.skip_if_unavailable=False",
        )
        return (("dnf", "-q", cache, all_of, "makecache"),)

    return _ask_in_folder(probe, stop, ask, ("makecache",), (0, 1))


def _ask_in_folder(
    probe: Probe,
    stop: Stop,
    ask: Callable[[str], Sequence[Tuple[str, ...]]],
    titles: Sequence[str],
    ends: Tuple[int, ...],
) -> Outcome:
    """Run commands that need a folder, in one that is removed. ``ends`` are their own statuses."""
    tool = probe.argv[0]
    if not shutil.which(tool, path=CLEAN_ENV["PATH"]):
        return Outcome("absent", None, b"", b"", 0.0, tool + ": No such file or directory")
    began, folder = time.monotonic(), ""
    text, last = b"", Outcome("ok", 0, b"", b"", 0.0, "")
    try:
        folder = tempfile.mkdtemp(prefix="fabric-tools-")
        # apt reads the network as its user _apt, who must pass through; nobody may look or write.
        os.chmod(folder, 0o711)  # noqa: S103
        for title, argv in zip(titles, ask(folder)):
            left_s = max(began + probe.timeout_s - time.monotonic(), 0.1)
            last = run_bounded(argv, left_s, probe.max_bytes, ends, stop=stop)
            text += b"==> %s %s <==\n" % (tool.encode(), title.encode())
            text += _whole_lines(last.stdout) + _whole_lines(last.stderr)
            if last.status != "ok":
                break
        else:
            text += b"==> exit %d <==\n" % (last.rc or 0)
    except OSError as error:
        return _ended("error", began, str(error))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    took = time.monotonic() - began
    return Outcome(last.status, None, text[: probe.max_bytes], b"", took, last.note)


def _whole_lines(data: bytes) -> bytes:
    return data if not data or data.endswith(b"\n") else data + b"\n"


def read_files(probe: Probe, stop: Stop) -> Outcome:
    """The small files that the probe's patterns name, as JSON: path -> text, size and mode.

    ``absent`` where there is none. One that cannot be read, or is too large, is the status of all.
    """
    began = time.monotonic()
    found: Dict[str, Dict[str, object]] = {}
    used = 0
    paths = _paths(probe.argv)
    if len(paths) > _MAX_FILES:
        return _ended("cut", began, "%d files, more than %d" % (len(paths), _MAX_FILES))
    for path in paths:
        left_s = began + probe.timeout_s - time.monotonic()
        try:
            about = os.stat(path)
        except FileNotFoundError:  # a link to nothing
            continue
        except OSError as error:
            return _ended("denied", began, "%s: %s" % (path, error.strerror))
        if not stat.S_ISREG(about.st_mode):
            continue
        if left_s <= 0:
            return _ended("timeout", began, "at " + path)
        # At least one byte, so that what is too much is seen to be so.
        read = read_file(path, left_s, max(probe.max_bytes - used, 1), stop)
        if read.status != "ok":
            return _ended(read.status, began, "%s: %s" % (path, read.note))
        used += len(read.stdout)
        found[path] = {
            "text": as_text(read.stdout),
            "size": about.st_size,
            "mode": "%04o" % stat.S_IMODE(about.st_mode),
        }
    if not found:
        return _ended("absent", began, "no file of " + " ".join(probe.argv))
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    return Outcome("ok", None, text.encode("ascii"), b"", time.monotonic() - began, "")


def _paths(patterns: Tuple[str, ...]) -> List[str]:
    paths = {path for pattern in patterns for path in glob.glob(pattern)}
    return sorted(paths)


def _ended(status: str, began: float, note: str) -> Outcome:
    return Outcome(status, None, b"", b"", time.monotonic() - began, note)


def read_trust(probe: Probe, stop: Stop, bundles: Tuple[str, ...] = TRUST_BUNDLES) -> Outcome:
    """SHA-256 of every certificate in the system's bundle, one a line under ``==> PATH <==``."""
    path = next((bundle for bundle in bundles if os.path.exists(bundle)), bundles[0])
    read = read_file(path, probe.timeout_s, probe.max_bytes, stop)
    if read.status != "ok":
        return read
    try:
        lines = ["==> %s <==" % path, *fingerprints(as_text(read.stdout))]
    except ValueError as error:
        return read._replace(status="failed", stdout=b"", note="%s: %s" % (path, error))
    return read._replace(stdout=("\n".join(lines) + "\n").encode("ascii"))


def fingerprints(pem: str) -> List[str]:
    """SHA-256 in hex of every certificate of a PEM text; ``ValueError`` for one that is cut."""
    found = []
    for part in pem.split("-----BEGIN CERTIFICATE-----")[1:]:
        body, ended, _ = part.partition("-----END CERTIFICATE-----")
        if not ended:
            raise ValueError("a certificate without its last line")
        der = base64.b64decode("".join(body.split()), validate=True)
        found.append(hashlib.sha256(der).hexdigest())
    return found
