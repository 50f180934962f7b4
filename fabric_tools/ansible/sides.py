"""Both sides of a phase: may it begin, and has it proved itself? Without a word of Ansible."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fabric_tools import __version__
from fabric_tools.errors import Exit, UsageError, worst
from fabric_tools.judge import Question, judge
from fabric_tools.ledger import (
    INVENTORY,
    Inputs,
    Ledger,
    LedgerError,
    NodeNow,
    entry_of,
    files_sha256,
    inputs_of,
    load_private_key,
    load_public_key,
    may_skip,
    private_path,
    public_path,
    state_of,
    unproved_needs,
)
from fabric_tools.ledger.lines import digest
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Decision, HostReport, Report
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.stack import StackLock
from fabric_tools.phases import BY_ID, PHASES, Phase
from fabric_tools.report.console import lines
from fabric_tools.report.text import printable

#: Stands where a phase stands in a report.
_LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Case:
    """One host before one gate.

    ``host`` is the inventory's name; ``playbooks`` the folder of what puts the phase in place;
    ``ledger`` the folder of ledgers and of the site's public key; ``key`` the private one.
    ``inventories``: as Ansible was given them.
    """

    phase: Phase
    host: str
    site: HostVars
    platforms: dict[str, PlatformSpec]
    playbooks: Path
    ledger: Path
    key: Path
    as_of: datetime
    stacks: Mapping[str, StackLock] = field(default_factory=dict)
    inventories: tuple[str, ...] = ()

    @property
    def lock(self) -> StackLock | None:
        """The stack that the host is set to."""
        return self.stacks.get(self.site.stack) if self.site.stack else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a gate said. ``skip``: the phase is proved, its roles need not run again."""

    report: Report
    skip: bool = False
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """The worst of all decisions."""
        return Exit(self.report.exit_code)

    @property
    def reasons(self) -> list[str]:
        """Why it is closed, each with the phase or the ledger before it; empty when it is open.

        What was never proved comes first: it says what to run, and explains what follows.
        """
        found = [d for host in self.report.hosts for d in host.decisions]
        found.sort(key=lambda decision: decision.phase != _LEDGER)
        return [printable(f"{d.phase}: {reason}") for d in found for reason in d.reasons]

    @property
    def lines(self) -> list[str]:
        """The report for people; its last line is the verdict."""
        return lines(self.report)


def needed(phase: Phase) -> tuple[Phase, ...]:
    """Every phase that must be proved before this one, in their order."""
    found: set[Phase] = set()
    todo = list(BY_ID[phase].needs)
    while todo:
        each = todo.pop()
        found.add(each)
        todo += BY_ID[each].needs
    return tuple(info.id for info in PHASES if info.id in found)


def decisions(case: Case, side: str, text: str) -> tuple[Decision, ...]:
    """What decides this side of the phase now; nothing is written down."""
    snapshot = Snapshot.model_validate_json(text)
    if side == "exit":
        return _judged(case, (case.phase,), snapshot).decisions
    host = _judged(case, needed(case.phase), snapshot)
    return (*host.decisions, *_ledger_says(_unproved(case, host, snapshot)))


def entry(case: Case, text: str, *, resume: bool = False) -> Outcome:
    """May the phase begin: what it needs is proved in the ledger, and judged open again now.

    ``text`` is the snapshot's JSON. With ``resume`` also: may its roles be skipped, because
    nothing that goes in has changed since its proof and its own gate is open now?
    """
    snapshot = Snapshot.model_validate_json(text)
    host = _judged(case, (*needed(case.phase), case.phase), snapshot)
    own, before = host.decisions[-1], host.decisions[:-1]
    why = _unproved(case, host, snapshot)
    report = _report(case, host, (*before, *_ledger_says(why)))
    if not resume or report.exit_code != Exit.OPEN:
        return Outcome(report)
    found = _skip(case, host, snapshot) if own.open else f"its gate is closed: {own.reasons[0]}"
    if found:
        return Outcome(report, notes=(printable(f"{case.phase} is not skipped: {found}"),))
    note = f"{case.phase} is skipped: proved, nothing that goes in has changed, its gate is open"
    return Outcome(_report(case, host, (*before, own)), skip=True, notes=(note,))


