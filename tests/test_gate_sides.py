"""Entry, exit and resume of a phase, judged by one check each, with a real ledger."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fabric_tools.ansible import sides
from fabric_tools.checks import BY_ID
from fabric_tools.errors import Exit
from fabric_tools.gate import settles_s
from fabric_tools.ledger import Ledger, create_keys
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import HEALTHY, PLATFORMS, site_of
from tests.nodes_that_answer import snapshot_now


@pytest.fixture(autouse=True)
def _one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other checks there are is not the business of these tests."""
    found = {Phase.PREFLIGHT: BY_ID["host.os"], Phase.BASE: BY_ID["host.platform"]}
    item = BY_ID["driver.supported"]
    monkeypatch.setattr("fabric_tools.judge.for_phase", lambda phase: (found.get(phase, item),))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_now(tmp_path_factory.mktemp("node"))


@pytest.fixture
def case(tmp_path: Path) -> sides.Case:
    folder = tmp_path / "ledger"
    folder.mkdir(mode=0o700)
    create_keys(folder / "site.key")
    playbooks = tmp_path / "playbooks"
    role = playbooks / "roles/nvidia_driver/tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text("- include_role: {name: node_reboot}\n")
    (playbooks / "roles/node_reboot/tasks").mkdir(parents=True)
    (playbooks / "roles/node_reboot/tasks/main.yml").write_text("[]\n")
    (playbooks / "roles/other").mkdir()
    (playbooks / "20-driver.yml").write_text("- import_role: {name: nvidia_driver}\n")
    for name in ("00-preflight.yml", "10-base.yml"):
        (playbooks / name).write_text("[]\n")
    return sides.Case(
        phase=Phase.DRIVER, host="n1", site=site_of({}), platforms=PLATFORMS, playbooks=playbooks,
        ledger=folder, key=folder / "site.key", as_of=datetime.now(UTC),
    )  # fmt: skip


def without(node: Snapshot, *probes: str) -> str:
    lost = ProbeResult(status=ProbeStatus.ABSENT, argv=("x",))
    return node.model_copy(
        update={"probes": {**node.probes, **dict.fromkeys(probes, lost)}}
    ).model_dump_json()


def prove(case: sides.Case, node: Snapshot, *phases: Phase) -> None:
    for phase in phases:
        done = sides.leave(replace(case, phase=phase), node.model_dump_json(), record=True)
        assert done.exit_code is Exit.OPEN, done.reasons


def test_needs_are_transitive() -> None:
    assert sides.needed(Phase.DRIVER) == (Phase.PREFLIGHT, Phase.BASE)
    assert sides.needed(Phase.PREFLIGHT) == ()
    assert set(sides.needed(Phase.OBSERVABILITY)) == set(Phase) - {Phase.OBSERVABILITY}


def test_entry_wants_every_need_proved(case: sides.Case, node: Snapshot) -> None:
    text = node.model_dump_json()
    done = sides.entry(case, text)
    assert done.exit_code is Exit.UNKNOWN
    assert "base was never judged on this host" in done.reasons[0]
    assert "ansible-playbook -i INVENTORY playbooks/10-base.yml --limit n1" in done.reasons[0]
    prove(case, node, Phase.BASE)  # its own need is still missing
    assert "preflight was never judged" in sides.entry(case, text).reasons[0]
    prove(case, node, Phase.PREFLIGHT)
    assert sides.entry(case, text).exit_code is Exit.OPEN


def test_entry_judges_the_needs_again_now(case: sides.Case, node: Snapshot) -> None:
    prove(case, node, Phase.PREFLIGHT, Phase.BASE)
    done = sides.entry(case, without(node, "os_release"))
    assert done.exit_code is Exit.UNKNOWN
    assert done.reasons == ["preflight: could not tell: host.os"]


