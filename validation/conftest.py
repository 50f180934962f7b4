"""Run the registry's checks as tests: the verdicts of ``fabric-tools validate``.

``pytest validation --snapshot FILE|DIR`` judges what a node said earlier. ``--ansible-inventory
INVENTORY`` (an option of pytest-testinfra, as is ``--hosts PATTERN``) reads every host of an
inventory now, over the transport of ``fabric-tools validate -i``. One test a check, and one a gate.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fabric_tools.checks import for_phase
from fabric_tools.errors import FabricToolsError
from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import Decision, HostReport
from fabric_tools.phases import Phase
from fabric_tools.platforms import load_platforms
from fabric_tools.transport.files import read_snapshot

PHASES = tuple(phase for phase in Phase if for_phase(phase))
_HOSTS = pytest.StashKey[dict[str, HostReport]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--snapshot", metavar="FILE|DIR", help="what the node said")
    parser.addoption("--platform", metavar="ID", help="judge as this platform")


def pytest_configure(config: pytest.Config) -> None:
    """The nodes of an inventory are read once, before the tests are named after them."""
    inventory = config.getoption("ansible_inventory", None)
    if inventory and config.getoption("--snapshot"):
        raise pytest.UsageError("give one of --snapshot and --ansible-inventory")
    if not inventory and not config.getoption("--snapshot") and not config.getoption("collectonly"):
        raise pytest.UsageError(
            "give --snapshot FILE|DIR or --ansible-inventory INVENTORY: without a node there is "
            "nothing to judge"
        )
    if inventory and not config.getoption("collectonly"):
        try:
            config.stash[_HOSTS] = _read(config, inventory)
        except FabricToolsError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "node" in metafunc.fixturenames and _HOSTS in metafunc.config.stash:
        metafunc.parametrize("node", list(metafunc.config.stash[_HOSTS]), scope="session")


@pytest.fixture(scope="session")
def node() -> str | None:
    """Name of the host in the inventory; None where a snapshot is judged."""
    return None


@pytest.fixture(scope="session")
def decisions(request: pytest.FixtureRequest, node: str | None) -> dict[Phase, Decision]:
    """The decision of every gate that has checks."""
    report = _judged(request.config) if node is None else request.config.stash[_HOSTS][node]
    return {Phase(decision.phase): decision for decision in report.decisions}


def _judged(config: pytest.Config) -> HostReport:
    source = config.getoption("--snapshot")
    question = Question(
        phases=PHASES,
        platforms=load_platforms(),
        host=Path(source).name,
        as_of=datetime.now(UTC),
        site=HostVars(platform=config.getoption("--platform")),
    )
    return judge(read_snapshot(Path(source)), question)


def _read(config: pytest.Config, inventory: str) -> dict[str, HostReport]:
    from fabric_tools.cli.fleet import report_on_inventory
    from fabric_tools.cli.judging import Request
    from fabric_tools.cli.reach import Reach, Sources, Transport

    request = Request(
        phases=PHASES, platform=config.getoption("--platform"), gpus=None, before=None,
        platforms_dir=None, stacks_dir=None, host_vars=None, name=None, as_of=None,
        break_glass=None,
    )  # fmt: skip
    sources = Sources((inventory,), config.getoption("hosts", None), ())
    reach = Reach(None, False, None, Transport.BUILTIN, True, False)
    return {host.host: host for host in report_on_inventory(request, sources, reach).hosts}
