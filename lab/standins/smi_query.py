"""`nvidia-smi -q` as text and as XML, and `--query-gpu=... --format=csv`.

Forms: see ``smi_fields``; the column of the text is that of a 565 driver, and from 580 on the wider
one of a 580 driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html import escape

from .smi_fields import CSV, Row, Shown, rows, values, versions
from .state import branch


def as_text(shown: list[Shown], attached: int, driver: str, persistence: bool) -> str:
    """The whole of ``nvidia-smi -q``; ``attached`` counts all GPUs, ``shown`` may be one."""
    column = 55 if branch(driver) >= 580 else 42
    lines = ["", "==============NVSMI LOG==============", ""]

    def add(depth: int, words: str, value: str) -> None:
        lines.append(f"{'    ' * depth}{words}".ljust(column) + f": {value}")

    add(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y"))
    for words, _, value in versions(driver):
        add(0, words, value)
    lines.append("")
    add(0, "Attached GPUs", str(attached))
    for item in shown:
        told = values(item, persistence)
        lines.append(f"GPU {told['bus_id']}")
        for depth, words, _, template in rows(driver):
            if template is None:
                lines.append(f"{'    ' * (depth + 1)}{words}")
            elif words:
                add(depth + 1, words, template.format(**told))
        lines.append("")
    return "\n".join(lines) + "\n"


def as_xml(shown: list[Shown], attached: int, driver: str, persistence: bool) -> str:
    """The whole of ``nvidia-smi -q -x``."""
    out = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time.strftime('%a %b %e %H:%M:%S %Y')}</timestamp>",
    ]
    out += [f"\t<{name}>{value}</{name}>" for _, name, value in versions(driver)]
    out.append(f"\t<attached_gpus>{attached}</attached_gpus>")
    for item in shown:
        told = values(item, persistence)
        out.append(f'\t<gpu id="{told["bus_id"]}">')
        out += _xml_rows(rows(driver), told)
        out += ["\t\t<processes>", "\t\t</processes>", "\t</gpu>", ""]
    return "\n".join([*out, "</nvidia_smi_log>"]) + "\n"


#: XML prints these without the prefix that the text has.
_BARE_HEX = ("pci_bus", "pci_device", "pci_domain", "pci_base_class", "pci_sub_class",
             "pci_device_id", "pci_sub_system_id")  # fmt: skip
#: In XML these stand beside ``hw_slowdown``, in the text below it.
_FLAT = "clocks_event_reason_hw_"


def _xml_rows(table: tuple[Row, ...], told: dict[str, str]) -> Iterator[str]:
    groups: list[tuple[int, str]] = []
    for depth, _, name, template in table:
        if not name:
            continue
        level = min(depth, 1) if name.startswith(_FLAT) else depth
        while groups and groups[-1][0] >= level:
            closing = groups.pop()
            yield "\t" * (closing[0] + 2) + f"</{closing[1]}>"
        if template is None:
            groups.append((level, name))
            yield "\t" * (level + 2) + f"<{name}>"
            continue
        value = template.format(**told)
        if name in _BARE_HEX:
            value = value.removeprefix("0x").upper()
        yield "\t" * (level + 2) + f"<{name}>{escape(value)}</{name}>"
    while groups:
        closing = groups.pop()
        yield "\t" * (closing[0] + 2) + f"</{closing[1]}>"


def as_csv(
    shown: list[Shown], attached: int, query: str, form: str, persistence: bool
) -> tuple[str, int]:
    """``--query-gpu`` and the exit status: 2 for a field that is not known, as the tool does."""
    words = form.split(",")
    names = query.split(",")
    lines: list[str] = []

    def cell(name: str, item: Shown) -> str:
        unit, value = CSV[name]
        if value.startswith("="):
            value = values(item, persistence)[value[1:]]
            value += ".00" if name == "power.limit" else ""
        if value == "N/A":
            return "[N/A]"
        return f"{value} {unit}" if unit and "nounits" not in words else value

    fixed: dict[str, Callable[[Shown], str]] = {
        "index": lambda item: str(item[0]),
        "count": lambda item: str(attached),
    }
    fixed["timestamp"] = lambda item: time.strftime("%Y/%m/%d %H:%M:%S.000")
    for name in names:
        if name not in CSV and name not in fixed:
            return f'Field "{name}" is not a valid field to query.\n\n', 2
    if "noheader" not in words:
        units = {name: unit for name, (unit, _) in CSV.items() if unit}
        lines.append(", ".join(n + (f" [{units[n]}]" if n in units else "") for n in names))
    for item in shown:
        lines.append(", ".join(fixed[n](item) if n in fixed else cell(n, item) for n in names))
    return "\n".join(lines) + "\n", 0
