"""Kernel logs in every form that dmesg, the journal and syslog print.

Derived: the messages are those of recorded or publicly reported logs, the frame is the tool's.
"""

from __future__ import annotations

import json

import pytest

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kernel_log import parse_kernel_log

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
START = "Linux version 6.8.0-60-generic (buildd@x) (gcc 13) #63-Ubuntu SMP"
JOURNAL = "    _TRANSPORT=kernel\n    MESSAGE={}\n    _BOOT_ID=" + "a" * 32 + "\n"

#: One line of each form; {} is the message.
FORMS = {
    "dmesg": "[   12.500000] {}\n",
    "dmesg with caller": "[   12.500000][ T1234] {}\n",
    "dmesg -T": "[Sun Feb 23 16:24:18 2025] {}\n",
    "dmesg -x": "kern  :err   : [   12.500000] {}\n",
    "dmesg -x iso": "kern  :err   : 2025-01-25T10:34:54,859532+00:00 {}\n",
    "dmesg iso": "2025-01-25T10:34:54,859532+00:00 {}\n",
    "dmesg -d": "[   12.500000 <    0.100000>] {}\n",
    "dmesg -e": "[Feb23 16:24] {}\n[  +0.000012] nvidia: x\n",
    "dmesg -r": "<3>[   12.500000] {}\n",
    "dmesg -t": "{}\n",
    "/dev/kmsg": "3,3973,227996636,-;{}\n",
    "journal short": "Feb 23 16:24:18 gpu-01 kernel: {}\n",
    "journal short-iso": "2025-01-17T17:10:43+0000 gpu-01 kernel: {}\n",
    "journal short-iso-precise": "2025-01-17T17:10:43.123456+0000 gpu-01 kernel: {}\n",
    "journal short-precise": "Feb 23 16:24:18.123456 gpu-01 kernel: {}\n",
    "journal short-full": "Sun 2025-02-23 16:24:18 UTC gpu-01 kernel: {}\n",
    "journal short-monotonic": "[   12.500000] gpu-01 kernel: {}\n",
    "journal short-unix": "1706000000.123456 gpu-01 kernel: {}\n",
    "journal verbose": "Sun 2025-02-23 16:24:18.123456 UTC [s=ab;i=1;b=cd]\n" + JOURNAL,
    "journal export": "__CURSOR=s=1\n" + JOURNAL.replace("    ", "") + "\n",
    "syslog": "Feb 23 16:24:18 gpu-01 kernel: [   12.500000] {}\n",
    "rsyslog iso": "2025-02-23T16:24:18.123456+00:00 gpu-01 kernel: [   12.500000] {}\n",
    "pdsh": "gpu-01: [   12.500000] {}\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_the_event_and_the_boot(form: str) -> None:
    log = parse_kernel_log(FORMS[form].replace("{}", START) + FORMS[form].replace("{}", XID))
    assert [(event.xid, event.pci) for event in log.xids] == [(79, "0000:9b:00")]
    assert (log.from_boot, log.kernel) == (True, "6.8.0-60-generic")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_without_an_event_is_a_log(form: str) -> None:
    log = parse_kernel_log(FORMS[form].replace("{}", "NVRM: loading NVIDIA UNIX Kernel Module"))
    assert (log.xids, log.from_boot) == ((), False)


def _entry(message: object, boot: str, transport: str = "kernel") -> str:
    return json.dumps({"MESSAGE": message, "_BOOT_ID": boot, "_TRANSPORT": transport}) + "\n"


def test_journal_json() -> None:
    text = _entry(XID, "a" * 32) + _entry(XID, "b" * 32) + _entry([1, 2], "b" * 32)
    text += _entry("gpud saw NVRM: Xid (PCI:0000:9b:00): 79, x", "b" * 32, "journal")
    log = parse_kernel_log(text)
    assert [(event.line, event.text[:4]) for event in log.xids] == [(2, "pid=")]  # the last boot
    with pytest.raises(ParseError, match="JSON"):
        parse_kernel_log(text[:-20])


def test_another_program_may_quote_the_kernel() -> None:
    text = FORMS["journal short"].replace("{}", XID)
    text += f"Feb 23 16:24:19 gpu-01 health-agent[812]: found: {XID}\n"
    assert [event.line for event in parse_kernel_log(text).xids] == [1]


def test_two_boots() -> None:
    first = FORMS["journal short"].replace("{}", XID)
    last = FORMS["journal short"].replace("{}", START)
    for between in ("", "-- Reboot --\n", f"-- Boot {'c' * 32} --\n"):
        assert parse_kernel_log(first + between + last).xids == ()


MESSAGES: dict[str, tuple[int, str, bool | None]] = {
    "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous "
    "Xid 149": (45, "0000:dc:00", None),
    "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
    "(GPU Reset Required)": (154, "0008:01:00", None),
    "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)": (
        149, "0019:01:00", True,
    ),
    "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)": (
        145, "0018:01:00", False,
    ),
    "NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception "
    "on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter": (13, "0000:cb:00", None),
    "NVRM: Xid (PCI:0000:41:00 GPU-I:05): 13, pid=1, name=Fatal, Ch 00000008": (
        13, "0000:41:00", None,
    ),
    "NVRM: Xid (0000:02:00): 31, Ch 0000001b, engmask 00000101": (31, "0000:02:00", None),
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_xid_wordings(message: str) -> None:
    (event,) = parse_kernel_log(f"[   12.500000] {message}\n").xids
    assert (event.xid, event.pci, event.fatal) == MESSAGES[message]


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: _kgspLogXid119: ******************** GSP Timeout ********************",
        "NVRM: GPU at PCI:0000:9b:00: GPU-00000001-0000-4000-8000-000000000001",
        "NVRM: GPU Board Serial Number: 0000000000000",
    ],
)
def test_lines_that_name_an_xid_and_are_none(message: str) -> None:
    log = parse_kernel_log(f"[   12.500000] {message}\n[   12.500001] {XID}\n")
    assert [event.line for event in log.xids] == [2]


