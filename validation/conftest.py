"""Run the registry's checks as tests: ``pytest validation --snapshot FILE|DIR``.

Same verdicts as ``fabric-tools validate``: one test a check, and one a gate.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fabric_tools.checks import for_phase
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import Decision
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.transport.files import read_snapshot


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--snapshot", metavar="FILE|DIR", help="what the node said")
    parser.addoption("--platform", metavar="ID", help="judge as this platform")


@pytest.fixture(scope="session")
def decisions(request: pytest.FixtureRequest) -> dict[Phase, Decision]:
    """The decision of every gate that has checks."""
    source = request.config.getoption("--snapshot")
    if not source:
        pytest.fail("give --snapshot FILE|DIR: without a node there is nothing to judge")
    question = Question(
        phases=tuple(phase for phase in Phase if for_phase(phase)),
        platforms=load_platforms(),
        host=Path(source).name,
        as_of=datetime.now(UTC),
        site=HostVars(platform=request.config.getoption("--platform")),
    )
    report = judge(read_snapshot(Path(source)), question)
    return {Phase(decision.phase): decision for decision in report.decisions}
