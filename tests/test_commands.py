"""The commands that look things up, through the real command line."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from fabric_tools import __version__
from fabric_tools.checks import CHECKS
from fabric_tools.phases import PHASES, Phase
from fabric_tools.probes import PROBES
from fabric_tools.report.reference import SCHEMAS, explain_check, pages
from tests.cases_runner import CORPUS, HEALTHY, ROOT
from tests.test_files import cli

#: Each starts the command as a process.
pytestmark = pytest.mark.cli


def test_version_and_help() -> None:
    assert cli("--version").stdout.decode().strip() == __version__
    text = cli("--help").stdout.decode()
    for word in ("validate", "collect", "explain", "doctor", "Exit codes: 0 gates open"):
        assert word in text


@pytest.mark.parametrize("item", CHECKS, ids=lambda item: item.id)
def test_explain(item) -> None:  # type: ignore[no-untyped-def]
    text = explain_check(item)
    assert item.id in text and item.remedy in text
    assert "not stated" not in text, "a parser's header names its evidence"


def test_explain_says_why_not_nv12() -> None:
    text = cli("explain", "nvlink.full_mesh").stdout.decode()
    assert "NV12" in text and "A100" in text


def test_checks_and_phases() -> None:
    text = cli("checks").stdout.decode()
    assert all(item.id in text for item in CHECKS)
    text = cli("phases").stdout.decode()
    assert [line.split()[0] for line in text.splitlines()] == [p.value for p in Phase]
    assert "no checks yet, always closed" in text


def test_platforms_show_value_and_source() -> None:
    text = cli("platforms", "dgx-h100").stdout.decode()
    assert "nvlink.pair_kind = NV18  [" in text


def test_parse_gives_facts() -> None:
    done = cli("parse", "topo", str(HEALTHY / "topo.txt"))
    facts = json.loads(done.stdout)
    assert done.returncode == 0 and len(facts["gpus"]) == 8


def test_parse_error_is_3() -> None:
    done = cli("parse", "topo", str(CORPUS / "topo/t55_err_no_devices.txt"))
    assert done.returncode == 3 and done.stdout == b""
    assert b"No devices were found" in done.stderr


def test_topo_draws_and_judges() -> None:
    good = cli("topo", str(HEALTHY / "topo.txt"), "--platform", "dgx-h100")
    assert good.returncode == 0 and "wants 28 pairs NV18: all there" in good.stdout.decode()
    bad = cli("topo", str(CORPUS / "topo/t40_b200_8_gpu2_off_nvlink.txt"), "--platform", "dgx-h100")
    assert bad.returncode == 1 and "7 differ" in bad.stdout.decode()
    seven = cli("topo", str(CORPUS / "topo/t65_b300_7_of_8_nv18.txt"), "--platform", "dgx-h100")
    assert seven.returncode == 1
    assert cli("topo", str(CORPUS / "topo/t49_h100_8_nic76_banner.txt")).returncode == 3
    assert cli("topo", str(CORPUS / "topo/t55_err_no_devices.txt")).returncode == 3


def test_doctor_runs() -> None:
    done = cli("doctor")
    text = done.stdout.decode()
    assert done.returncode == (3 if "BAD" in text else 0)
    assert "collector" in text and "platforms" in text


def test_doctor_finds_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from fabric_tools.cli import selfcheck

    def version(name: str) -> str:
        if name == "model-signing":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["model-signing>=1", "rich"])
    monkeypatch.setattr(importlib.metadata, "version", version)
    found = {item.name: item.good for item in selfcheck.findings()}
    assert found["model-signing"] is False and found["rich"] is True


def test_generated_docs_are_current() -> None:
    for name, text in pages().items():
        assert (ROOT / "docs" / name).read_text() == text, f"run `fabric-tools docs render`: {name}"


def test_stale_docs_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert cli("docs", "render", "--check", "--root", str(tmp_path)).returncode == 1
    assert cli("docs", "render", "--root", str(tmp_path)).returncode == 0
    assert cli("docs", "render", "--check", "--root", str(tmp_path)).returncode == 0


def test_schemas_are_published_for_what_is_written() -> None:
    assert {"snapshot", "verdict", "ledger", "platform", "stack", "report", "host-vars"} == set(
        SCHEMAS
    )
    for name in SCHEMAS:
        schema = json.loads((ROOT / f"docs/schemas/{name}.schema.json").read_text())
        assert schema["additionalProperties"] is False


def test_phases_are_whole_and_in_order() -> None:
    assert [info.id for info in PHASES] == list(Phase)
    seen: set[Phase] = set()
    for info in PHASES:
        assert set(info.needs) <= seen, "a phase needs only earlier ones"
        assert info.active == (info.proof_max_age_h is not None)
        seen.add(info.id)
    names = [info.playbook for info in PHASES]
    assert names == sorted(names), "playbooks sort in the order of the phases"


def test_playbooks_that_exist_are_those_of_phases() -> None:
    known = {info.playbook for info in PHASES} | {"site.yml"}
    assert {path.name for path in (ROOT / "playbooks").glob("*.yml")} <= known


def test_probes_are_bounded_and_saved_under_one_name_each() -> None:
    names = [name for probe in PROBES for name in probe.files]
    assert len(names) == len(set(names))
    assert len({probe.id for probe in PROBES}) == len(PROBES)
    for probe in PROBES:
        assert 0 < probe.max_bytes <= 16 * 2**20
        assert probe.kind in (
            "command",
            "file",
            "nvml",
            "cuda",
            "infiniband",
            "netdev",
            "apt",
            "dnf",
            "files",
            "trust",
            "boot",
            "packages",
            "saved",
        )
        assert (0 < probe.timeout_s <= 60) == (probe.kind != "saved")
