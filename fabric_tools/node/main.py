"""Entry of ``fabric-collect.pyz``: ``python3 fabric-collect.pyz > snapshot.json``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
from typing import Any, List, Optional

from fabric_tools import __version__
from fabric_tools.node import collector, cuda, nvml
from fabric_tools.node.processes import adopt_orphans
from fabric_tools.node.redact import redact_snapshot

FRAME = "FABRIC-COLLECT"
USAGE = 2


def main(argv: Optional[List[str]] = None) -> int:
    """Collect and print one snapshot. Exit 0 when a snapshot was printed, however sick the node."""
    args = _parser().parse_args(argv)
    if args.nvml_child:
        return nvml.main()
    if args.cuda_child:
        return cuda.main()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    caught = []  # type: List[int]
    # A list, because a handler may not take a lock; the probes look at it while they wait.
    _handle(lambda number, _: caught.append(number))
    adopt_orphans()
    child, fds = collector.library_child(sys.argv[0])
    snapshot = collector.collect(
        child_argv=child,
        child_fds=fds,
        progress=_progress if sys.stderr.isatty() else None,
        stop=lambda: bool(caught),
    )
    if caught:
        return 128 + caught[0]
    _handle(signal.SIG_DFL)
    if args.redact:
        snapshot = redact_snapshot(snapshot)
    if args.output:
        return _write_private(args.output, json.dumps(snapshot, indent=1) + "\n")
    # ASCII only: nothing that a tool printed can reach a terminal as a control sequence.
    text = json.dumps(snapshot, indent=None if args.frame else 1) + "\n"
    if args.frame:
        digest = hashlib.sha256(text.encode("ascii")).hexdigest()
        sys.stdout.write("\n%s %s %d %s\n" % (FRAME, args.frame, len(text), digest))
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _handle(what: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, what)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fabric-collect",
        description="Read the state of this node and print it as one JSON snapshot. "
        "Changes nothing. Run as root to see kernel messages and PCIe links.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--redact", action="store_true", help="remove serials, UUIDs, addresses, names and tokens"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE (mode 0600)")
    parser.add_argument("--frame", metavar="NONCE", help=argparse.SUPPRESS)
    parser.add_argument("--nvml-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cuda-child", action="store_true", help=argparse.SUPPRESS)
    return parser


def _write_private(path: str, text: str) -> int:
    """Written beside and renamed, so that a full disk leaves an earlier snapshot as it was."""
    part, real = "", os.path.realpath(path)  # a link is followed, not replaced
    if os.path.exists(real) and not os.path.isfile(real):
        sys.stderr.write("fabric-collect: %s: not a regular file\n" % path)
        return USAGE
    try:
        folder, name = os.path.split(real)
        # Made with a name that nobody can guess, exclusively and with mode 0600.
        handle, part = tempfile.mkstemp(".part", ".%s." % name, folder or ".")
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, real)
    except OSError as error:
        if part and os.path.exists(part):
            os.unlink(part)
        sys.stderr.write("fabric-collect: %s: cannot write: %s\n" % (path, error.strerror))
        return USAGE
    return 0


def _progress(done: int, total: int, probe: str) -> None:
    sys.stderr.write("\r\x1b[K%d of %d probes read (%s)" % (done, total, probe))
    sys.stderr.write("\n" if done == total else "")
    sys.stderr.flush()
