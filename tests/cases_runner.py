"""Recorded cases: one YAML file says how a node differs from a healthy one and what must follow.

``edit`` changes files of examples/healthy (``replace``: the nth occurrence; ``file``: a recording
of tests/fixtures/corpus or of examples; ``text``), ``remove`` leaves files out. ``expect`` names
the subjects that must get the status; every other subject of the check must pass, and every other
check of the phase too, except those listed under ``also``. ``rest`` allows the other subjects
a status besides pass (a lost GPU leaves its pairs unknown).
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from fabric_tools.checks import BY_ID
from fabric_tools.judge import Question, judge
from fabric_tools.models.report import Decision, HostReport
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.transport.files import read_snapshot

ROOT = Path(__file__).resolve().parent.parent
HEALTHY = ROOT / "examples" / "healthy"
CASES = ROOT / "tests" / "cases"
CORPUS = ROOT / "tests" / "fixtures" / "corpus"
AS_OF = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

ALL_CASES = sorted(CASES.glob("*/*.yaml"))


def load(path: Path) -> dict[str, Any]:
    case = yaml.safe_load(path.read_text())
    unknown = set(case) - {"source", "phase", "edit", "remove", "expect", "also", "rest"}
    assert not unknown, f"{path}: {unknown}"
    return case


def snapshot_of(case: dict[str, Any], folder: Path) -> Snapshot:
    """The snapshot of one case, built in ``folder``."""
    shutil.copytree(HEALTHY, folder, dirs_exist_ok=True)
    for name, change in (case.get("edit") or {}).items():
        path = folder / name
        if "text" in change:
            path.write_text(change["text"])
        elif "file" in change:
            source = ROOT / change["file"]
            shutil.copy(source if source.is_file() else CORPUS / change["file"], path)
        else:
            text = path.read_text()
            for swap in change["replace"]:
                text = _replace_nth(text, swap["old"], swap["new"], swap["nth"])
            path.write_text(text)
    for name in case.get("remove") or ():
        (folder / name).unlink()
    return read_snapshot(folder)


def _replace_nth(text: str, old: str, new: str, nth: int) -> str:
    parts = text.split(old)
    assert len(parts) > nth, f"{old!r} stands {len(parts) - 1} times, {nth} wanted"
    return old.join(parts[:nth]) + new + old.join(parts[nth:])


PLATFORMS = load_platforms()


def report_on(snapshot: Snapshot, *phases: Phase) -> HostReport:
    question = Question(
        phases=phases, platforms=PLATFORMS, host="node", as_of=AS_OF, declared="dgx-h100"
    )
    return judge(snapshot, question)


def decide(snapshot: Snapshot, phase: Phase) -> Decision:
    return report_on(snapshot, phase).decisions[0]


def phase_of(case: dict[str, Any], check: str) -> Phase:
    return Phase(case["phase"]) if case.get("phase") else BY_ID[check].phases[0]
