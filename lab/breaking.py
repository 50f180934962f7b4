"""Putting causes in place and taking them away again; what is broken is kept with the lab."""

from __future__ import annotations

import difflib
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.engine import Engine, find_engine
from lab.errors import LabError
from lab.faults import BY_NAME, FAULTS, Fault
from lab.machines import LABEL, MIRROR, Node
from lab.places import STATE
from lab.run import run

Progress = Callable[[str], None]
#: Seconds: a script (packages are installed, a module is built), and a condition to come true.
SCRIPT_S, SETTLE_S = 180, 90
_BROKEN = STATE / "broken.json"
#: Asked again after this; each question starts a process in the node.
_PAUSE_S = 0.1
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: A node that was restarted: its daemons run and its clock is followed.
_BOOTED = (
    "systemctl is-active --quiet ssh && systemctl is-active --quiet nvidia-fabricmanager "
    "&& chronyc -n -c tracking | grep -q ',Normal$'"
)


def broken() -> tuple[tuple[str, int], ...]:
    """Faults that are in place, with the number of the node, in the order in which they came."""
    if not _BROKEN.exists():
        return ()
    return tuple((name, number) for name, number in json.loads(_BROKEN.read_text()))


def put(name: str, number: int, progress: Progress) -> Fault:
    """Put the cause of one fault in place on a node and wait until it is seen there.

    Raises ``LabError`` for a name that is not known, a node that is not there, a fault that is in
    place already, and a script that fails.
    """
    fault = _fault(name)
    with _locked():
        engine, node = _node(number)
        if node.kind != fault.kind:
            raise LabError(f"{name} is a fault of a {fault.kind} node, {node.name} is {node.kind}")
        there = broken()
        if (name, number) in there:
            raise LabError(f"{name} is in place on {node.name} already", "`python -m lab heal`")
        # Before the script runs: one that is cut short must be healed as well.
        _write((*there, (name, number)))
        _script(engine, node, fault, fault.breaks)
        _until(engine, node, fault.seen, f"{name} is not seen on {node.name}")
    progress(f"{node.name}: {fault.says}; {fault.check} must say so")
    return fault


def heal(number: int | None, progress: Progress) -> int:
    """Take every cause away (of one node where ``number``), last come first; returns how many.

    Returns when the nodes have settled. Raises ``LabError`` where one does not.
    """
    with _locked():
        mine = [item for item in reversed(broken()) if number in (None, item[1])]
        _undo(mine)
        for where in sorted({where for name, where in mine if _fault(name).reboots}):
            _restart(*_node(where))
        for name, where in mine:
            engine, node = _node(where)
            _until(engine, node, _fault(name).settled, f"{node.name} does not settle after {name}")
            _write(tuple(item for item in broken() if item != (name, where)))
            progress(f"{node.name}: {name} is healed")
    return len(mine)


def _undo(mine: list[tuple[str, int]]) -> None:
    """Run every script that heals. One that fails may wait for another cause to go (a module is not
    built without headers): it is tried again as long as that mends another one.
    """
    left, before = mine, len(mine) + 1
    while left:
        failed, why = [], LabError("")
        for name, where in left:
            try:
                _script(*_node(where), _fault(name), _fault(name).heals)
            except LabError as error:
                failed.append((name, where))
                why = error
        if len(failed) == before:
            raise why
        left, before = failed, len(failed)


def listing() -> Iterator[str]:
    """One line a fault: name, the check that must notice, and what it is."""
    there = dict(broken())
    for fault in FAULTS:
        mark = f"  (in place on node {there[fault.name]})" if fault.name in there else ""
        yield f"{fault.name:22} {fault.check:22} {fault.says}{mark}"


def _fault(name: str) -> Fault:
    if name in BY_NAME:
        return BY_NAME[name]
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "`python -m lab list-faults` names them"
    raise LabError(f"no fault {name!r}", hint)


def _node(number: int) -> tuple[Engine, Node]:
    told = STATE / "lab.json"
    if not told.exists():
        raise LabError("no lab is up", "`python -m lab up`")
    kinds = {item["number"]: item["kind"] for item in json.loads(told.read_text())["nodes"]}
    if number not in kinds:
        raise LabError(f"the lab has no node {number}, only {len(kinds)}")
    engine, node = find_engine(), Node(number, kinds[number])
    if not engine.running(LABEL).get(node.container, "").startswith("Up"):
        raise LabError(f"{node.name} does not run", "`python -m lab down`, then `up`")
    return engine, node


def _inside(engine: Engine, container: str, limit_s: int, *words: str) -> tuple[str, ...]:
    """A command line that runs ``words`` in a machine.

    Not the engine's ``exec``: on hosts with cgroups of version 1 it fails once a node's systemd has
    moved itself out of the group that the engine remembers.
    """
    spaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
    clean = ("env", "-i", "HOME=/root", "LC_ALL=C", f"PATH={_PATH}")
    # A limit on this side would end nsenter only, not what it started.
    limit = ("timeout", "-k", "5", str(limit_s))
    return ("nsenter", "-t", str(engine.pid(container)), *spaces, "--", *clean, *limit, *words)


def _script(engine: Engine, node: Node, fault: Fault, text: str) -> None:
    where = MIRROR if fault.on_mirror else node.container
    words = _inside(engine, where, SCRIPT_S, "sh", "-euc", text)
    try:
        run(words, timeout_s=SCRIPT_S + 20)
    except LabError as error:
        hint = "a fault of the driver needs a node that was driven to the driver gate"
        raise LabError(f"{fault.name} on {node.name}: {_short(str(error))}", hint) from error


def _short(text: str) -> str:
    """Without the command line, which is long and the same for all."""
    return text.rpartition("` ")[2]


def _until(engine: Engine, node: Node, question: str, complaint: str) -> None:
    """Ask until the answer is yes; ``LabError`` after ``SETTLE_S``."""
    if question == "true":
        return
    words = _inside(engine, node.container, 10, "bash", "-c", question)
    until = time.monotonic() + SETTLE_S
    while run(words, check=False, timeout_s=30).returncode != 0:
        if time.monotonic() > until:
            raise LabError(f"{complaint} after {SETTLE_S} s")
        time.sleep(_PAUSE_S)


def _restart(engine: Engine, node: Node) -> None:
    engine("restart", "-t", "10", node.container)
    _until(engine, node, _BOOTED, f"{node.name} does not come back from its restart")


@contextmanager
def _locked() -> Iterator[None]:
    """One at a time: two that write would forget a fault."""
    if not STATE.exists():
        raise LabError("no lab is up", "`python -m lab up`")
    with (STATE / "broken.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _write(found: tuple[tuple[str, int], ...]) -> None:
    part = _BROKEN.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.replace(_BROKEN)
