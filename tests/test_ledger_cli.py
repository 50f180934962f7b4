"""``fabric-tools ledger`` and ``drift`` as an operator starts them: exit codes and words."""

from __future__ import annotations

import io
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fabric_tools.cli.main import run
from fabric_tools.models.ledger import DriftReport, LedgerReport
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.phases import Phase
from tests.cases_runner import HEALTHY
from tests.ledger_help import Site, live, new_site
from tests.test_files import cli, refused


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two phases of node1, whose reading also says that it has no RDMA devices."""
    found = live()
    probes = found.probes | {"infiniband": ProbeResult(status=ProbeStatus.ABSENT)}
    made = new_site(
        tmp_path / "state",
        found.model_copy(update={"probes": probes, "started_at": datetime.now(UTC)}),
    )
    now = datetime.now(UTC)
    made.add(Phase.PREFLIGHT, at=now)
    made.add(Phase.BASE, is_open=False, at=now)
    made.add(Phase.BASE, at=now)
    return made


def ours(site: Site, *words: str) -> tuple[int, str, str]:
    """The command's own way out, in this process: exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FABRIC_STATE", str(site.folder))
        patch.setattr(sys, "argv", ["fabric-tools", *words])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as left:
            run()
    return int(left.value.code or 0), out.getvalue(), err.getvalue()


def bad(done: tuple[int, str, str], *words: str) -> None:
    """Exit 2 with one line on standard error that holds ``words``."""
    code, out, text = done
    assert (code, out) == (2, "") and text.count("\n") == 1, text
    assert all(word in text for word in words), text


def tamper(site: Site) -> None:
    data = site.ledger.path.read_bytes()
    site.ledger.path.write_bytes(data.replace(b'"phase":"base"', b'"phase":"cuda"', 1))


# --- init ----------------------------------------------------------------------------------------


