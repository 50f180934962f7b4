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
    failed = [note.pci for note in log.notes if note.kind == "probe_failed" and note.pci]
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
    assert not parse_kernel_log(other).from_boot
    assert not parse_kernel_log("[    1.0] x86: Linux version 6.8 is old\n").from_boot
    assert parse_kernel_log(first).kernel == "6.8.0-71-generic"


BOOT = "[    0.000000] Linux version 6.8.0-71-generic (buildd@x) #71-Ubuntu SMP\n"


@pytest.mark.parametrize("between", [BOOT, "-- Reboot --\n", f"-- Boot {'a1' * 16} --\n"])
def test_only_the_last_boot_counts(between: str) -> None:
    log = parse_kernel_log(f"{BOOT}[    9.0] {XID}\n{between}[    9.0] x\n")
    assert log.xids == ()
    assert log.from_boot == (between == BOOT)


@pytest.mark.parametrize(
    "line",
    [
        "systemd-journald[400]: Missed 4711 kernel messages",
        "systemd-journald[400]: /dev/kmsg buffer overrun, some messages lost.",
    ],
)
def test_lost_messages_are_seen(line: str) -> None:
    assert parse_kernel_log(f"{BOOT}[    9.0] {line}\n").lost_line == 2


def test_mig_instance_behind_the_address() -> None:
    (xid,) = parse_kernel_log("NVRM: Xid (PCI:0000:9b:00 GPU-I:05 GPU-CI:00): 43, pid=1\n").xids
    assert (xid.xid, xid.pci) == (43, "0000:9b:00")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NVRM: GPU 0000:5d:00.0: RmInitAdapter failed! (0x62:0x40:2500)", "init_failed"),
        ("NVRM: API mismatch: the client has the version 570.1, but", "api_mismatch"),
        ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "probe_failed"),
        ("NVRM: _kgspRpcRecvPoll: Timeout waiting for RPC from GSP!", "gsp_timeout"),
        ("nvidia 0000:5d:00.0: Unable to change power state from D3cold to D0, device inaccessible",
         "device_inaccessible"),
        ("INFO: task nvidia-smi:4711 blocked for more than 120 seconds.", "hung_task"),
        ("pcieport 0000:5c:01.0: AER: Uncorrected (Fatal) error received: 0000:5d:00.0",
         "aer_fatal"),
    ],
)  # fmt: skip
def test_lines_known_to_be_faults(line: str, kind: str) -> None:
    assert [note.kind for note in parse_kernel_log(f"[   12.5] {line}\n").notes] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "NVRM:  Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
        "NVRM: xid (PCI:0000:9b:00): 79",
        "NVRM: Xid (PCI:0000:9b:00) 79",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Always Fatal, Link 30",
    ],
)
def test_what_looks_like_an_event_and_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(ParseError):
        parse_kernel_log(f"[   12.5] {line}\n")


def test_very_long_lines_cost_nothing() -> None:
    assert parse_kernel_log("[   12.5] " + "nvidia-" * 600000 + "\n").notes == ()


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