NOTES = {
    "pcieport 0000:16:01.0: AER: Uncorrected (Fatal) error received: 0000:18:00.0": "aer_fatal",
    "pcieport 0000:16:01.0: AER: Multiple Uncorrectable (Fatal) error message received from "
    "0000:18:00.0": "aer_fatal",
    "NVRM: rm_init_adapter(0) failed": "init_failed",
    "NVRM: GPU 0000:91:00.0: RmInitAdapter failed! (0x62:0x65:1860)": "init_failed",
}


@pytest.mark.parametrize("message", NOTES)
def test_notes(message: str) -> None:
    (note,) = parse_kernel_log(f"[   12.500000] {message}\n").notes
    assert note.kind == NOTES[message]


def test_a_flood_is_refused() -> None:
    with pytest.raises(ParseError, match="events"):
        parse_kernel_log("NVRM: Xid (PCI:0000:9b:00): 79, x\n" * 100_001)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("fallen_off_bus", "NVRM: fallen off the bus and is not responding to commands."),
        ("api_mismatch", "NVRM: API mismatch: the client 'nvidia-smi' (pid 1)"),
        ("api_mismatch", "nvidia-nvswitch0: Version mismatch, kernel version 565.57.01"),
        ("gsp_timeout", "NVRM: _kgspIsHeartbeatTimedOut: Heartbeat timed out, system is down"),
        ("init_failed", "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM"),
        ("init_failed", "NVRM: kgspInitRm: GSP firmware image version mismatch: got version 1"),
        ("hung_task", "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [nvidia-smi:41]"),
        ("reset_required", "NVRM: nvAssertOkFailed: [NV_ERR_RESET_REQUIRED] (0x62) returned"),
    ],
)
def test_other_words_for_known_faults(kind: str, said: str) -> None:
    """Derived: wordings of other driver branches, as public reports quote them."""
    log = parse_kernel_log(f"[   12.500000] {said}\n")
    assert [note.kind for note in log.notes] == [kind]


def test_a_line_of_details_without_its_event_is_an_event() -> None:
    """Cut above it, or lost: the details still say that there was one."""
    data = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {0x10000000, 0x10000000}"
    alone = parse_kernel_log(f"[   12.5] {data}\n")
    assert [(event.sxid, event.fatal) for event in alone.sxids] == [(20034, None)]
    event = data.replace("Data {0x10000000, 0x10000000}", "Fatal, Link 40 LTSSM Fault Up")
    both = parse_kernel_log(f"[   12.4] {event}\n[   12.5] {data}\n")
    assert [(found.sxid, found.fatal) for found in both.sxids] == [(20034, True)]


def test_talos_prefix() -> None:
    line = "10.5.0.2: kern: warning: [2025-01-25T10:34:54.859532Z]: " + XID
    assert [event.xid for event in parse_kernel_log(line + "\n").xids] == [79]
    calm = "10.5.0.2: kern:    info: [2025-01-25T10:34:54.859532Z]: eth0: link up\n"
    assert parse_kernel_log(calm).line_count == 1
