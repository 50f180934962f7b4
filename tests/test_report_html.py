"""The HTML page: whole, honest at a glance, and nothing that a node says is markup in it."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fabric_tools.errors import Exit
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.nodemap import NodeMap
from fabric_tools.models.report import Decision, HostReport, PlatformChoice, Report
from fabric_tools.models.snapshot import HostIdentity, ProbeResult, ProbeStatus, Snapshot, Source
from fabric_tools.models.verdict import Evidence, Status, Verdict, Waiver
from fabric_tools.phases import Phase
from fabric_tools.report import html
from fabric_tools.report.text import printable
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import AS_OF, CORPUS, HEALTHY, MORE, PLATFORMS, ROOT

VOID = {"meta", "br", "hr", "img", "link", "input", "base"}
ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:]{5}\.\d")
PHASES = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)
EVIL = (
    "@all \x1b[2J\x1b]0;owned\x07\x9b31m\u202e</title></style><script>alert(1)</script>&\x00\"'"
    "<img src=x onerror=alert(1)> {{ 7*7 }} {% raw %} ]]> --> \u2028 fin"
)


class Page(HTMLParser):
    """Tags in balance, their attributes, and the text of all but the style sheet."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self.styles: list[str] = []
        self.title = ""
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag}: an attribute twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        inside = self.open[-1:]
        if inside == ["style"]:
            self.styles.append(data)
        elif inside == ["title"] and "svg" not in self.open:
            self.title += data
        else:
            self.parts.append(data)

    @property
    def text(self) -> str:
        """Of the body, without the name of the window."""
        return " ".join(" ".join(self.parts).split())

    def classes(self, tag: str) -> list[str]:
        return [attrs.get("class") or "" for name, attrs in self.tags if name == tag]


def made(snapshot: Snapshot, *waivers: Waiver, host: str = "node1", platform: str | None = None) -> HostReport:  # fmt: skip  # noqa: E501
    site = HostVars(platform=platform)
    question = Question(PHASES, PLATFORMS, host, AS_OF, site, "node1", waivers)
    return judge(snapshot, question)


def report(*hosts: HostReport, given: bool = False) -> Report:
    code = max((d.exit_code for host in hosts for d in host.decisions), default=Exit.UNKNOWN)
    if any(d.exit_code == Exit.CLOSED for host in hosts for d in host.decisions):
        code = Exit.CLOSED
    return Report(tool_version="1.2.3", as_of=AS_OF, as_of_given=given, hosts=hosts, exit_code=code)


def example(name: str) -> Snapshot:
    return read_snapshot(HEALTHY.parent / name)


def edited(**texts: Callable[[str], str]) -> Snapshot:
    """The healthy example with some probes' texts changed."""
    snapshot = example("healthy")
    probes = dict(snapshot.probes)
    for name, change in texts.items():
        before = probes[name].stdout
        after = change(before)
        assert before != after, name
        probes[name] = probes[name].model_copy(update={"stdout": after})
    return snapshot.model_copy(update={"probes": probes})


def glass(check: str, **more: object) -> Waiver:
    fields = {"reason": "vendor case 7", "owner": "ops", "kind": "break_glass"} | more
    return Waiver(check=check, expires=AS_OF + timedelta(hours=8), **fields)


def evil() -> HostReport:
    """Every word of the model that a node or operator may choose says the worst."""
    verdicts = tuple(
        Verdict(
            check="nvlink.links", subject=subject, status=status, expected=EVIL, actual=EVIL,
            evidence=(Evidence(probe=EVIL, line=3, text=EVIL),), remedy=EVIL,
        )
        for status in Status for subject in (EVIL, "GPU 1", "GPU0-GPU1")
    )  # fmt: skip
    decision = Decision(
        phase="driver", open=False, exit_code=1, verdicts=verdicts, reasons=(EVIL,),
        not_measured=(f"a.b: {EVIL}",),
    )  # fmt: skip
    healthy = made(edited())
    topo = healthy.map.topology
    assert topo is not None
    row = topo.rows[0].model_copy(
        update={"cells": {**topo.rows[0].cells, EVIL: EVIL, "GPU1": EVIL}, "numa_affinity": EVIL}
    )
    names = {"rows": (row, *topo.rows[1:]), "nics": (EVIL,), "nic_names": {EVIL: EVIL}}
    update = {"topology": topo.model_copy(update=names), "lacking": (EVIL,), "switches": (EVIL,)}
    return HostReport(
        host=EVIL,
        identity=HostIdentity(hostname=EVIL, machine_id=EVIL, boot_id=EVIL),
        source=Source(kind="recorded", note=EVIL),
        platform=PlatformChoice(id=EVIL, title=EVIL, why=EVIL),
        decisions=(decision,),
        waivers=(glass("nvlink.links", reason=EVIL, owner=EVIL, host=EVIL, subject=EVIL),),
        map=healthy.map.model_copy(update=update),
    )


