"""The ledger: what was tampered with is seen, what was killed is mended, what was proved stays."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fabric_tools.errors import FabricToolsError, UsageError
from fabric_tools.ledger import (
    Ledger,
    LedgerError,
    Proof,
    create_keys,
    default_folder,
    entry_of,
    files_sha256,
    inputs_of,
    ledgers,
    load_private_key,
    load_public_key,
    may_skip,
    state_of,
    unproved_needs,
)
from fabric_tools.ledger.drift import compare_states, drift_of
from fabric_tools.ledger.lines import split
from fabric_tools.models.inventory import HostVars, Profile
from fabric_tools.models.ledger import NodeState
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus
from fabric_tools.models.verdict import Status, Verdict, Waiver
from fabric_tools.phases import PHASES, Phase
from fabric_tools.platforms import load_platforms
from tests.cases_runner import ROOT
from tests.ledger_help import CHAIN, NOW, Site, live, new_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path / "state")


@pytest.fixture
def four(site: Site) -> Site:
    site.add(Phase.PREFLIGHT, Phase.BASE, Phase.DRIVER, Phase.CUDA)
    return site


def lines(site: Site) -> list[bytes]:
    return site.ledger.path.read_bytes().splitlines(keepends=True)


def rewrite(site: Site, new: list[bytes]) -> None:
    site.ledger.path.write_bytes(b"".join(new))


# --- whole -------------------------------------------------------------------------------------


def test_what_is_appended_is_whole_and_read_back(four: Site) -> None:
    assert four.ledger.verify(four.public) == ()
    assert [e.phase for e in four.ledger.entries()] == ["preflight", "base", "driver", "cuda"]
    last = four.ledger.last("base")
    assert last is not None and last.machine_id == "m1" and last.state.values["kernel"]
    assert four.ledger.last("roce") is None


def test_earlier_lines_keep_every_byte(four: Site) -> None:
    before = four.ledger.path.read_bytes()
    four.add(Phase.BASE, is_open=False)
    assert four.ledger.path.read_bytes().startswith(before)


def test_a_later_version_with_more_fields_still_verifies(four: Site) -> None:
    """The signature is over the line, not over a rendering of the fields that are known now."""
    first = json.loads(lines(four)[0])
    order = list(first)
    assert order[-1] == "signature"
    spaced = json.dumps(first).encode() + b"\n"
    rewrite(four, [spaced, *lines(four)[1:]])
    assert "signature does not fit" in four.ledger.verify(four.public)[0]


# --- tampered with -----------------------------------------------------------------------------


def changed(four: Site) -> None:
    all_of = lines(four)
    assert b'"open":true' in all_of[1]
    rewrite(four, [all_of[0], all_of[1].replace(b'"open":true', b'"open":false'), *all_of[2:]])


def removed(four: Site) -> None:
    all_of = lines(four)
    rewrite(four, [all_of[0], *all_of[2:]])


def first_removed(four: Site) -> None:
    rewrite(four, lines(four)[1:])


def swapped(four: Site) -> None:
    one, two, *rest = lines(four)
    rewrite(four, [two, one, *rest])


def repeated(four: Site) -> None:
    all_of = lines(four)
    rewrite(four, [*all_of, all_of[1]])


def garbage(four: Site) -> None:
    all_of = lines(four)
    rewrite(four, [all_of[0], b"\x00\xff{\n", *all_of[1:]])


def blank_line(four: Site) -> None:
    all_of = lines(four)
    rewrite(four, [*all_of[:2], b"\n", *all_of[2:]])


def unsigned(four: Site) -> None:
    all_of = lines(four)
    rewrite(
        four, [*all_of[:3], all_of[3].replace(json.loads(all_of[3])["signature"].encode(), b"")]
    )


def other_host(four: Site) -> None:
    other = Site(four.folder, four.key, four.snapshot, host="node2")
    other.add(Phase.PREFLIGHT)
    other.ledger.path.replace(four.ledger.path)


def other_key(four: Site) -> None:
    forged = Site(four.folder, Ed25519PrivateKey.generate(), four.snapshot)
    four.ledger.path.unlink()
    forged.add(Phase.PREFLIGHT)


def other_key_with_our_id(four: Site) -> None:
    """A forger writes the id of the site's key into an entry that another key signed."""
    other_key(four)
    entry = json.loads(lines(four)[0])
    from fabric_tools.ledger import key_id

    rewrite(four, [lines(four)[0].replace(entry["key_id"].encode(), key_id(four.public).encode())])


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (changed, "line 2: was changed"),
        (removed, "line 2: does not follow the line before"),
        (first_removed, "line 1: does not follow a line before"),
        (swapped, "line 1: does not follow"),
        (repeated, "line 5: does not follow"),
        (garbage, "line 2: is no entry"),
        (blank_line, "line 3: is no entry"),
        (unsigned, "line 4: was changed"),
        (other_host, "line 1: is of another host (node2)"),
        (other_key, "line 1: is signed with another key"),
        (other_key_with_our_id, "line 1: was changed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_tampering_is_seen_and_proves_nothing(
    four: Site, tamper: Callable[[Site], None], complaint: str
) -> None:
    assert isinstance(four.ask(Phase.PREFLIGHT), Proof)
    tamper(four)
    found = four.ledger.verify(four.public)
    assert found and found[0].startswith(complaint), found
    why = four.ask(Phase.PREFLIGHT)
    assert isinstance(why, str) and complaint in why and "ledger verify node1" in why


