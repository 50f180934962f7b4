"""Reports: the order of reading, and that nothing a node says does anything."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from rich.console import Console

from fabric_tools.checks import for_phase
from fabric_tools.checks.registry import Kind
from fabric_tools.errors import Exit, worst
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import Report
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Waiver
from fabric_tools.phases import Phase
from fabric_tools.report import console, junit, markdown
from fabric_tools.report.text import subjects
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import AS_OF, HEALTHY, PLATFORMS

PHASES = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)


def made(snapshot: Snapshot, host: str = "node1", waivers: tuple[Waiver, ...] = ()) -> Report:
    question = Question(
        PHASES,
        PLATFORMS,
        host,
        AS_OF,
        HostVars(platform="dgx-h100"),
        waiver_name="node1",
        waivers=waivers,
    )
    report = judge(snapshot, question)
    code = worst([Exit(d.exit_code) for d in report.decisions])
    return Report(tool_version="0", as_of=AS_OF, hosts=(report,), exit_code=code)


def shown(report: Report, width: int = 100, *, verbose: bool = False) -> str:
    out = io.StringIO()
    terminal = Console(file=out, width=width, force_terminal=False, highlight=False)
    console.show(report, terminal, verbose=verbose)
    return out.getvalue()


def sick(name: str) -> Report:
    return made(read_snapshot(HEALTHY.parent / name))


def test_faults_come_first_and_the_last_line_decides() -> None:
    text = shown(sick("sick-fabric-manager-dead"))
    driver = text[text.index("preflight: CLOSED, could not tell: apt.sources") :]
    assert driver.index("FAIL") < driver.index("WARN") < driver.index("passed:")
    assert text.rstrip().splitlines()[-1] == "CLOSED (exit 1): closed by a fault"
    for word in ("expected", "actual", "evidence", "remedy", "fabricmanager_unit line 3"):
        assert word in text
    assert "driver: CLOSED, failed: fabric.manager; could not tell: packages" in text
    assert text.count("; explained by fabric.manager: fabric.state") == 2, "driver and nvlink"
    assert text.count("5 days ago") == 1, "told once, named under the next gate"
    assert "as under driver" in text


def test_open_says_open() -> None:
    text = shown(made(read_snapshot(HEALTHY)))
    assert text.rstrip().splitlines()[-1] == "OPEN (exit 0): every gate asked for is open"
    assert "RECORDED, not a live node" in text
    number = sum(check.kind is Kind.NODE for check in for_phase(Phase.DRIVER))
    assert f"driver: OPEN, {number} checks" in text
    assert "nvlink: OPEN (passive part, nothing measured under load), 11 checks" in text


def test_verbose_lists_what_passed() -> None:
    report = made(read_snapshot(HEALTHY))
    assert "28 pairs" not in shown(report)
    assert "GPU0-GPU1, GPU0-GPU2, GPU0-GPU3, GPU0-GPU4 and 24 more" in shown(report, verbose=True)


def test_one_missing_probe_is_one_thing_to_read() -> None:
    snapshot = read_snapshot(HEALTHY)
    probes = {**snapshot.probes, "nvidia_smi_q_xml": ProbeResult(status=ProbeStatus.TIMEOUT)}
    text = shown(made(snapshot.model_copy(update={"probes": probes})))
    assert text.count("nvidia_smi_q_xml timed out") == 2  # once under driver, once under nvlink
    assert "the tool hangs, which is a finding" in text


def test_waivers_are_in_every_format() -> None:
    waiver = Waiver(
        check="fabric.manager", reason="vendor case 7", owner="ops", kind="break_glass",
        expires=AS_OF + timedelta(hours=8),
    )  # fmt: skip
    report = made(read_snapshot(HEALTHY.parent / "sick-fabric-manager-dead"), waivers=(waiver,))
    for text in (shown(report), markdown.render(report), junit.render(report)):
        assert "vendor case 7" in text
    assert "break-glass: fabric.manager until 2026-11-30 20:00, ops" in shown(report)


def test_junit_is_red_where_the_gate_is() -> None:
    root = ET.fromstring(junit.render(sick("sick-driver-upgraded-under-load")))
    suites = {s.get("name"): s for s in root}
    assert suites["node1.preflight"].get("errors") == "1", "apt.sources was not recorded"
    driver = suites["node1.driver"]
    assert int(driver.get("failures") or 0) >= 3 and int(driver.get("errors") or 0) > 8
    assert len(driver.findall("testcase")) == int(driver.get("tests") or 0)
    gate = [c for c in driver if c.get("name") == "gate"]
    assert gate[0].find("failure") is not None


def test_json_reads_back() -> None:
    report = sick("sick-gpu-off-the-bus")
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert json.loads(report.model_dump_json())["hosts"][0]["platform"]["id"] == "dgx-h100"


EVIL = "@all \x1b[2J\x1b]0;owned\x07\x9b31m\u202e[bold red]x[/] |a|<script>&\x00`b` [l](http://x)"


def evil() -> Report:
    snapshot = read_snapshot(HEALTHY)
    probes = dict(snapshot.probes)
    for name in probes:
        probes[name] = ProbeResult(status=ProbeStatus.FAILED, stdout=EVIL, stderr=EVIL, note=EVIL)
    probes["dmi_product"] = ProbeResult(status=ProbeStatus.OK, stdout=EVIL)
    probes["os_release"] = ProbeResult(
        status=ProbeStatus.OK, stdout=f'ID="{EVIL}"\nVERSION_ID="1"\nPRETTY_NAME=x\n'
    )
    source = snapshot.source.model_copy(update={"note": EVIL})
    return made(snapshot.model_copy(update={"probes": probes, "source": source}), host=EVIL)


@pytest.mark.parametrize("width", [40, 100])
def test_nothing_a_node_says_reaches_the_terminal_as_a_command(width: int) -> None:
    text = shown(evil(), width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "[bold red]" in text.replace("\n", ""), "markup is shown, not obeyed"


def test_nothing_a_node_says_is_markup_in_a_ticket() -> None:
    text = markdown.render(evil())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    outside = re.sub(r"`[^`\n]*`", "", text)  # in a code span nothing is a link or a mention
    for word in ("<script", "](", "://", "owned", "@"):
        assert word not in outside


def test_junit_stays_well_formed() -> None:
    ET.fromstring(junit.render(evil()))


def test_subjects_are_short() -> None:
    assert subjects(["GPU 0", "GPU 1", "GPU 2", "GPU 5"]) == "GPU 0-2, 5"
    assert subjects(["node"]) == "node"
    assert subjects([f"GPU0-GPU{i}" for i in range(1, 8)]).endswith("and 3 more")
