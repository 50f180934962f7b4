"""Every fault of the table, on a node that was driven to the driver gate: caught, and healed.

One node serves all. A lab that is up already (by the name in ``FABRIC_LAB``) is used and left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric_tools.checks import BY_ID as CHECKS_BY_ID
from fabric_tools.models.report import Decision, HostReport, Report
from fabric_tools.models.verdict import Status, Verdict
from lab import breaking, faultdocs
from lab.errors import LabError
from lab.faults import BY_NAME, FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
GATES = ("preflight", "base", "driver", "nvlink")
#: Seconds; the playbooks are the longest.
LIMIT_S = 600


class Lab:
    """The running lab, used as an operator would: by its commands and over ssh."""

    def __init__(self, name: str, ledger: Path) -> None:
        self.env = os.environ | {
            "FABRIC_LAB": name, "FABRIC_STATE": str(ledger), "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self.inventory = ROOT / ".cache" / "lab" / f"state-{name}" / "inventory"

    def run(self, *words: str, good: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command; ``good``: it must succeed."""
        done = subprocess.run(
            words, env=self.env, cwd=ROOT, text=True, capture_output=True, timeout=LIMIT_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        tail = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert not good or done.returncode == 0, f"{' '.join(words)}: {tail}"
        return done

    def lab(self, *words: str, good: bool = True) -> subprocess.CompletedProcess[str]:
        """``python -m lab WORDS``."""
        return self.run(sys.executable, "-m", "lab", *words, good=good)

    def judge(self) -> HostReport:
        """All gates of node 1, from one reading."""
        tool = (sys.executable, "-m", "fabric_tools", "validate", *GATES)
        where = ("-i", str(self.inventory), "--limit", "gpu-node-1", "--format", "json")
        done = self.run(*tool, *where, good=False)
        assert done.stdout.startswith("{"), done.stderr
        (host,) = Report.model_validate(json.loads(done.stdout)).hosts
        return host

    def judge_open(self) -> HostReport:
        """The same, twice at most: on a busy machine a probe may run into its limit."""
        host = self.judge()
        return host if all_open(host) else self.judge()


def against(host: HostReport, status: Status) -> dict[str, set[str]]:
    """Subjects by check, over all gates."""
    found: dict[str, set[str]] = {}
    for verdict in verdicts(host):
        if verdict.status is status:
            found.setdefault(verdict.check, set()).add(verdict.subject)
    return found


def verdicts(host: HostReport) -> Iterator[Verdict]:
    for decision in host.decisions:
        yield from decision.verdicts


def first_closed(host: HostReport) -> Decision | None:
    return next((decision for decision in host.decisions if not decision.open), None)


def all_open(host: HostReport) -> bool:
    return len(host.decisions) == len(GATES) and first_closed(host) is None


@pytest.fixture(scope="session")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(os.environ.get("FABRIC_LAB", "test-faults"), tmp_path_factory.mktemp("ledger"))
    mine = lab.lab("status", good=False).returncode != 0
    if mine:
        lab.lab("down")  # what a run that was killed has left
        lab.lab("up")
    try:
        lab.lab("heal")
        if mine or not all_open(lab.judge_open()):
            lab.run("fabric-tools", "ledger", "init")
            lab.run("ansible-playbook", "-i", str(lab.inventory), "playbooks/site.yml")
        host = lab.judge_open()
        assert all_open(host), [decision.reasons for decision in host.decisions]
        yield lab
    finally:
        if mine:
            lab.lab("down")


@pytest.mark.lab
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.kind == "stock"], ids=lambda fault: fault.name
)
def test_a_fault_is_caught_by_its_check_and_no_other(proved: Lab, fault: Fault) -> None:
    proved.lab("break", fault.name)
    try:
        broken = proved.judge()
    finally:
        proved.lab("heal")
    closed = first_closed(broken)
    assert closed is not None and closed.phase == fault.closes
    failed, unsure = against(broken, Status.FAIL), against(broken, Status.UNKNOWN)
    found = unsure if fault.unknown else failed
    assert found[fault.check] == {fault.subject}
    assert set(failed) == (set() if fault.unknown else {fault.check})
    explained = {v.check: v.follows for v in verdicts(broken) if v.follows}
    assert set(explained) == set(fault.explains) and set(explained.values()) <= {fault.check}
    status = Status.UNKNOWN if fault.unknown else Status.FAIL
    said = {v.remedy for v in verdicts(broken) if v.check == fault.check and v.status is status}
    assert said == {faultdocs.remedy(fault)}
    healed = proved.judge_open()
    assert all_open(healed), [decision.reasons for decision in healed.decisions]


@pytest.mark.lab
def test_a_fault_that_is_in_place_is_not_put_twice(proved: Lab) -> None:
    proved.lab("break", "link-down")
    again = proved.lab("break", "link-down", good=False)
    assert again.returncode == 1
    assert again.stderr.strip().splitlines() == [
        "lab: link-down is in place on gpu-node-1 already; `python -m lab heal`"
    ]
    assert "link-down is healed" in proved.lab("heal").stderr
    assert "nothing is broken" in proved.lab("heal").stderr


def test_an_unknown_fault_is_refused_with_the_nearest() -> None:
    with pytest.raises(LabError, match="did you mean gpu-missing?"):
        breaking.put("gpu-mising", 1, print)
    with pytest.raises(LabError, match="list-faults"):
        breaking.put("qqqq", 1, print)


def test_the_table_is_whole() -> None:
    assert len(BY_NAME) == len(FAULTS)
    for fault in FAULTS:
        assert fault.closes in GATES
        for name in fault.explains:
            assert fault.check in CHECKS_BY_ID[name].follows


def test_the_page_is_what_the_table_says() -> None:
    assert faultdocs.render(check=True)


def test_a_page_that_is_not_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(faultdocs, "ROOT", tmp_path)
    monkeypatch.setattr(faultdocs, "PAGE", tmp_path / "docs" / "faults.md")
    with pytest.raises(LabError, match="render-faults"):
        faultdocs.render(check=True)
    faultdocs.render(check=False)
    assert faultdocs.render(check=True)
    faultdocs.PAGE.write_text(faultdocs.page().replace("gpu.pcie", "gpu.pci"))
    with pytest.raises(LabError, match="not what the table says"):
        faultdocs.render(check=True)