def test_every_flipped_byte_is_seen(four: Site) -> None:
    """In any place of the file, but for a last newline, without which the line is no entry."""
    good = four.ledger.path.read_bytes()
    places = random.Random(1).sample(range(len(good) - 1), 300)
    for place in places:
        bad = bytes([good[place] ^ 1])
        chain = split(good[:place] + bad + good[place + 1 :])
        from fabric_tools.ledger.lines import check

        assert check(chain, "node1", four.public), (place, good[place : place + 1])


@given(st.binary(max_size=400))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    chain = split(data)
    assert len(chain.lines) == data.count(b"\n")
    assert b"\n".join([*(line.data for line in chain.lines), chain.torn]) == data
    assert all(line.entry is None and line.why for line in chain.lines)


@pytest.mark.parametrize(
    "line",
    [b"[" * 200_000, b'{"host":"' + b"a" * 5_000_000 + b'"}', b'{"schema_version":2}', b"\xff\xfe",
     b'{"host":"\\ud800"}', b"null", b"NaN"],
    ids=["deep", "long", "version", "bytes", "surrogate", "null", "nan"],
)  # fmt: skip
def test_hostile_lines_are_complaints(four: Site, line: bytes) -> None:
    rewrite(four, [*lines(four), line + b"\n"])
    found = four.ledger.verify(four.public)
    assert len(found) == 1 and found[0].startswith("line 5: is no entry") and len(found[0]) < 400
    with pytest.raises(LedgerError, match="line 5 is no entry"):
        four.ledger.entries()


def test_a_file_that_is_too_large_is_refused(four: Site) -> None:
    os.truncate(four.ledger.path, 65 * 1024 * 1024)
    with pytest.raises(LedgerError, match="larger than 64 MiB"):
        four.ledger.verify(four.public)


@pytest.mark.parametrize("tamper", [other_host, other_key, unsigned, repeated])
def test_nothing_is_appended_to_a_bad_end(four: Site, tamper: Callable[[Site], None]) -> None:
    tamper(four)
    before = four.ledger.path.read_bytes()
    with pytest.raises(LedgerError, match="line") as caught:
        four.add(Phase.BASE)
    assert caught.value.exit_code == 3
    assert four.ledger.path.read_bytes() == before


def test_an_entry_of_another_host_is_refused(four: Site) -> None:
    with pytest.raises(UsageError, match="node1"):
        Ledger(four.folder, "node2").append(four.entry(Phase.BASE), four.key)


def test_a_cut_tail_is_not_seen_by_the_chain(four: Site) -> None:
    """Said in docs/ledger.md; the head that was noted elsewhere finds it (test_ledger_cli)."""
    rewrite(four, lines(four)[:2])
    assert four.ledger.verify(four.public) == ()