@pytest.mark.cli
def test_init_makes_a_key_once(tmp_path: Path) -> None:
    where = tmp_path / "deep" / "state"
    done = cli("ledger", "init", "--ledger", str(where))
    assert done.returncode == 0 and "keep a copy" in done.stdout.decode()
    key = (where / "site.key").read_bytes()
    assert stat.S_IMODE((where / "site.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    refused(cli("ledger", "init", "--ledger", str(where)), "never overwritten", "site.key")
    assert (where / "site.key").read_bytes() == key
    assert b"PRIVATE" not in done.stdout


@pytest.mark.cli
def test_init_with_a_key_elsewhere(tmp_path: Path) -> None:
    key = tmp_path / "other.key"
    done = cli("ledger", "init", "--ledger", str(tmp_path / "s"), "--key", str(key))
    assert done.returncode == 0 and key.is_file() and not (tmp_path / "s" / "site.key").exists()
    assert (tmp_path / "s" / "site.pub").is_file(), "verify finds it without being told"
    other = ("--ledger", str(tmp_path / "t"))
    refused(cli("ledger", "init", *other, "--key", "/proc/none/x.key"), "/proc/none/x.key")
    refused(cli("ledger", "init", *other, "--key", str(tmp_path / "t" / "site.pub")), "public half")
    assert not (tmp_path / "t" / "site.pub").exists()


def test_init_beside_ledgers_of_a_lost_key_says_so(site: Site) -> None:
    (site.folder / "site.key").unlink()
    code, _, text = ours(site, "ledger", "init")
    assert code == 2 and "site.pub" in text and not (site.folder / "site.key").exists()
    (site.folder / "site.pub").unlink()
    code, _, text = ours(site, "ledger", "init")
    assert code == 0 and "of another key" in text
    assert ours(site, "ledger", "verify")[0] == 1


# --- show and verify -----------------------------------------------------------------------------


def test_show(site: Site) -> None:
    code, text, _ = ours(site, "ledger", "show")
    assert code == 0
    assert f"node1: 3 entries, head 3:{site.ledger.chain().head}" in text
    assert "base          proved" in text and "never judged: driver, cuda" in text
    site.add(Phase.BASE, is_open=False)
    code, text, _ = ours(site, "ledger", "show", "node1")
    assert code == 0 and "base          NOT proved" in text
    assert "closed at" in text and "10-base.yml --limit node1" in text


def test_show_as_json(site: Site) -> None:
    code, text, _ = ours(site, "ledger", "show", "--format", "json")
    report = LedgerReport.model_validate_json(text)
    assert code == 0 == report.exit_code
    assert [item.phase for item in report.hosts[0].phases if item.proved] == ["preflight", "base"]


def test_show_of_a_damaged_ledger_proves_nothing(site: Site) -> None:
    tamper(site)
    code, text, _ = ours(site, "ledger", "show")
    assert code == 1 and "TAMPERED: line 2: was changed" in text
    assert "NOT proved" in text and " proved    " not in text


def test_verify(site: Site) -> None:
    code, text, _ = ours(site, "ledger", "verify")
    assert (code, text) == (0, f"node1: whole, head 3:{site.ledger.chain().head}\n")
    Site(site.folder, site.key, site.snapshot, host="node2").add(Phase.PREFLIGHT)
    tamper(site)
    code, text, _ = ours(site, "ledger", "verify")
    assert code == 1 and "node1: TAMPERED: line 2: was changed" in text and "node2: whole" in text
    assert ours(site, "ledger", "verify", "node2")[0] == 0


@pytest.mark.cli
def test_verify_as_a_process(site: Site) -> None:
    where = ("--ledger", str(site.folder))
    assert cli("ledger", "verify", *where).returncode == 0
    tamper(site)
    assert cli("ledger", "verify", *where).returncode == 1
    assert cli("ledger", "verify", "node9", *where).returncode == 3


def test_verify_cannot_tell(site: Site, tmp_path: Path) -> None:
    code, text, _ = ours(site, "ledger", "verify", "node9")
    assert (code, text) == (3, "node9: CANNOT TELL: no entry\n")
    code, out, text = ours(site, "ledger", "verify", "--ledger", str(tmp_path / "none"))
    assert (code, out) == (3, "") and "no ledger here" in text
    (site.folder / "site.pub").rename(tmp_path / "kept.pub")
    for command in ("verify", "show"):
        code, text, _ = ours(site, "ledger", command)
        assert code == 3 and "no public key" in text and " proved    " not in text
    assert ours(site, "ledger", "verify", "--public-key", str(tmp_path / "kept.pub"))[0] == 0


def test_verify_with_another_key(site: Site, tmp_path: Path) -> None:
    other = new_site(tmp_path / "other")
    code, text, _ = ours(site, "ledger", "verify", "--public-key", str(other.folder / "site.pub"))
    assert code == 1 and "signed with another key" in text
    code, _, text = ours(site, "ledger", "verify", "--public-key", str(tmp_path / "none"))
    assert code == 2 and "No such file" in text


def test_one_file_that_cannot_be_used_hides_no_other_host(site: Site) -> None:
    tamper(site)
    (site.folder / "node0.jsonl").mkdir()
    code, out, err = ours(site, "ledger", "verify")
    assert (code, err) == (1, "")
    assert "node0: CANNOT TELL" in out and "not a regular file" in out
    assert f"{site.ledger.host}: TAMPERED" in out


def test_a_torn_line_cannot_be_told_until_the_next_gate(site: Site) -> None:
    with site.ledger.path.open("ab") as stream:
        stream.write(b'{"schema_version":1,"ki')
    code, text, _ = ours(site, "ledger", "verify")
    assert code == 3 and "23 bytes behind line 3 are no entry" in text
    site.add(Phase.DRIVER)
    assert ours(site, "ledger", "verify")[0] == 0


def test_a_cut_end_is_found_by_the_noted_head(site: Site) -> None:
    head = f"3:{site.ledger.chain().head}"
    site.add(Phase.DRIVER)
    assert ours(site, "ledger", "verify", "node1", "--head", head)[0] == 0
    lines = site.ledger.path.read_bytes().splitlines(keepends=True)
    site.ledger.path.write_bytes(b"".join(lines[:2]))
    assert ours(site, "ledger", "verify", "node1")[0] == 0
    code, text, _ = ours(site, "ledger", "verify", "node1", "--head", head)
    assert code == 1 and "3 entries were known, 2 are left" in text
    site.add(Phase.K3S)
    code, text, _ = ours(site, "ledger", "verify", "node1", "--head", head)
    assert code == 1 and "line 3: is not the entry that was noted" in text
    site.ledger.path.unlink()
    assert ours(site, "ledger", "verify", "node1", "--head", head)[0] == 1


@pytest.mark.parametrize("head", ["3", "3:abc", "0:" + "0" * 64, "x:" + "0" * 64])
def test_a_head_of_another_form(site: Site, head: str) -> None:
    code, out, text = ours(site, "ledger", "verify", "node1", "--head", head)
    assert (code, out) == (2, "") and "COUNT:SHA256" in text


def test_usage(site: Site) -> None:
    head = "1:" + "0" * 64
    bad(ours(site, "ledger", "verify", "--head", head), "one HOST")
    bad(ours(site, "ledger", "verify", "a\nb"), "no host name")


def test_control_characters_do_not_reach_the_terminal(site: Site) -> None:
    entry = site.entry(Phase.DRIVER, is_open=False).model_copy(
        update={"reasons": ("\x1b[2Jcleared",), "tool_version": "\x1b]0;x\x07"}
    )
    site.ledger.append(entry, site.key)
    code, text, _ = ours(site, "ledger", "show")
    assert code == 0 and "cleared" in text and "\x1b" not in text and "\x07" not in text


# --- drift ---------------------------------------------------------------------------------------


def saved(site: Site, folder: Path, **changes: str) -> str:
    """The reading of the node with other texts of some probes, as a snapshot file."""
    probes = dict(site.snapshot.probes)
    for probe, text in changes.items():
        probes[probe] = ProbeResult(status=ProbeStatus.OK, stdout=text)
    return written(site.snapshot.model_copy(update={"probes": probes}), folder)


def written(snapshot: Snapshot, folder: Path) -> str:
    path = folder / f"snapshot{len(list(folder.glob('snapshot*')))}.json"
    path.write_text(snapshot.model_dump_json())
    return str(path)


def test_no_drift(site: Site, tmp_path: Path) -> None:
    code, text, _ = ours(site, "drift", "--snapshot", saved(site, tmp_path))
    assert code == 0 and text.startswith("node1: no drift since base at ")
    assert "not compared: inputs" in text


def test_a_reading_of_another_time_says_nothing_of_what_came_after(
    site: Site, tmp_path: Path
) -> None:
    for days, word in ((-1, "before the proof"), (1, "which is not yet")):
        at = datetime.now(UTC) + timedelta(days=days)
        path = written(site.snapshot.model_copy(update={"started_at": at}), tmp_path)
        code, text, _ = ours(site, "drift", "--snapshot", path)
        assert code == 3 and word in text and "CANNOT TELL" in text


def test_drift_names_what_moved(site: Site, tmp_path: Path) -> None:
    host = site.snapshot.host.model_copy(update={"boot_id": "b2"})
    site.snapshot = site.snapshot.model_copy(update={"host": host})
    packages = site.snapshot.probes["dpkg"].stdout.replace(
        "libnvidia-cfg1-565-server                  565.57.01",
        "libnvidia-cfg1-565-server                  565.57.02",
    )
    assert packages != site.snapshot.probes["dpkg"].stdout
    path = saved(site, tmp_path, kernel_release="6.8.0-1-generic\n", dpkg=packages)
    code, text, _ = ours(site, "drift", "--snapshot", path, "--format", "json")
    report = DriftReport.model_validate_json(text)
    assert code == 1 == report.exit_code
    changed = report.hosts[0].changed
    assert changed[0] == "boot id: b1 -> b2"
    assert changed[1] == "kernel: 5.15.0-124-generic -> 6.8.0-1-generic"
    assert changed[2].startswith("package libnvidia-cfg1-565-server: 565.57.01-0ubuntu0")
    assert len(changed) == 3


def test_drift_of_inputs(site: Site, tmp_path: Path) -> None:
    site.add(Phase.DRIVER)
    path = tmp_path / "host.yml"
    path.write_text("fabric_host: {profile: {fabric: none}}\n")
    known = saved(site, tmp_path)
    code, text, _ = ours(site, "drift", "--snapshot", known, "--host-vars", str(path))
    assert code == 1 and "input fabric_host.profile: changed" in text
    assert "fabric_host.rails" not in text


def test_drift_cannot_tell(site: Site, tmp_path: Path) -> None:
    snapshot = site.snapshot
    hung = snapshot.probes | {"nvidia_module": ProbeResult(status=ProbeStatus.TIMEOUT)}
    path = written(snapshot.model_copy(update={"probes": hung}), tmp_path)
    code, text, _ = ours(site, "drift", "--snapshot", path)
    assert code == 3 and "cannot tell: driver: not known now (nvidia_module timed out)" in text
    redacted = written(snapshot.model_copy(update={"redacted": True}), tmp_path)
    code, text, _ = ours(site, "drift", "--snapshot", redacted)
    assert code == 3 and "machine id: redacted" in text
    code, text, _ = ours(site, "drift", "--snapshot", str(HEALTHY), "--name", "node9")
    assert code == 3 and "no phase was ever proved" in text
    (site.folder / "site.pub").unlink()
    code, text, _ = ours(site, "drift", "--snapshot", path)
    assert code == 3 and "no public key" in text


def test_drift_believes_no_damaged_ledger(site: Site, tmp_path: Path) -> None:
    tamper(site)
    code, text, _ = ours(site, "drift", "--snapshot", saved(site, tmp_path))
    assert code == 3 and "line 2: was changed" in text


def test_another_machine_is_drift(site: Site, tmp_path: Path) -> None:
    host = site.snapshot.host.model_copy(update={"machine_id": "m2"})
    path = written(site.snapshot.model_copy(update={"host": host}), tmp_path)
    code, text, _ = ours(site, "drift", "--snapshot", path)
    assert code == 1 and "machine id: m1 -> m2" in text


def test_drift_usage(site: Site, tmp_path: Path) -> None:
    bad(ours(site, "drift"), "give one of")
    bad(ours(site, "drift", "a", "--local"), "give one of")
    one, two = saved(site, tmp_path), saved(site, tmp_path)
    bad(ours(site, "drift", "--snapshot", one, "--snapshot", two, "--name", "x"), "one host")
    bad(ours(site, "drift", "--snapshot", str(HEALTHY)), "--name")
    bad(ours(site, "drift", "--snapshot", str(tmp_path / "none")), "none")


def test_a_node_that_is_not_reached(site: Site) -> None:
    """It takes nothing from the others, and its exit code is 4."""
    code, text, _ = ours(site, "drift", "ops@127.0.0.1:1", "--no-sudo", "--transport", "openssh")
    assert code == 4 and "127.0.0.1: CANNOT TELL" in text and "not reached" in text
