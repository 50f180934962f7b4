"""The action plugin ``fabric_gate``: a gate of a phase, over Ansible's own connection.

``fabric_gate: {phase: driver, side: entry}``: may the phase begin? ``side: exit``: has it proved
itself? The answer of an exit gate goes into the ledger. Variables of the host that count:
``fabric_host`` (``models.inventory.HostVars``), ``fabric_resume`` (entry: say whether the roles may
be skipped), ``fabric_platforms_dir`` and ``fabric_stacks_dir`` (the site's own files) and
``fabric_ledger_key`` (where the site's key is, if not beside the ledger). In check mode a closed
gate does not fail and nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from fabric_tools.ansible import sides
from fabric_tools.ansible.reach import collect_over
from fabric_tools.ansible.settle import settled
from fabric_tools.ansible.values import HOST_VARIABLE, plain, site_of
from fabric_tools.declared import refuse_unknown_platform, refuse_unknown_waivers
from fabric_tools.errors import Exit, FabricToolsError, UsageError
from fabric_tools.ledger import default_folder, private_path
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.report.text import printable
from fabric_tools.share import shared
from fabric_tools.stacks import DEFAULT_STACK, load_stacks, one_stack

SIDES = ("entry", "exit")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible ships no types
    """See the module."""

    TRANSFERS_FILES = False
    _supports_async = False
    _VALID_ARGS = frozenset(("phase", "side"))

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Called by Ansible, once a host. A closed gate is a failed task, never an exception."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        variables = task_vars or {}
        host = str(variables["inventory_hostname"])
        try:
            phase, side = _asked(self._task.args)
            case = self._case(phase, host, variables)
            outcome = self._outcome(case, side, variables)
        except FabricToolsError as error:
            return {**result, **_fault(error)}
        check = bool(self._task.check_mode)
        return {**result, **_said(phase, side, outcome, check=check)}

    def _outcome(self, case: sides.Case, side: str, variables: dict[str, Any]) -> sides.Outcome:
        if side == "entry" and not sides.needed(case.phase):
            return sides.free(case)
        text = settled(
            lambda: collect_over(self, case.host),
            lambda found: sides.decisions(_now(case), side, found),
            lambda line: self._display.display(f"{case.host}: {printable(line)}"),
        )
        case = _now(case)
        if side == "exit":
            return sides.leave(case, text, record=not self._task.check_mode)
        resume = boolean(plain(self._value(variables, "fabric_resume")) or False, strict=False)
        return sides.entry(case, text, resume=bool(resume))

    def _case(self, phase: Phase, host: str, variables: dict[str, Any]) -> sides.Case:
        folder = self._value(variables, "fabric_platforms_dir")
        key = self._value(variables, "fabric_ledger_key")
        more = self._value(variables, "fabric_stacks_dir")
        ledger = default_folder()
        platforms = load_platforms(Path(str(folder)) if folder else None)
        site = site_of(self._value(variables, HOST_VARIABLE), host)
        stacks = load_stacks(Path(str(more)) if more else None)
        # What the roles put in place is what the gate compares with.
        site = site.model_copy(update={"stack": site.stack or DEFAULT_STACK})
        one_stack(site.stack or DEFAULT_STACK, stacks)
        refuse_unknown_platform(site, platforms)
        refuse_unknown_waivers(site.waivers)
        return sides.Case(
            phase=phase,
            host=host,
            site=site,
            platforms=platforms,
            playbooks=shared("playbooks"),
            ledger=ledger,
            key=Path(str(key)) if key else private_path(ledger),
            as_of=datetime.now(UTC),
            stacks=stacks,
            inventories=tuple(map(str, variables.get("ansible_inventory_sources") or ())),
        )

    def _value(self, variables: dict[str, Any], name: str) -> Any:
        """A variable with its templates resolved; None where there is none."""
        try:
            return self._templar.template(variables.get(name))
        except AnsibleError as error:
            raise UsageError(printable(str(error)), where=name) from error


def _now(case: sides.Case) -> sides.Case:
    """The case as of now: a gate that waited must not judge a snapshot of its own future."""
    return replace(case, as_of=datetime.now(UTC))


def _asked(args: dict[str, Any]) -> tuple[Phase, str]:
    unknown = sorted(set(args) - ActionModule._VALID_ARGS)
    if unknown:
        raise UsageError(
            f"no argument {unknown[0]!r}; there are phase and side", where="fabric_gate"
        )
    phase, side = str(args.get("phase", "")), str(args.get("side", ""))
    if phase not in list(Phase):
        raise UsageError(f"no phase {phase!r}; there are {', '.join(Phase)}", where="fabric_gate")
    if side not in SIDES:
        raise UsageError(f"no side {side!r}; there are {', '.join(SIDES)}", where="fabric_gate")
    return Phase(phase), side


def _said(phase: Phase, side: str, outcome: sides.Outcome, *, check: bool) -> dict[str, Any]:
    """The task's result. ``msg`` is one line, ``report`` the whole for people, open or not."""
    opened = outcome.exit_code is Exit.OPEN
    words = "; ".join([outcome.lines[-1], *outcome.reasons, *outcome.notes])
    return {
        "failed": not opened and not check,
        "skip": outcome.skip,
        "fabric_gate": {
            "phase": phase.value,
            "side": side,
            "open": opened,
            "exit_code": int(outcome.exit_code),
            "reasons": outcome.reasons,
            "platform": next((host.platform.id for host in outcome.report.hosts), ""),
        },
        "msg": f"would be closed: {words}" if check and not opened else words,
        "report": outcome.lines,
        "_ansible_verbose_always": True,
    }


def _fault(error: FabricToolsError) -> dict[str, Any]:
    """No verdict: the gate was asked wrongly, the node gave no snapshot, or the fault is ours."""
    text = printable(str(error))
    return {
        "failed": True,
        "skip": False,
        "fabric_gate": {"open": False, "exit_code": int(error.exit_code), "reasons": [text]},
        "msg": f"fabric-tools: {text}",
    }