# --- killed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 40, -2, -1])
def test_a_torn_line_is_moved_aside(four: Site, keep: int) -> None:
    """Also one that lacks only its newline: nobody was told that it was written."""
    whole = lines(four)
    torn = whole[3][:keep]
    rewrite(four, [*whole[:3], torn])
    assert four.ledger.verify(four.public) == ()
    assert [e.phase for e in four.ledger.entries()] == ["preflight", "base", "driver"]
    assert isinstance(four.ask(Phase.CUDA), str)
    ours = four.ledger
    ours.append(four.entry(Phase.CUDA), four.key)
    assert lines(four)[:3] == whole[:3] and len(lines(four)) == 4
    assert ours.verify(four.public) == ()
    aside = ours.path.with_suffix(".torn")
    assert aside.read_bytes() == torn + b"\n"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert len(ours.notes) == 1 and "cut off after line 3" in ours.notes[0]


def test_zeros_after_a_power_loss_are_moved_aside(four: Site) -> None:
    good = four.ledger.path.read_bytes()
    four.ledger.path.write_bytes(good + b"\x00" * 700)
    four.add(Phase.BASE)
    assert four.ledger.path.read_bytes().startswith(good)
    assert four.ledger.verify(four.public) == ()


#: Appends until it is killed, a few bytes at a time, so that a kill is likely to hit a line.
_SLOW_WRITER = """
import sys, os, time
from pathlib import Path
from fabric_tools.ledger import store
from fabric_tools.ledger import load_private_key
from tests.ledger_help import Site, live
from fabric_tools.phases import Phase

def slow(handle, data):
    for at in range(0, len(data), 256):
        os.write(handle, data[at:at + 256])
        time.sleep(0.0005)

store._write = slow
folder = Path(sys.argv[1])
site = Site(folder, load_private_key(folder / "site.key"), live())
entry = site.entry(Phase.BASE)
print("ready", flush=True)
while True:
    site.ledger.append(entry, site.key)
    print("done", flush=True)
"""


