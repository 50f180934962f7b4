"""Recorded cases: one YAML file says how a node differs from a healthy one and what must follow.

``edit`` changes files of examples/healthy (``replace``: the nth occurrence; ``file``: a recording
of tests/fixtures/corpus or of examples; ``text``), ``remove`` leaves files out. ``expect`` names
the subjects that must get the status; every other subject of the check must pass, and every other
check of the phase too, except those listed under ``also``. ``rest`` allows the other subjects
a status besides pass (a lost GPU leaves its pairs unknown).

``with`` lays a folder of tests/fixtures/more over the healthy one first; ``site`` is what the
inventory declares (a mapping, or the name of a file there). ``before`` are edits that make the
earlier reading out of the same folder; ``fleet`` is a list of edits, each of which makes one more
host out of the healthy node.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from fabric_tools.checks import BY_ID
from fabric_tools.judge import Question, Reading, judge, judge_fleet
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import Decision, HostReport
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.transport.files import read_folder, read_snapshot

ROOT = Path(__file__).resolve().parent.parent
HEALTHY = ROOT / "examples" / "healthy"
CASES = ROOT / "tests" / "cases"
CORPUS = ROOT / "tests" / "fixtures" / "corpus"
MORE = ROOT / "tests" / "fixtures" / "more"
AS_OF = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

ALL_CASES = sorted(CASES.glob("*/*.yaml"))


KEYS = {
    "source", "phase", "edit", "remove", "expect", "also", "rest", "with", "site", "before",
    "fleet",
}  # fmt: skip


def load(path: Path) -> dict[str, Any]:
    case = yaml.safe_load(path.read_text())
    unknown = set(case) - KEYS
    assert not unknown, f"{path}: {unknown}"
    return case


def snapshot_of(case: dict[str, Any], folder: Path) -> Snapshot:
    """The snapshot of one case, built in ``folder``."""
    return reading_of(case, folder).snapshot


def reading_of(case: dict[str, Any], folder: Path) -> Reading:
    """What one case says of its node: this reading and, where it has one, the earlier."""
    shutil.copytree(HEALTHY, folder, dirs_exist_ok=True)
    if case.get("with"):
        shutil.copytree(MORE / case["with"], folder, dirs_exist_ok=True)
    earlier = folder.with_name(f"{folder.name}-before")
    if "before" in case:
        shutil.copytree(folder, earlier)
        _edit(earlier, case["before"])
    _edit(folder, case.get("edit"))
    for name in case.get("remove") or ():
        (folder / name).unlink()
    (reading,) = read_folder(folder).readings
    return replace(reading, before=read_snapshot(earlier)) if "before" in case else reading


def _edit(folder: Path, edits: dict[str, Any] | None) -> None:
    for name, change in (edits or {}).items():
        path = folder / name
        if "text" in change:
            path.write_text(change["text"])
        elif "file" in change:
            source = ROOT / change["file"]
            shutil.copy(source if source.is_file() else CORPUS / change["file"], path)
        text = path.read_text()
        for swap in change.get("replace") or ():
            text = _replace_nth(text, swap["old"], swap["new"], swap["nth"])
        path.write_text(text)


def decide_case(case: dict[str, Any], phase: Phase, folder: Path) -> Decision:
    """The gate of one case's node, judged among the other hosts of the case where it has any."""
    asked = [(reading_of(case, folder / "node"), question("node", phase, site=site_of(case)))]
    for number, edits in enumerate(case.get("fleet") or ()):
        other = {"edit": edits, "with": case.get("with")}
        name = f"other{number}"
        asked.append((other_node(reading_of(other, folder / name), number), question(name, phase)))
    return judge_fleet(asked)[0].decisions[0]


def other_node(reading: Reading | Snapshot, number: int = 0) -> Reading:
    """The same node with other GPUs: every UUID is another one."""
    snapshot = reading.snapshot if isinstance(reading, Reading) else reading
    probes = {
        name: result.model_copy(
            update={"stdout": result.stdout.replace("GPU-0000000", f"GPU-{number + 1:07}")}
        )
        for name, result in snapshot.probes.items()
    }
    return Reading(snapshot.model_copy(update={"probes": probes}))


def site_of(case: dict[str, Any]) -> HostVars:
    """What the inventory declares; the platform of the healthy node where it names none."""
    site = case.get("site") or {}
    if isinstance(site, str):
        site = load_site(site)
    return HostVars.model_validate({"platform": "dgx-h100", **site})


def load_site(name: str) -> dict[str, Any]:
    """What an inventory declares, by the name of its file in tests/fixtures/more."""
    found: dict[str, Any] = yaml.safe_load((MORE / name).read_text())
    return found


def _replace_nth(text: str, old: str, new: str, nth: int) -> str:
    parts = text.split(old)
    assert len(parts) > nth, f"{old!r} stands {len(parts) - 1} times, {nth} wanted"
    return old.join(parts[:nth]) + new + old.join(parts[nth:])


PLATFORMS = load_platforms()


def question(host: str, *phases: Phase, site: HostVars | None = None) -> Question:
    found = site or site_of({})
    return Question(phases=phases, platforms=PLATFORMS, host=host, as_of=AS_OF, site=found)


def report_on(
    snapshot: Reading | Snapshot, *phases: Phase, site: HostVars | None = None
) -> HostReport:
    return judge(snapshot, question("node", *phases, site=site))


def decide(snapshot: Reading | Snapshot, phase: Phase, site: HostVars | None = None) -> Decision:
    return report_on(snapshot, phase, site=site).decisions[0]


def phase_of(case: dict[str, Any], check: str) -> Phase:
    return Phase(case["phase"]) if case.get("phase") else BY_ID[check].phases[0]
