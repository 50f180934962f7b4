"""Kernel messages: Xid, SXid, notes, and texts that are no kernel log."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kernel_log import parse_kernel_log

LOGS = of_kind("xid", "sxid")
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=Fatal, GPU has fallen off the bus."


@pytest.mark.parametrize("sample", LOGS, ids=lambda s: s.file)
def test_label(sample: Sample) -> None:
    label, log = sample.label, parse_kernel_log(sample.text)
    assert [x.xid for x in log.xids] == label.get("xids", [])
    if "pci" in label:
        assert {x.pci for x in log.xids} == set(label["pci"])
    if isinstance(label.get("fatal"), list):
        assert [x.fatal for x in log.xids] == label["fatal"]
    want = [tuple(event) for event in label.get("sxid_events", [])]
    words = {True: "Fatal", False: "Non-fatal"}
    assert [(s.switch, s.sxid, s.port, words[s.fatal]) for s in log.sxids] == want
    failed = [note.pci for note in log.notes if note.kind == "probe_failed"]
    assert failed == label.get("probe_failed", failed)
    lines = sample.text.split("\n")
    told = [(x.text, x.line) for x in log.xids] + [(x.text, x.line) for x in log.sxids]
    for text, line in told + [(note.text, note.line) for note in log.notes]:
        assert text in lines[line - 1]
    assert not log.from_boot


@pytest.mark.parametrize(
    ("name", "kind", "pci"),
    [
        ("04_kernel_after_restart", "fabric_out_of_sync", None),
        ("sx01", "fallen_off_bus", "0000:91:00.0"),
        ("lsp06", "pcie_limited", "0001:43:00.0"),
        ("xid09", "probe_failed", "0000:04:00.0"),
    ],
)
def test_notes(name: str, kind: str, pci: str | None) -> None:
    note = parse_kernel_log(text_of(name)).notes[0]
    assert (note.kind, note.pci) == (kind, pci)


def test_old_probe_form_only_for_the_driver() -> None:
    log = parse_kernel_log(
        "[    9.1] i801_smbus: probe of 0000:00:1f.4 failed with error -16\n"
        "[    9.2] nvidia: probe of 0000:18:00.0 failed with error -1\n"
    )
    assert [(n.kind, n.pci) for n in log.notes] == [("probe_failed", "0000:18:00.0")]


@pytest.mark.parametrize(
    "prefix",
    [
        "[  123.456789] ",
        "[Sun Feb 23 16:24:18 2025] ",
        "[    4.123456] node1 kernel: ",
        "Mar 25 02:10:14 node1 kernel: ",
        "Mar  5 02:10:14 node1 kernel: ",
        "2025-03-25T02:10:14.123456+00:00 node1 kernel: ",
        "kernel: [12.5] ",
        "kernel: ",
        "<3>[   12.500000] ",
        "",
    ],
)
def test_time_stamps(prefix: str) -> None:
    log = parse_kernel_log(f"{prefix}{XID}\n")
    assert [(x.xid, x.pci, x.fatal) for x in log.xids] == [(79, "0000:9b:00", None)]
    assert not log.notes, "an Xid is told once"
    assert log.line_count == 1


def test_xid_forms() -> None:
    log = parse_kernel_log(
        "NVRM: Xid (0000:03:00): 31, Ch 00000010\nNVRM: Xid (PCI:00010000:03:00.0): 45\n"
        "NVRM: Xid (PCI:0000:03:00): 145, RLW Non-Fatal XC0\n"
    )
    assert [(x.xid, x.pci, x.fatal) for x in log.xids] == [
        (31, "0000:03:00", None),
        (45, "00010000:03:00.0", None),
        (145, "0000:03:00", False),
    ]


def test_from_boot() -> None:
    first = "[    0.000000] Linux version 6.8.0-71-generic (buildd@x) #71-Ubuntu SMP\n"
    other = "[    1.000000] x\n"
    assert parse_kernel_log(first + other).from_boot
    assert parse_kernel_log("-- Logs begin at Mon --\n" + first).from_boot
    assert parse_kernel_log("[    0.000000] node1 kernel: " + first[15:]).from_boot
    assert not parse_kernel_log(other * 200 + first).from_boot
    assert not parse_kernel_log(other).from_boot


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "-- No entries --\n",
        "-- Logs begin at Mon, end at Tue --\n",
        "dmesg: read kernel buffer failed: Operation not permitted\n",
        "bash: dmesg: command not found\n",
        "No journal files were found.\n",
        "hello world\n",
        "[1.5] NVRM: Xid (PCI:0000:9b\n",
        "[1.5] NVRM: Xid (PCI:0000:9b:00): many\n",
        "[1.5] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034\n",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_kernel_log(text)
