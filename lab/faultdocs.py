"""``docs/faults.md``, written from the table of faults and the registry of checks."""

from __future__ import annotations

from lab.errors import LabError
from lab.faults import FAULTS, Fault
from lab.places import ROOT

PAGE = ROOT / "docs" / "faults.md"
_AGAIN = "`python -m lab render-faults`"
_HEAD = f"""\
<!-- Written by {_AGAIN}; do not edit. -->

# Faults

What the lab can break, and the check that must say so. Each fault is a cause (a package, a unit, a
file, told hardware), put in place by `python -m lab break FAULT` and taken away by `python -m lab
heal`. `tests/lab/test_faults.py` breaks a proved node by each of them: the check that is named here
fails for the subject that is named here, no other check fails, and after healing every gate is
open. What the lab says about hardware is simulated.

Gate: the first that closes; a playbook stops there. Explains: what cannot be told before this fault
is mended (UNKNOWN, "explained by"), in the same gate or a later one. Where a later gate is judged
by itself, without the one that names the fault, these checks fail and close it.

| fault | cause | gate | check | subject | explains |
|---|---|---|---|---|---|
"""


def remedy(fault: Fault) -> str:
    """What the check prints for this fault: its own remedy, where the finding has none."""
    from fabric_tools.checks import BY_ID

    return fault.remedy or BY_ID[fault.check].remedy


def page() -> str:
    """The whole page. Raises ``KeyError`` for a check that is not registered."""
    lines = [_HEAD + "\n".join(_row(fault) for fault in FAULTS), "", "## What the check says", ""]
    lines += [f"- `{fault.name}` ({fault.check}): {remedy(fault)}" for fault in FAULTS]
    return "\n".join(lines) + "\n"


def render(*, check: bool) -> str:
    """Write the page, or ``check`` that it is as it would be written; returns what was done."""
    text = page()
    if not check:
        PAGE.write_text(text)
        return f"wrote {PAGE.relative_to(ROOT)}"
    if not PAGE.exists() or PAGE.read_text() != text:
        raise LabError(f"{PAGE.relative_to(ROOT)} is not what the table says", _AGAIN)
    return f"{PAGE.relative_to(ROOT)} is what the table says"


def _row(fault: Fault) -> str:
    explains = ", ".join(fault.explains)
    name = f"{fault.check} (UNKNOWN)" if fault.unknown else fault.check
    cells = (f"`{fault.name}`", fault.says, fault.closes, name, fault.subject, explains)
    return f"| {' | '.join(cells)} |"
