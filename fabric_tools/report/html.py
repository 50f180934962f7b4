"""The report as one HTML file: no network, no script, readable at night and on paper.

Everything a node said passes ``printable`` and is escaped, by the template engine and not by the
template: there is no way to print a value without both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fabric_tools.errors import Exit
from fabric_tools.gate import used_waivers
from fabric_tools.models.report import HostReport, Report
from fabric_tools.models.verdict import Status
from fabric_tools.report import drawing, matrix
from fabric_tools.report.marks import marks, told
from fabric_tools.report.pageview import HostView, severity, view
from fabric_tools.report.seats import far_nics, gpu_numbers
from fabric_tools.report.text import printable, subjects, verdict_line, waiver_line

_FOLDER = Path(__file__).with_name("page")
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """The drawing of one node with its tables. ``marked``: the marks in words."""

    svg: str
    gpus: matrix.Matrix | None
    nics: matrix.Matrix | None
    legend: list[tuple[str, str, str]]
    marked: list[tuple[Status, str]]
    notes: list[str]


def render(report: Report) -> str:
    """The page, in ASCII: other characters are written as references, so that no locale and no
    web server can show them as something else.
    """
    hosts = [view(host, f"h{number}") for number, host in enumerate(report.hosts)]
    hosts.sort(key=severity)
    phases = dict.fromkeys(d.phase for host in report.hosts for d in host.decisions)
    text = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            hosts=hosts,
            phases=list(phases),
            verdict=verdict_line(report),
            css=(_FOLDER / "page.css").read_text(encoding="ascii"),
            overall=_overall(report, hosts),
            waivers=_waivers(report),
            glass=_glass(report),
            plan=_plan,
            waiver_text=waiver_line,
        )
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    """Called for every value that the template prints. What is markup already is the output of a
    macro, whose values came through here, or the style sheet or drawing that the template trusts.
    """
    return value if hasattr(value, "__html__") else printable(str(value))


def _overall(report: Report, hosts: list[HostView]) -> str:
    """Class of the verdict on top. Open on a waiver is never shown as plain open."""
    if report.exit_code != Exit.OPEN:
        return "unknown" if report.exit_code == Exit.UNKNOWN else "closed"
    if any(host.css == "waived" for host in hosts):
        return "waived"
    return "open" if hosts and all(host.css == "open" for host in hosts) else "unknown"


def _glass(report: Report) -> str:
    """The head of the red box."""
    broken = any(w.kind == "break_glass" for host in report.hosts for w in host.waivers)
    return "GLASS BROKEN: faults may be let through" if broken else "WAIVED: faults are let through"


def _waivers(report: Report) -> list[tuple[str, list[str]]]:
    """Broken glass, and waivers that a gate rests on: each with the hosts it is for."""
    found: dict[str, list[str]] = {}
    for host in report.hosts:
        for line in _loud(host):
            found.setdefault(line, []).append(host.host)
    return [
        (line, [*names[:_NAMED], *([f"and {len(names) - _NAMED} more"] * (len(names) > _NAMED))])
        for line, names in found.items()
    ]


def _loud(host: HostReport) -> list[str]:
    used = [w for decision in host.decisions for w in used_waivers(decision, host.waivers)]
    return [
        waiver_line(waiver, host.waiver_name)
        for waiver in host.waivers
        if waiver.kind == "break_glass" or waiver in used
    ]


def _plan(host: HostReport) -> Plan:
    found = marks(host)
    gpus, nics = matrix.gpu_matrix(host.map, found), matrix.nic_matrix(host.map)
    return Plan(
        svg=drawing.draw(host.map, found),
        gpus=gpus,
        nics=nics,
        legend=matrix.used_kinds((gpus, nics)),
        marked=told(found),
        notes=_notes(host),
    )


def _notes(host: HostReport) -> list[str]:
    node = host.map
    notes = [f"not drawn: {why}" for why in node.lacking]
    seen, wanted = len(gpu_numbers(node)), node.wanted
    if wanted and seen and seen != wanted.gpus:
        notes.append(
            f"{seen} GPUs drawn, the platform has {wanted.gpus}. Numbers close up over a lost one: "
            "a mark at a GPU's number may mean another card, go by the bus address"
        )
    if wanted is None:
        notes.append("the platform is not known, so nothing is compared with what should be there")
    if node.texts > 1:
        notes.append(f"{node.texts} different matrices were saved; all are judged, one is drawn")
    if not node.links_whole:
        notes.append("the list of NVLinks is cut: a GPU may have more links up than it says")
    if node.topology and far_nics(node.topology):
        far = subjects(far_nics(node.topology), _NAMED)
        notes.append(f"NICs of no GPU's NUMA node, as far as the matrix tells: {far}")
    return notes
