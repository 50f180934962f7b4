"""JUnit XML for CI systems: one suite a gate, one case a check and subject."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from fabric_tools.models.report import Decision, Report
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.report.text import closing, evidence_text, origin, printable


def render(report: Report) -> str:
    """The XML. FAIL is a failure, UNKNOWN an error; a closed gate fails by a case of its own, so
    that a gate closed by silence is not green.
    """
    root = ET.Element("testsuites", name="fabric-tools")
    for host in report.hosts:
        for decision in host.decisions:
            root.append(_suite(printable(host.host), decision, origin(host)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(host: str, decision: Decision, source: str) -> ET.Element:
    suite = ET.Element("testsuite", name=f"{host}.{decision.phase}")
    if source:  # that it is recorded, or of a simulated node
        properties = ET.SubElement(suite, "properties")
        ET.SubElement(properties, "property", name="source", value=source)
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for verdict in decision.verdicts:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"{host}.{decision.phase}.{verdict.check}",
            name=printable(verdict.subject),
        )
        kind = _outcome(verdict)
        if kind:
            counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]] += 1
            _explain(ET.SubElement(case, kind), verdict)
        elif verdict.status is Status.WARN:
            ET.SubElement(case, "system-out").text = _details(verdict)
    gate = ET.SubElement(suite, "testcase", classname=f"{host}.{decision.phase}", name="gate")
    if not decision.open:
        counts["failures"] += 1
        ET.SubElement(gate, "failure", message=closing(decision))
    suite.set("tests", str(len(decision.verdicts) + 1))
    for name, number in counts.items():
        suite.set(name, str(number))
    return suite


def _outcome(verdict: Verdict) -> str:
    if verdict.status is Status.NOT_APPLICABLE or verdict.waived_by:
        return "skipped"
    return {Status.FAIL: "failure", Status.UNKNOWN: "error"}.get(verdict.status, "")


def _explain(element: ET.Element, verdict: Verdict) -> None:
    message = f"expected {verdict.expected}, got {verdict.actual}"
    element.set("message", printable(verdict.waived_by or message))
    element.text = _details(verdict)


def _details(verdict: Verdict) -> str:
    lines = [f"expected: {verdict.expected}", f"actual: {verdict.actual}"]
    lines += [f"evidence: {evidence_text(item)}" for item in verdict.evidence]
    lines += [f"remedy: {verdict.remedy}"] if verdict.remedy else []
    return "\n".join(printable(line) for line in lines)
