"""The callback ``fabric_summary``: at the end of a run, how far every host came, one line each."""

from __future__ import annotations

from typing import Any

from ansible.plugins.callback import CallbackBase

from fabric_tools.report.text import printable

_MAX_CHARS = 300


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """Silent where no gate was asked. A host's line is of its last gate, or of the first closed."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fabric_summary"
    # Stands beside the playbooks, and so is used by them without any configuration.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, str] = {}
        self._closed: set[str] = set()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Called by Ansible after a task that did not fail."""
        self._gate(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Called by Ansible after a task that failed."""
        host = result._host.get_name()
        if not self._gate(result) and host in self._last and not ignore_errors:
            self._last[host] += f", then failed: {printable(result._task.get_name())}"

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Called by Ansible for a host that was not reached."""
        said = printable(str(result._result.get("msg", "")))[:_MAX_CHARS]
        self._last[result._host.get_name()] = f"UNREACHABLE: {said}"

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Called by Ansible once, at the end."""
        if not self._last:
            return
        width = max(len(host) for host in self._last)
        self._display.banner("GATES")
        for host in sorted(self._last):
            self._display.display(f"{host:{width}}  {self._last[host]}")

    def _gate(self, result: Any) -> bool:
        gate = result._result.get("fabric_gate")
        if not isinstance(gate, dict):
            return False
        host = result._host.get_name()
        if host in self._closed:  # in check mode the play goes on; what stopped it first counts
            return True
        name = " ".join(str(gate[key]) for key in ("phase", "side") if key in gate)
        said = printable(str(result._result.get("msg", "")))[:_MAX_CHARS]
        self._last[host] = f"{name}: {said}" if name else said
        if not gate.get("open"):
            self._closed.add(host)
        return True