def start(code: str, *args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.cli
def test_kill_9_in_the_middle_of_an_append(four: Site) -> None:
    """Twelve times: what was reported as done is there, byte for byte, and the next run goes on."""
    dice = random.Random(4)
    torn = 0
    for _ in range(12):
        before = four.ledger.path.read_bytes()
        whole = before[: before.rindex(b"\n") + 1]
        writer = start(_SLOW_WRITER, str(four.folder))
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(dice.uniform(0.02, 0.12))
        writer.send_signal(signal.SIGKILL)
        done = writer.communicate(timeout=30)[0].count(b"done\n")
        after = four.ledger.path.read_bytes()
        assert after.startswith(whole)
        assert four.ledger.verify(four.public) == ()
        assert after.count(b"\n") >= whole.count(b"\n") + done
        torn += not after.endswith(b"\n")
    assert torn, "no kill hit a line: the test proves nothing"
    four.add(Phase.DRIVER)
    assert four.ledger.verify(four.public) == ()
    assert lines(four)[-1].endswith(b'"}\n')


_WRITER = """
import sys
import time
from pathlib import Path
from fabric_tools.ledger import load_private_key
from tests.ledger_help import Site, live
from fabric_tools.phases import Phase

folder = Path(sys.argv[1])
site = Site(folder, load_private_key(folder / "site.key"), live())
entry = site.entry(Phase(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    site.ledger.append(entry, site.key)
    # One that is never made to wait may write all of its own before the other has the lock once.
    while number == 50 and not any(e.phase == sys.argv[3] for e in site.ledger.entries()):
        time.sleep(0.01)
"""


@pytest.mark.cli
def test_two_processes_append_200_each(site: Site) -> None:
    turns = (("base", "driver"), ("driver", "base"))
    both = [start(_WRITER, str(site.folder), phase, other) for phase, other in turns]
    for writer in both:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    for writer in both:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in both:
        writer.communicate(timeout=300)
        assert writer.returncode == 0
    assert site.ledger.verify(site.public) == ()
    phases = [entry.phase for entry in site.ledger.entries()]
    assert phases.count("base") == 200 and phases.count("driver") == 200
    assert phases != sorted(phases), "they did not run beside each other: the test proves nothing"


def test_a_lock_that_is_held_is_waited_for_and_named(
    four: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    from fabric_tools.ledger import store

    monkeypatch.setattr(store, "_LOCK_WAIT_S", 0.1)
    with four.ledger.path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="another process"):
            four.add(Phase.BASE)
        with pytest.raises(LedgerError, match="another process"):
            four.ledger.entries()
    assert len(lines(four)) == 4


def test_a_full_disk_leaves_no_part_of_a_line(four: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from fabric_tools.ledger import store

    def full(handle: int, data: bytes) -> None:
        os.write(handle, data[:100])
        raise OSError(28, "No space left on device")

    before = four.ledger.path.read_bytes()
    monkeypatch.setattr(store, "_write", full)
    with pytest.raises(UsageError, match="No space left"):
        four.add(Phase.BASE)
    assert four.ledger.path.read_bytes() == before


# --- files and names ---------------------------------------------------------------------------


def test_modes(four: Site, tmp_path: Path) -> None:
    deep = Site(tmp_path / "new" / "deeper", four.key, four.snapshot)
    old = os.umask(0)
    try:
        deep.add(Phase.BASE)
    finally:
        os.umask(old)
    assert stat.S_IMODE(deep.ledger.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(deep.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((four.folder / "site.key").stat().st_mode) == 0o600


def test_a_file_that_others_may_read_is_closed_to_them(four: Site) -> None:
    four.ledger.path.chmod(0o644)
    four.add(Phase.BASE)
    assert stat.S_IMODE(four.ledger.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("what", "mode"), [("file", 0o620), ("file", 0o602), ("folder", 0o770)])
def test_what_others_may_write_to_is_refused(four: Site, what: str, mode: int) -> None:
    (four.ledger.path if what == "file" else four.folder).chmod(mode)
    with pytest.raises(UsageError, match="other users may write"):
        four.add(Phase.BASE)


def test_a_ledger_of_another_account_is_left_alone(
    four: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read it. Whoever else comes is told so, and so is root that would add to it."""
    owner = os.geteuid()
    if owner == 0:
        os.chown(four.ledger.path, 1234, -1)
        assert four.ledger.verify(four.public) == ()
        with pytest.raises(UsageError, match="belongs to another user"):
            four.add(Phase.BASE)
        owner = 1234
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        four.ledger.chain()


def test_links_and_devices_are_refused(four: Site, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (four.folder / "node2.jsonl").symlink_to(victim)
    os.mkfifo(four.folder / "node3.jsonl", 0o600)
    for host, why in (("node2", "symbolic link"), ("node3", "not a regular file")):
        other = Site(four.folder, four.key, four.snapshot, host=host)
        with pytest.raises(UsageError, match=why):
            other.add(Phase.BASE)
        with pytest.raises(UsageError, match=why):
            other.ledger.chain()
    assert victim.read_text() == "keep"


@pytest.mark.parametrize(
    "host",
    ["../../etc/passwd", "..", ".", "/etc/shadow", ".hidden", "a/b", "a b", "fe80::1%eth0", "NODE",
     "knoten-ü", "x" * 200, "%2e%2e", "-rf", "a\\b", "$(id)"],
)  # fmt: skip
def test_odd_host_names_stay_in_the_folder(site: Site, host: str) -> None:
    odd = Site(site.folder, site.key, site.snapshot, host=host)
    odd.add(Phase.PREFLIGHT)
    assert odd.ledger.path.parent == site.folder and "/" not in odd.ledger.path.name
    assert odd.ledger.path.is_file() and not odd.ledger.path.name.startswith(".")
    assert [each.host for each in ledgers(site.folder)] == [host]
    assert odd.ledger.verify(site.public) == ()


@pytest.mark.parametrize(
    "host", ["", " ", "a\nb", "a\x00b", "a\x1b[31m", "ü" * 100, "x" * 300, " a"]
)
def test_names_that_no_host_has(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError):
        Ledger(tmp_path, host)


def test_other_files_of_the_folder_are_no_ledgers(four: Site) -> None:
    (four.folder / "a b.jsonl").write_text("x")
    (four.folder / "notes.txt").write_text("x")
    assert [each.host for each in ledgers(four.folder)] == ["node1"]
    assert ledgers(four.folder / "none") == ()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FABRIC_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert default_folder() == tmp_path / ".local/state/fabric-tools/ledger"
    monkeypatch.setenv("XDG_STATE_HOME", "relative is not valid")
    assert default_folder() == tmp_path / ".local/state/fabric-tools/ledger"
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_folder() == Path("/var/state/fabric-tools/ledger")
    monkeypatch.setenv("FABRIC_STATE", "/srv/state")
    assert default_folder() == Path("/srv/state")


# --- keys --------------------------------------------------------------------------------------


def test_a_key_is_never_overwritten(site: Site) -> None:
    before = (site.folder / "site.key").read_bytes()
    with pytest.raises(UsageError, match="never overwritten"):
        create_keys(site.folder / "site.key")
    (site.folder / "site.key").rename(site.folder / "old.key")
    with pytest.raises(UsageError, match="never overwritten"):
        create_keys(site.folder / "site.key")  # site.pub is still there
    assert not (site.folder / "site.key").exists()
    assert (site.folder / "old.key").read_bytes() == before


def test_keys_that_cannot_be_used(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ledger init"):
        load_private_key(tmp_path / "none.key")
    (site.folder / "site.key").chmod(0o640)
    with pytest.raises(UsageError, match="open to other users"):
        load_private_key(site.folder / "site.key")
    bad = tmp_path / "bad.key"
    bad.write_text("x")
    bad.chmod(0o600)
    with pytest.raises(UsageError, match="no private key"):
        load_private_key(bad)
    with pytest.raises(UsageError, match="no public key"):
        load_public_key(bad)
    from cryptography.hazmat.primitives import serialization as how
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = ec.generate_private_key(ec.SECP256R1())
    bad.write_bytes(
        curve.private_bytes(how.Encoding.PEM, how.PrivateFormat.PKCS8, how.NoEncryption())
    )
    with pytest.raises(UsageError, match="no ed25519 key"):
        load_private_key(bad)
    bad.write_bytes(
        curve.public_key().public_bytes(how.Encoding.PEM, how.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(UsageError, match="no ed25519 public key"):
        load_public_key(bad)


# --- proofs ------------------------------------------------------------------------------------


def test_a_phase_is_proved_by_its_last_entry(four: Site) -> None:
    found = four.ask(Phase.DRIVER)
    assert isinstance(found, Proof) and found.entry.phase == "driver"
    assert found.head == four.ledger.chain().head
    four.add(Phase.DRIVER, is_open=False)
    why = four.ask(Phase.DRIVER)
    assert why == (
        "driver was closed at 2026-11-30 12:00: failed: gpu.count; run "
        "`ansible-playbook -i INVENTORY playbooks/20-driver.yml --limit node1`"
    )
    four.add(Phase.DRIVER)
    assert isinstance(four.ask(Phase.DRIVER), Proof)


def test_what_a_phase_needs_must_be_proved_too(four: Site) -> None:
    four.add(Phase.BASE, is_open=False)
    why = four.ask(Phase.CUDA)
    assert isinstance(why, str) and why.startswith("base was closed") and "10-base.yml" in why


def test_the_entry_gate_names_what_is_missing(site: Site) -> None:
    def missing(phase: Phase) -> tuple[str, ...]:
        return unproved_needs(site.ledger, phase, site.now(), public_key=site.public, as_of=NOW)

    assert missing(Phase.PREFLIGHT) == ()
    (why,) = missing(Phase.DRIVER)
    assert why.startswith("base was never judged on this host; run `ansible-playbook")
    site.add(Phase.PREFLIGHT, Phase.BASE)
    assert missing(Phase.DRIVER) == ()
    both = missing(Phase.SERVING)
    assert [line.split()[0] for line in both] == ["roce", "weights"]


@pytest.mark.parametrize("machine", ["m2", ""])
def test_another_machine_of_that_name_is_not_proved(four: Site, machine: str) -> None:
    why = four.ask(Phase.BASE, machine_id=machine)
    assert isinstance(why, str) and "machine" in why


def test_an_entry_without_a_machine_id_proves_nothing(tmp_path: Path) -> None:
    site = new_site(tmp_path / "s", live(machine=""))
    site.add(Phase.PREFLIGHT)
    assert "no machine id" in str(site.ask(Phase.PREFLIGHT, machine_id=""))
    assert "no machine id" in str(site.ask(Phase.PREFLIGHT))


def test_a_proof_from_the_future_is_none(four: Site) -> None:
    assert isinstance(four.ask(Phase.BASE, as_of=NOW - timedelta(minutes=9)), Proof)
    assert "clock" in str(four.ask(Phase.BASE, as_of=NOW - timedelta(minutes=11)))


def test_a_proof_that_leaned_on_a_waiver_ends_with_it(site: Site) -> None:
    waiver = Waiver(
        check="gpu.count", reason="tonight", owner="ana", kind="break_glass",
        expires=NOW + timedelta(hours=8),
    )  # fmt: skip
    site.add(Phase.PREFLIGHT, waivers=[waiver])
    assert isinstance(site.ask(Phase.PREFLIGHT, as_of=NOW + timedelta(hours=7)), Proof)
    why = site.ask(Phase.PREFLIGHT, as_of=NOW + timedelta(hours=8))
    assert isinstance(why, str) and "leaned on a break-glass of gpu.count that expired" in why


def test_passive_proofs_do_not_age(four: Site) -> None:
    """Nor does a reboot or another driver void them: the gate is judged again now."""
    later = four.ask(Phase.DRIVER, as_of=NOW + timedelta(days=400), boot_id="b2", state=NodeState())
    assert isinstance(later, Proof)


def loaded(site: Site) -> Site:
    site.add(*CHAIN)
    return site


def test_active_proofs_expire(site: Site, nic: NodeState) -> None:
    loaded(site)
    week = timedelta(hours=168)
    assert isinstance(site.ask(Phase.NVLINK, as_of=NOW + week), Proof)
    why = site.ask(Phase.NVLINK, as_of=NOW + week + timedelta(hours=1))
    assert isinstance(why, str) and why.startswith("nvlink was proved 169 h ago, 168 h at most")


@pytest.fixture
def nic(site: Site) -> NodeState:
    """The healthy example has no RDMA devices recorded: here the node says that it has none."""
    probes = dict(site.snapshot.probes)
    probes["infiniband"] = ProbeResult(status=ProbeStatus.ABSENT)
    site.snapshot = site.snapshot.model_copy(update={"probes": probes})
    return site.state


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("driver", "580.1"), ("userspace", "580.1"), ("fabric_manager", "580.1"),
        ("kernel", "6.8.0-1-generic"), ("os", "ubuntu 24.04"),
        ("gpu 3", "NVIDIA H100 80GB HBM3 GPU-new 96.00.74.00.01"),
        ("nic mlx5_0", "MT4129 0011 28.43.1014"),
    ],
)  # fmt: skip
def test_active_proofs_are_void_after_a_change(
    site: Site, nic: NodeState, name: str, value: str
) -> None:
    loaded(site)
    assert isinstance(site.ask(Phase.NVLINK), Proof)
    now = nic.model_copy(update={"values": nic.values | {name: value}})
    why = site.ask(Phase.NVLINK, state=now)
    assert isinstance(why, str) and why.startswith(
        f"nvlink is void, changed since its proof: {name}"
    )
    assert isinstance(site.ask(Phase.DRIVER, state=now), Proof), "passive: judged again instead"


def test_a_lost_gpu_voids_and_a_package_does_not(site: Site, nic: NodeState) -> None:
    loaded(site)
    seven = {name: value for name, value in nic.values.items() if name != "gpu 7"}
    why = site.ask(Phase.NVLINK, state=NodeState(values=seven))
    assert isinstance(why, str) and "gpu 7: " in why and "-> absent" in why
    more = NodeState(values=nic.values | {"package nvidia-utils": "1"})
    assert isinstance(site.ask(Phase.NVLINK, state=more), Proof)


def test_what_cannot_be_read_now_voids(site: Site, nic: NodeState) -> None:
    loaded(site)
    values = {name: value for name, value in nic.values.items() if name != "driver"}
    blind = NodeState(values=values, unknown={"driver": "nvidia_module timed out"})
    why = site.ask(Phase.NVLINK, state=blind)
    assert isinstance(why, str) and "driver: not known now (nvidia_module timed out)" in why


def test_active_proofs_are_void_after_other_inputs(site: Site, nic: NodeState) -> None:
    loaded(site)
    other = inputs_of(HostVars(profile=Profile(fabric="infiniband")), None)
    why = site.ask(Phase.NVLINK, inputs=other)
    assert isinstance(why, str) and "void: changed since its proof: fabric_host.profile" in why


def test_a_phase_judged_without_its_load_is_not_proved(site: Site, nic: NodeState) -> None:
    site.add(*CHAIN[:6])
    site.add(Phase.NVLINK, passive_only=True)
    assert "without its test under load" in str(site.ask(Phase.NVLINK))


def test_a_reboot_voids_what_ends_with_the_boot(site: Site, nic: NodeState) -> None:
    loaded(site)
    assert isinstance(site.ask(Phase.SERVING), Proof)
    for boot in ("b2", ""):
        assert "before the node rebooted" in str(site.ask(Phase.SERVING, boot_id=boot))
        assert isinstance(site.ask(Phase.ROCE, boot_id=boot), Proof)
    assert all(info.active for info in PHASES if info.boot_bound)


# --- resume ------------------------------------------------------------------------------------


def skip(site: Site, phase: Phase, **other: object) -> Proof | str:
    return may_skip(site.ledger, phase, site.now(**other), public_key=site.public, as_of=NOW)


def test_resume_skips_only_the_same_inputs(four: Site, platform: PlatformSpec) -> None:
    assert isinstance(skip(four, Phase.BASE), Proof)
    assert isinstance(skip(four, Phase.BASE, boot_id="b2"), Proof)
    proxy = HostVars(profile=Profile(proxy="http://user:secret@proxy:3128"))
    for inputs, named in (
        (inputs_of(proxy, None), "fabric_host.profile"),
        (inputs_of(HostVars(), platform), "platform"),
        (inputs_of(HostVars(), None, stack=platform), "stack"),
        (inputs_of(HostVars(), None, more={"roles": "x"}), "roles"),
    ):
        assert skip(four, Phase.BASE, inputs=inputs) == (
            f"base is not skipped: changed since its proof: {named}"
        )
        assert "secret" not in str(inputs.parts)
    assert "was never judged" in str(skip(four, Phase.K3S))


@pytest.fixture
def platform() -> PlatformSpec:
    return load_platforms()["dgx-h100"]


def test_resume_does_not_skip_what_another_version_proved(
    four: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fabric_tools.ledger import proof

    monkeypatch.setattr(proof, "__version__", "99.0")
    assert "this is 99.0" in str(skip(four, Phase.BASE))
    assert isinstance(four.ask(Phase.BASE), Proof)


def test_waivers_are_no_inputs() -> None:
    waiver = Waiver(check="gpu.count", reason="r", owner="o", expires=NOW)
    assert inputs_of(HostVars(), None).sha256 == inputs_of(HostVars(waivers=(waiver,)), None).sha256


def test_every_field_of_the_host_is_an_input() -> None:
    named = {f"fabric_host.{name}" for name in HostVars.model_fields} - {"fabric_host.waivers"}
    assert named < set(inputs_of(HostVars(), None).parts)


def test_files_are_inputs_by_name_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    first = files_sha256(tmp_path)
    (tmp_path / "a" / "x").write_text("2")
    second = files_sha256(tmp_path)
    (tmp_path / "a" / "x").rename(tmp_path / "a" / "y")
    assert len({first, second, files_sha256(tmp_path)}) == 3


# --- entries and states ------------------------------------------------------------------------


def test_only_a_reading_of_the_node_itself_is_recorded() -> None:
    good = live()
    decision = Decision(phase="base", open=True, exit_code=0)
    for bad in (
        good.model_copy(update={"redacted": True}),
        good.model_copy(update={"source": good.source.model_copy(update={"kind": "files"})}),
        good.model_copy(update={"source": good.source.model_copy(update={"kind": "recorded"})}),
    ):
        with pytest.raises(UsageError, match="reading of the node itself"):
            entry_of(decision, bad, "", host="n", inputs=inputs_of(HostVars(), None), waivers=(),
                     recorded_at=NOW)  # fmt: skip


def test_the_waivers_that_were_used_are_recorded() -> None:
    from fabric_tools.gate import Expectation, decide

    def waiver(check: str, hours: int) -> Waiver:
        return Waiver(check=check, reason="r", owner="o", expires=NOW + timedelta(hours=hours))

    bad = Verdict(check="gpu.count", subject="node", status=Status.FAIL)
    fine = Verdict(check="gpu.ecc", subject="node", status=Status.PASS)
    waivers = (waiver("gpu.count", -1), waiver("gpu.count", 1), waiver("gpu.ecc", 1))
    expected = [Expectation("gpu.count", ("node",)), Expectation("gpu.ecc", ("node",))]
    decision = decide("base", expected, [bad, fine], waivers, host="n", as_of=NOW)
    made = entry_of(decision, live(), "", host="n", inputs=inputs_of(HostVars(), None),
                    waivers=waivers, recorded_at=NOW)  # fmt: skip
    assert made.open and made.waivers == (waivers[1],)


def test_the_state_names_what_runs_and_what_is_not_known() -> None:
    found = live()
    state = state_of(found)
    assert state.values["driver"] == state.values["userspace"] == "565.57.01"
    assert sum(name.startswith("gpu ") for name in state.values) == 8
    assert any(name.startswith("package nvidia") for name in state.values)
    assert state.unknown == {"nic": "infiniband was not recorded"}
    probes = dict(found.probes)
    probes["nvidia_module"] = ProbeResult(status=ProbeStatus.ABSENT)
    probes["fabricmanager_version"] = ProbeResult(status=ProbeStatus.TIMEOUT)
    probes["kernel_release"] = ProbeResult(status=ProbeStatus.OK, stdout="\x1b[31m!\n")
    state = state_of(found.model_copy(update={"probes": probes}))
    assert state.values["driver"] == "absent"
    assert state.unknown["fabric_manager"] == "fabricmanager_version timed out"
    assert "kernel" in state.unknown and state.unknown["kernel"].isprintable()


def test_states_are_compared_by_name() -> None:
    then = NodeState(values={"driver": "1", "gpu 0": "a", "gpu 1": "b", "nic": "absent"})
    same = compare_states(then, then)
    assert (same.changed, same.untold) == ((), ())
    lost = compare_states(then, NodeState(values={"driver": "2", "gpu": "absent", "nic x": "1"}))
    assert set(lost.changed) == {
        "driver: 1 -> 2", "gpu 0: a -> absent", "gpu 1: b -> absent", "nic x: absent -> 1"
    }  # fmt: skip
    blind = compare_states(then, NodeState(values={"driver": "1"}, unknown={"gpu": "hung"}))
    assert blind.untold == ("gpu: not known now (hung)",) and blind.changed == ()
    nothing = compare_states(then, NodeState())
    assert len(nothing.changed) == 3


def test_a_new_driver_is_named_by_drift(four: Site, nic: NodeState) -> None:
    four.add(Phase.DRIVER)
    entry = four.ledger.entries()[-1]
    four.snapshot = four.snapshot.model_copy(update={"started_at": entry.recorded_at})
    assert (
        drift_of(entry, four.snapshot, None, host="node1", as_of=datetime.now(UTC)).exit_code == 0
    )
    probes = dict(four.snapshot.probes)
    text = probes["nvidia_module"].stdout.replace("565.57.01", "580.173.02")
    probes["nvidia_module"] = ProbeResult(status=ProbeStatus.OK, stdout=text)
    now = four.snapshot.model_copy(update={"probes": probes})
    found = drift_of(entry, now, None, host="node1", as_of=datetime.now(UTC))
    assert found.changed == ("driver: 565.57.01 -> 580.173.02",) and found.exit_code == 1


@pytest.mark.parametrize("error", [LedgerError, UsageError])
def test_errors_have_exit_codes(error: type[FabricToolsError]) -> None:
    assert error("x").exit_code in (2, 3)