@pytest.fixture(scope="module")
def sick() -> HostReport:
    return made(example("sick-gpu-off-the-bus"))


@pytest.fixture(scope="module")
def pages(sick: HostReport) -> dict[str, str]:
    """Pages of many kinds, for what must hold of all of them."""
    healthy, dead = made(edited()), made(example("sick-fabric-manager-dead"))
    nothing = HostReport(host="n", platform=PlatformChoice(why="no GPU was seen"), decisions=())
    return {
        "healthy": html.render(report(healthy)),
        "sick": html.render(report(sick)),
        "many": html.render(report(healthy, sick, dead, evil())),
        "evil": html.render(report(evil())),
        "nothing": html.render(report(nothing)),
        "no host": html.render(report()),
    }


KINDS = ("healthy", "sick", "many", "evil", "nothing", "no host")


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_in_balance_and_drawings_are_xml(pages: dict[str, str], kind: str) -> None:
    text = pages[kind]
    page = Page(text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    links = {attrs["href"] for _, attrs in page.tags if "href" in attrs}
    assert links <= {f"#{name}" for name in ids} | {"#top"}, "a link leads nowhere"
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == {"many": 4, "nothing": 0, "no host": 0}.get(kind, 1)
    for drawing in drawings:
        ET.fromstring(drawing)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_asks_for_nothing_and_runs_nothing(pages: dict[str, str], kind: str) -> None:
    page = Page(pages[kind])
    assert not {tag for tag, _ in page.tags} & {
        "script", "link", "img", "iframe", "object", "embed", "base", "form", "video", "audio",
        "image", "use", "foreignobject",
    }  # fmt: skip
    for tag, attrs in page.tags:
        assert not [n for n in attrs if n.startswith("on") or n in ("src", "srcset", "style")], tag
        assert (attrs.get("href") or "#").startswith("#")
        assert not any("url(" in (value or "") for value in attrs.values()) or kind == "evil"
    (style,) = page.styles
    assert not re.search(r"url\(|@import|expression|https?:", style)
    policy = [attrs for tag, attrs in page.tags if attrs.get("http-equiv")]
    assert policy[0]["content"] == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("kind", KINDS)
def test_no_control_character_and_plain_ascii(pages: dict[str, str], kind: str) -> None:
    text = pages[kind]
    assert text.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    shown = "".join(Page(text).parts)
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


def test_what_a_node_says_is_shown_and_not_obeyed(pages: dict[str, str]) -> None:
    page = Page(pages["evil"])
    words = printable(EVIL)
    assert page.text.count(words) > 20
    assert "{{ 7*7 }}" in page.text
    titles = [attrs["title"] for _, attrs in page.tags if attrs.get("title")]
    assert titles and all("<" not in (title or "") for title in titles)
    names = [tag for tag, _ in page.tags]
    assert names.count("title") - names.count("rect") <= 1 and names.count("body") == 1


@pytest.mark.parametrize(
    "name", ["healthy", "sick-gpu-off-the-bus", "sick-fabric-manager-dead",
             "sick-driver-upgraded-under-load"],
)  # fmt: skip
def test_every_verdict_is_in_the_page(name: str) -> None:
    host = made(example(name))
    text = Page(html.render(report(host))).text
    for decision in host.decisions:
        for reason in decision.reasons:
            assert printable(reason) in text
        for verdict in decision.verdicts:
            assert verdict.check in text
            if not verdict.subject.startswith("GPU "):
                assert verdict.subject in text, verdict
            where, _, rest = verdict.actual.partition(": ")
            parts = (rest,) if ADDRESS.fullmatch(where) else (verdict.actual,)
            assert all(printable(part) in text for part in (*parts, verdict.expected)), verdict
            assert printable(verdict.remedy) in text
            if verdict.status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
                assert all(printable(item.text) in text for item in verdict.evidence), verdict
                assert not ADDRESS.fullmatch(where) or where in text, verdict


def test_gpus_that_are_alike_are_told_as_a_range() -> None:
    text = Page(html.render(report(made(example("sick-fabric-manager-dead"))))).text
    assert "fabric.state GPU 0-7" in text
    assert "GPU 3 at 00000000:5D:00.0" in text


def test_all_evidence_of_alike_faults_is_there_the_rest_folded() -> None:
    verdicts = tuple(
        Verdict(
            check="gpu.pcie", subject=f"GPU {n}", status=Status.FAIL, actual="x8",
            evidence=(Evidence(probe="lspci", line=n, text=f"width of {n}"),),
        )
        for n in range(8)
    )  # fmt: skip
    decision = Decision(phase="driver", open=False, exit_code=1, verdicts=verdicts)
    host = HostReport(host="n", platform=PlatformChoice(why="x"), decisions=(decision,))
    page = Page(html.render(report(host)))
    assert all(f"width of {n}" in page.text for n in range(8))
    assert "4 more lspci line 4" in page.text
    assert "no reason was given" in page.text


def test_closed_gates_come_first_and_faults_before_the_rest(sick: HostReport) -> None:
    text = html.render(report(sick))
    open_and_closed = [c for c in Page(text).classes("details") if c.startswith("gate ")]
    assert open_and_closed == ["gate closed"] * 3
    one = text.index('class="finding fail"')
    assert one < text.index('class="finding unknown"') < text.index("passed, in")
    assert text.count(">as under driver</a>") >= 1, "a fault that two gates share is told once"


def test_top_says_verdict_time_source_and_version(sick: HostReport) -> None:
    host = sick.model_copy(update={"redacted": True})
    text = Page(html.render(report(host, given=True))).text
    for words in (
        "CLOSED (exit 1): closed by a fault", "exit code 1", "as of 2026-11-30 12:00:00 UTC",
        "Judged as of 2026-11-30 12:00 UTC, not now", "fabric-tools 1.2.3",
        "RECORDED, not a live node", "redacted", "dgx-h100", "detected: NVIDIA H100",
    ):  # fmt: skip
        assert words in text


def test_healthy_is_green_in_words_too() -> None:
    page = Page(html.render(report(made(edited()))))
    assert page.classes("header") == ["top open"]
    assert "OPEN (exit 0): every gate asked for is open" in page.text
    assert "nvlink \u2713 OPEN (passive part)" in page.text
    assert "GLASS" not in page.text and "WAIVED" not in page.text


def test_broken_glass_is_red_and_on_top_of_an_open_gate() -> None:
    broken = edited(
        fabricmanager_unit=lambda t: t.replace("ActiveState=active", "ActiveState=failed")
    )
    found = made(broken)
    against = {
        v.check for d in found.decisions for v in d.verdicts
        if v.status in (Status.FAIL, Status.UNKNOWN)
    }  # fmt: skip
    assert "fabric.manager" in against
    host = made(broken, *(glass(check) for check in against))
    assert all(decision.open for decision in host.decisions)
    text = html.render(report(host))
    page = Page(text)
    assert page.classes("header") == ["top waived"], "open on a waiver is not plain green"
    assert "WAIVED" in page.title, "a tab must not say plain OPEN either"
    assert page.text.index("GLASS BROKEN") < page.text.index("OPEN (exit 0)")
    assert page.text.index("break-glass: fabric.manager until") < page.text.index("OPEN (exit 0)")
    assert "OPEN, WITH FAULTS WAIVED" in page.text
    assert "gate waived" in page.classes("details")


def test_broken_glass_that_was_not_used_is_on_top_too() -> None:
    host = made(edited(), glass("fabric.manager"))
    page = Page(html.render(report(host)))
    assert "section" in {tag for tag, attrs in page.tags if attrs.get("class") == "glass"}
    unused = glass("fabric.manager", kind="waiver")
    assert "glass" not in Page(html.render(report(made(edited(), unused)))).classes("section")


def marked(page: Page, tag: str) -> list[str]:
    return [c for c in page.classes(tag) if "mark-" in c]


def test_one_pair_off_nvlink_is_marked_in_matrix_and_drawing() -> None:
    def pix(text: str) -> str:
        lines = [line.split("\t") for line in text.split("\n")]
        lines[3][6] = lines[6][3] = "PIX"
        return "\n".join("\t".join(cells) for cells in lines)

    text = html.render(report(made(edited(nvidia_smi_topo=pix))))
    page = Page(text)
    assert marked(page, "td") == ["k-near mark-fail"] * 2
    assert text.count(">!PIX</td>") == 2
    assert page.classes("path") == ["link bad"]
    assert "! GPU2-GPU5: nvlink.full_mesh" in page.text


def test_seventeen_of_eighteen_links_are_seen_at_a_glance() -> None:
    def down(text: str) -> str:
        head, gpu2, rest = text.partition("GPU 2:")
        return head + gpu2 + rest.replace("Link 4: 26.562 GB/s", "Link 4: <inactive>", 1)

    page = Page(html.render(report(made(edited(nvidia_smi_nvlink=down)))))
    assert marked(page, "td") == ["links-bad mark-fail"]
    assert marked(page, "rect") == ["gpu mark-fail"]
    assert page.classes("line").count("link bad") == 1
    assert page.classes("line").count("link ok") == 7
    assert "! GPU 2 17/18 links" in page.text and "!17/18" in page.text


def test_a_gpu_off_nvlink_is_marked_itself_and_not_by_seven_lines() -> None:
    matrix = (CORPUS / "topo" / "t40_b200_8_gpu2_off_nvlink.txt").read_text()
    page = Page(html.render(report(made(edited(nvidia_smi_topo=lambda _: matrix)))))
    assert len(marked(page, "td")) == 14 and not page.classes("path")
    assert "! GPU 2 7 pairs bad" in page.text


def test_a_lost_gpu_has_an_empty_seat(sick: HostReport) -> None:
    page = Page(html.render(report(sick)))
    assert page.classes("rect").count("gpu lost") == 1
    assert "7 GPUs drawn, the platform has 8" in page.text
    assert "! GPU 4 at 0000:9a:00.0: pci.gpu_link" in page.text, "GPU 4 of nvidia-smi is another"
    assert "! GPU 4 at 9a:00.0" in page.text


def test_what_nothing_was_said_of_is_not_drawn_as_good() -> None:
    snapshot = Snapshot(
        schema_version=1, kind="fabric-tools/snapshot",
        collector=edited().collector,
        probes={"nvidia_smi_topo": edited().probes["nvidia_smi_topo"]},
    )  # fmt: skip
    page = Page(html.render(report(made(snapshot))))
    boxes = [c for c in page.classes("rect") if c.startswith("gpu")]
    assert boxes == ["gpu unjudged"] * 8
    assert "the platform is not known" in page.text and "links ?" in page.text


def test_without_a_matrix_the_reason_stands_there() -> None:
    snapshot = edited()
    hung = ProbeResult(status=ProbeStatus.TIMEOUT)
    probes = snapshot.probes | {"nvidia_smi_topo": hung, "nvidia_smi_nvlink": hung}
    page = Page(html.render(report(made(snapshot.model_copy(update={"probes": probes})))))
    assert "not drawn: nvidia_smi_topo timed out" in page.text
    assert "svg" not in {tag for tag, _ in page.tags}


def test_nics_sit_at_the_gpu_of_their_rail() -> None:
    matrix = (MORE / "roce" / "topo.txt").read_text()
    page = Page(html.render(report(made(edited(nvidia_smi_topo=lambda _: matrix)))))
    assert page.classes("line").count("near") == 8
    assert page.classes("rect").count("nic") == 9
    assert "NIC8 mlx5_bond_0" in page.text


@pytest.mark.parametrize("path", sorted((CORPUS / "topo").glob("*.txt")), ids=lambda p: p.name[:3])
@pytest.mark.parametrize("platform", [None, "hgx-h100"])
def test_every_recorded_matrix_can_be_drawn(path: Path, platform: str | None) -> None:
    result = ProbeResult(status=ProbeStatus.OK, stdout=path.read_text())
    snapshot = edited().model_copy(update={"probes": {"nvidia_smi_topo": result}})
    page = Page(html.render(report(made(snapshot, platform=platform))))
    where = [float(attrs["x"] or "") for tag, attrs in page.tags if tag == "rect"]
    widths = [float(attrs["width"] or "") for tag, attrs in page.tags if tag == "svg"]
    assert all(0 <= x < widths[0] for x in where)


def test_the_map_of_a_report_reads_back(sick: HostReport) -> None:
    assert NodeMap.model_validate_json(sick.map.model_dump_json()) == sick.map
    assert sick.map.switches is not None and len(sick.map.switches) == 4
    assert [link.up for link in sick.map.links] == [18] * 7


def test_sixty_four_hosts_have_an_index_and_fit() -> None:
    healthy = made(edited())
    hosts = [healthy.model_copy(update={"host": f"node{n:02}"}) for n in range(63)]
    last = made(example("sick-gpu-off-the-bus"), host="broken")
    text = html.render(report(*hosts, last))
    assert len(text) < 3_000_000
    page = Page(text)
    assert page.classes("table").count("index") == 1
    shown = [name for name in page.text.split() if re.fullmatch(r"node\d\d|broken", name)]
    assert shown[0] == "broken", "closed hosts stand first"
    assert len(set(shown)) == 64


def test_nothing_judged_is_not_open() -> None:
    for found in (report(), report(HostReport(host="n", platform=PlatformChoice(why="x"), decisions=()))):  # fmt: skip  # noqa: E501
        page = Page(html.render(found))
        assert page.classes("header") == ["top unknown"]
        forged = found.model_copy(update={"exit_code": Exit.OPEN})
        assert Page(html.render(forged)).classes("header") == ["top unknown"]


@pytest.mark.cli
def test_the_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fabric_tools", "validate", "driver", "--format", "html",
         "--snapshot", str(HEALTHY.parent / "sick-fabric-manager-dead")],
        cwd=ROOT, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == Exit.CLOSED, done.stderr
    assert done.stdout.startswith("<!DOCTYPE html>")
    assert "fabric.state" in Page(done.stdout).text