def test_entry_waits_for_a_clock_only_where_the_needs_are_proved(
    case: sides.Case, node: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would close a minute later, for what it knew at once."""
    clock = BY_ID["host.time"]
    monkeypatch.setattr("fabric_tools.judge.for_phase", lambda phase: (clock,))
    good = read_snapshot(HEALTHY).probes["chrony_tracking"]
    bad = good.model_copy(update={"stdout": good.stdout.replace("Normal", "Not synchronised")})

    def told(result: ProbeResult) -> Snapshot:
        return node.model_copy(update={"probes": {**node.probes, "chrony_tracking": result}})

    def wait_s() -> int:
        return settles_s(sides.decisions(case, "entry", told(bad).model_dump_json()))

    assert told(bad) != told(good) and wait_s() == 0
    prove(case, told(good), Phase.PREFLIGHT, Phase.BASE)
    assert wait_s() == 90


def test_another_machine_of_that_name_proves_nothing(case: sides.Case, node: Snapshot) -> None:
    prove(case, node, Phase.PREFLIGHT, Phase.BASE)
    other = node.host.model_copy(update={"machine_id": "f" * 32})
    done = sides.entry(case, node.model_copy(update={"host": other}).model_dump_json())
    assert done.exit_code is Exit.UNKNOWN and "another machine" in done.reasons[0]


def test_exit_writes_open_and_closed(case: sides.Case, node: Snapshot) -> None:
    assert sides.leave(case, node.model_dump_json(), record=True).exit_code is Exit.OPEN
    done = sides.leave(case, without(node, "nvidia_module"), record=True)
    assert done.exit_code is Exit.UNKNOWN
    first, second = Ledger(case.ledger, "n1").entries()
    assert (first.open, second.open) == (True, False)
    assert second.reasons == ("could not tell: driver.supported",)
    assert set(first.inputs) >= {"platform", "playbook", "role.nvidia_driver"}
    assert "role.other" not in first.inputs


def test_exit_without_record_writes_nothing(case: sides.Case, node: Snapshot) -> None:
    assert sides.leave(case, node.model_dump_json(), record=False).exit_code is Exit.OPEN
    assert not Ledger(case.ledger, "n1").entries()


@pytest.mark.parametrize("lost", ["site.key", "site.pub"])
def test_no_key_is_closed_and_says_what_to_run(case: sides.Case, node: Snapshot, lost: str) -> None:
    (case.ledger / lost).unlink()
    text = node.model_dump_json()
    done = sides.leave(case, text, record=True) if lost == "site.key" else sides.entry(case, text)
    assert done.exit_code is Exit.UNKNOWN
    assert "fabric-tools ledger init" in done.reasons[0]


def test_a_ledger_that_was_changed_proves_nothing(case: sides.Case, node: Snapshot) -> None:
    prove(case, node, Phase.PREFLIGHT, Phase.BASE)
    path = Ledger(case.ledger, "n1").path
    path.write_text(path.read_text().replace('"phase":"base"', '"phase":"driver"'))
    done = sides.entry(case, node.model_dump_json())
    assert done.exit_code is Exit.UNKNOWN and "ledger verify" in done.reasons[0]


def test_a_ledger_that_cannot_be_used_closes_the_gate_and_hides_no_verdict(
    case: sides.Case, node: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in check mode, where an error instead of a closed gate would fail the play."""
    prove(case, node, Phase.PREFLIGHT, Phase.BASE)
    path = Ledger(case.ledger, case.host).path
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    done = sides.leave(case, node.model_dump_json(), record=True)
    assert done.exit_code is Exit.UNKNOWN and "line 3 is no entry" in done.reasons[0]
    assert {d.phase for host in done.report.hosts for d in host.decisions} == {"driver", "ledger"}
    monkeypatch.setattr("fabric_tools.ledger.store._MAX_BYTES", 10)
    done = sides.entry(case, node.model_dump_json(), resume=True)
    assert done.exit_code is Exit.UNKNOWN and not done.skip and "larger than" in done.reasons[0]


def test_resume_skips_what_is_proved_and_unchanged(case: sides.Case, node: Snapshot) -> None:
    text = node.model_dump_json()
    prove(case, node, Phase.PREFLIGHT, Phase.BASE)
    done = sides.entry(case, text, resume=True)
    assert not done.skip and done.exit_code is Exit.OPEN
    assert done.notes[0].startswith("driver is not skipped: driver was never judged")
    prove(case, node, Phase.DRIVER)
    assert not sides.entry(case, text).skip, "only where it was asked for"
    done = sides.entry(case, text, resume=True)
    assert done.skip and done.notes[0].startswith("driver is skipped")


def test_resume_skips_nothing_that_changed_or_is_closed(case: sides.Case, node: Snapshot) -> None:
    text = node.model_dump_json()
    prove(case, node, Phase.PREFLIGHT, Phase.BASE, Phase.DRIVER)
    shut = sides.entry(case, without(node, "nvidia_module"), resume=True)
    assert not shut.skip and shut.exit_code is Exit.OPEN and "its gate is closed" in shut.notes[0]
    used = case.playbooks / "roles/node_reboot/tasks/main.yml"  # by the phase's own role
    used.write_text("[{}]\n")
    role = sides.entry(case, text, resume=True)
    assert not role.skip and role.notes[0].endswith("changed since its proof: role.node_reboot")
    used.write_text("[]\n")
    site = replace(case, site=site_of({"site": {"stack": "r595"}}))
    other = sides.entry(site, text, resume=True)
    assert not other.skip and "fabric_host.stack" in other.notes[0]
    later = replace(case, as_of=case.as_of + timedelta(days=400))
    assert sides.entry(later, text, resume=True).skip, "a passive proof does not age"


def test_resume_never_opens_a_closed_entry(case: sides.Case, node: Snapshot) -> None:
    prove(case, node, Phase.DRIVER)
    done = sides.entry(case, node.model_dump_json(), resume=True)
    assert not done.skip and done.exit_code is Exit.UNKNOWN


def test_a_phase_without_needs_begins_freely(case: sides.Case) -> None:
    done = sides.free(replace(case, phase=Phase.PREFLIGHT))
    assert done.exit_code is Exit.OPEN and done.lines[-1].startswith("OPEN")


def _waits_as_the_ssh_connection_does() -> None:
    try:
        time.sleep(5)
    except Exception:  # it takes these for a lost connection, and tries again
        time.sleep(5)


def test_a_hung_node_ends_the_waiting() -> None:
    from ansible.errors import AnsibleConnectionFailure

    from fabric_tools.ansible.reach import _deadline

    began = time.monotonic()
    hung = _deadline(0.2, "n1")(_waits_as_the_ssh_connection_does)
    with pytest.raises(AnsibleConnectionFailure, match="n1: no answer within 0 s"):
        hung()
    assert time.monotonic() - began < 3