def leave(case: Case, text: str, *, record: bool) -> Outcome:
    """Has the phase proved itself? With ``record`` the answer, open or closed, is written down.

    A gate that cannot be written down is closed: nothing after it could build on it.
    """
    snapshot = Snapshot.model_validate_json(text)
    host = _judged(case, (case.phase,), snapshot)
    if not record:
        return Outcome(_report(case, host, host.decisions))
    ledger = Ledger(case.ledger, case.host)
    why: tuple[str, ...] = ()
    try:
        key = load_private_key(case.key)
        new = entry_of(
            host.decisions[0], snapshot, text, host=case.host, waivers=case.site.waivers,
            inputs=_inputs(case, host, own=True), recorded_at=case.as_of,
        )  # fmt: skip
        ledger.append(new, key)
    except (UsageError, LedgerError) as error:
        why = (str(error),)
    return Outcome(
        _report(case, host, (*host.decisions, *_ledger_says(why))), notes=tuple(ledger.notes)
    )


def free(case: Case) -> Outcome:
    """The entry gate of a phase that needs none before it: open, the node is not asked."""
    report = Report(tool_version=__version__, as_of=case.as_of, hosts=(), exit_code=Exit.OPEN)
    return Outcome(report, notes=(f"{case.phase} needs no phase before it",))


def _judged(case: Case, phases: Sequence[Phase], snapshot: Snapshot) -> HostReport:
    question = Question(
        phases=tuple(phases),
        platforms=case.platforms,
        host=case.host,
        waiver_name=case.host,
        as_of=case.as_of,
        site=case.site,
        waivers=case.site.waivers,
        stacks=dict(case.stacks),
    )
    return judge(snapshot, question)


def _report(case: Case, host: HostReport, decisions: Sequence[Decision]) -> Report:
    host = host.model_copy(update={"decisions": tuple(decisions)})
    code = worst([Exit(decision.exit_code) for decision in decisions])
    return Report(tool_version=__version__, as_of=case.as_of, hosts=(host,), exit_code=code)


def _ledger_says(why: Sequence[str]) -> tuple[Decision, ...]:
    """What is not proved is not known to be bad: closed because it could not tell."""
    if not why:
        return ()
    return (Decision(phase=_LEDGER, open=False, exit_code=Exit.UNKNOWN, reasons=tuple(why)),)


def _unproved(case: Case, host: HostReport, snapshot: Snapshot) -> tuple[str, ...]:
    try:
        found = unproved_needs(
            Ledger(case.ledger, case.host), case.phase, _now(case, host, snapshot, own=False),
            public_key=load_public_key(_public(case)), as_of=case.as_of,
        )  # fmt: skip
    except (UsageError, LedgerError) as error:
        return (str(error),)
    given = " ".join(f"-i {shlex.quote(place)}" for place in case.inventories)
    return tuple(why.replace(INVENTORY, given or INVENTORY) for why in found)


def _skip(case: Case, host: HostReport, snapshot: Snapshot) -> str:
    """Why the phase may not be skipped, or ""."""
    try:
        found = may_skip(
            Ledger(case.ledger, case.host), case.phase, _now(case, host, snapshot, own=True),
            public_key=load_public_key(_public(case)), as_of=case.as_of,
        )  # fmt: skip
    except (UsageError, LedgerError) as error:
        return str(error)
    return found if isinstance(found, str) else ""


def _now(case: Case, host: HostReport, snapshot: Snapshot, *, own: bool) -> NodeNow:
    found = snapshot.host
    inputs = _inputs(case, host, own=own)
    return NodeNow(found.machine_id, found.boot_id, inputs, state_of(snapshot))


def _public(case: Case) -> Path:
    path = public_path(private_path(case.ledger))
    if not path.exists():
        raise UsageError(
            "there is no site key, so nothing is proved", where=str(case.ledger),
            try_next="make one with `fabric-tools ledger init`",
        )  # fmt: skip
    return path


def _inputs(case: Case, host: HostReport, *, own: bool) -> Inputs:
    """``own``: also the playbook of the phase and the roles that it names.

    A proof under load does not depend on them: a word changed in a role changes no fabric.
    """
    more: dict[str, str] = {}
    info = BY_ID[case.phase]
    if own and not info.active:
        playbook = case.playbooks / info.playbook
        more = {f"role.{path.name}": files_sha256(path) for path in _roles(playbook)}
        more["playbook"] = digest(playbook.read_bytes())
    return inputs_of(case.site, case.platforms.get(host.platform.id), case.lock, more=more)


def _roles(playbook: Path) -> list[Path]:
    """The folders of the roles whose names stand in a playbook, and in those roles in turn."""
    folder = playbook.parent / "roles"
    known = {path.name: path for path in folder.iterdir() if path.is_dir()}
    found: dict[str, Path] = {}
    todo = [playbook]
    while todo:
        words = set(re.findall(r"[a-z0-9_]+", todo.pop().read_text(encoding="utf-8")))
        for name in sorted(words & known.keys() - found.keys()):
            found[name] = known[name]
            todo += [path for path in known[name].rglob("*.yml") if path.is_file()]
    return [found[name] for name in sorted(found)]
