"""`nvidia-smi -q -x`: every GPU in full.

Evidence: real captures of one P100 (DTD v11), one A100 in MIG mode (v12) and a shortened driver
580 file; the 8-GPU H100 XML is re-rendered from a real text capture (no public one was found).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from fabric_tools.models.facts import GpuFacts, GpuInventory
from fabric_tools.parsers.base import ParseError, clean_lines
from fabric_tools.parsers.saved import bare
from fabric_tools.parsers.smi_answer import error_note
from fabric_tools.parsers.smi_fields import (
    BUS_ID,
    GPU,
    HEAD,
    MAX_GPUS,
    Fields,
    Get,
    build_gpu,
    health,
)
from fabric_tools.parsers.smi_text import MAX_LINES

PROBE = "nvidia_smi_q_xml"

_GPU_TAG = re.compile(r"<gpu\s")


def _root(text: str) -> ElementTree.Element:
    if "<nvidia_smi_log" not in text:
        raise ParseError(PROBE, 0, "no <nvidia_smi_log>" + error_note(clean_lines(text)))
    if "<!entity" in text.lower():
        # Entities can expand without bound, and nvidia-smi never declares one.
        raise ParseError(PROBE, 0, "an entity declaration, which nvidia-smi never prints")
    try:
        root = ElementTree.fromstring(text.lstrip("\ufeff \t\r\n"))
    except ElementTree.ParseError as err:
        skipped = text[: len(text) - len(text.lstrip("\ufeff \t\r\n"))].count("\n")
        note = error_note(clean_lines(text))
        raise ParseError(PROBE, err.position[0] + skipped, f"not whole XML: {err}{note}") from err
    except (ValueError, LookupError) as err:
        raise ParseError(PROBE, 0, f"not XML: {err}") from err
    if root.tag != "nvidia_smi_log":
        raise ParseError(PROBE, 0, f"the root is <{root.tag[:40]}>, not <nvidia_smi_log>")
    return root


def _getter(element: ElementTree.Element, table: dict[str, tuple[str, str]], line: int) -> Get:
    def get(name: str) -> str | None:
        path = table[name][0]
        # By path from this element, never by search: mig_device blocks repeat the same names.
        found = element.findall(path)
        if len(found) > 1:
            raise ParseError(PROBE, line, f"<{path}> stands there {len(found)} times")
        return found[0].text if found else None

    return get


def _gpu(element: ElementTree.Element, index: int, line: int) -> GpuFacts:
    bus_id = element.get("id", "")
    if not BUS_ID.fullmatch(bus_id):
        raise ParseError(PROBE, line, f"<gpu> without a PCI bus id: {bus_id[:40]!r}")
    found = health((child.tag, child.text or "") for child in element.findall("fabric/health/*"))
    facts = build_gpu(PROBE, index, line, bus_id, _getter(element, GPU, line), found)
    return facts.model_copy(update={"mig_devices": len(element.findall("mig_devices/mig_device"))})


def _lines_of_gpus(text: str) -> list[int]:
    """The line of each <gpu> tag, in one pass: a node can send a file with very many."""
    lines, line, position = [], 1, 0
    for match in _GPU_TAG.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        lines.append(line)
    return lines


def parse_gpu_inventory_xml(text: str) -> GpuInventory:
    """All GPUs in file order. ``attached_gpus`` may differ from them: a check judges that."""
    if text.count("\n") >= MAX_LINES:
        raise ParseError(PROBE, 0, f"more than {MAX_LINES} lines")
    text = bare(text)
    root = _root(text)
    elements = root.findall("gpu")
    tags = _lines_of_gpus(text)
    if len(tags) > MAX_GPUS:
        raise ParseError(PROBE, 0, f"{len(tags)} GPUs, more than any node has")
    if len(tags) != len(elements):
        raise ParseError(PROBE, 0, "<gpu> without an id, inside a comment or out of place")
    gpus = tuple(
        _gpu(element, index, line)
        for index, (element, line) in enumerate(zip(elements, tags, strict=True))
    )
    seen: set[str] = set()
    for gpu in gpus:
        if gpu.bus_id.lower() in seen:
            raise ParseError(PROBE, gpu.line, f"GPU {gpu.bus_id} is listed twice")
        seen.add(gpu.bus_id.lower())
    head = Fields(PROBE, 0, _getter(root, HEAD, 0))
    return GpuInventory(
        driver_version=head.version("driver_version", "kmd_version"),
        cuda_version=head.version("cuda_version", "cuda_umd_version"),
        attached_gpus=head.number("attached_gpus"),
        gpus=gpus,
    )
