"""The whole healthy node: every check has something to judge on it, and passes."""

from __future__ import annotations

from pathlib import Path

from fabric_tools.checks import for_phase
from fabric_tools.judge import Reading, judge
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.phases import Phase
from tests.cases_runner import (
    CASES,
    CORPUS,
    MORE,
    ROOT,
    load,
    load_site,
    other_node,
    question,
    site_of,
    snapshot_of,
)

JUDGED = tuple(phase for phase in Phase if for_phase(phase))


#: What the inventory declares of it: its rails, and everything of the site.
SITE = site_of(
    {"site": {**load_site("roce-rails8.yaml"), **load_site("site.yaml")}},
)


def whole_node(folder: Path) -> Snapshot:
    """The healthy example with an NVML reading, its network, and tests under load that went well.

    One text is of a test in the node, with NCCL's log, the other of a test over two nodes. The
    perftest is corpus other/ib_write_bw/bw02 with the figures of a 400G port.
    """
    path = CASES / "driver.nvml_agrees" / "pass_same.yaml"
    case = load(path) | {"with": "roce"}
    found = snapshot_of(case, folder / "node")
    inside = _read("nccl/n11_h100_1n_mpi_stdout_prefix.txt") + _read(
        "other/nccl_debug/ndbg02_single_node_socket_nvls.txt"
    )
    log = _read("other/nccl_debug/ndbg01_roce_gdrdma_2x8.txt").splitlines(keepends=True)
    # That node ran without NVLS, by an environment variable, which is worth a warning.
    across = _read("nccl/n14_h100_2n16_good.txt") + "".join(
        line for line in log if "NVLS_ENABLE" not in line
    )
    one = (ROOT / "tests" / "fixtures" / "more" / "ib_write_bw_400g.txt").read_text()
    more = {
        **_site(),
        "nccl_tests": inside,
        "nccl_debug": across,
        "ib_write_bw": "".join(one.replace("mlx5_5", f"mlx5_{rail}") for rail in range(8)),
    }
    texts = {name: ProbeResult(status=ProbeStatus.OK, stdout=text) for name, text in more.items()}
    return found.model_copy(update={"probes": {**found.probes, **texts}})


def _site() -> dict[str, str]:
    """Its proxy and mirror, as in tests/fixtures/more/site."""
    names = ("environment", "apt_config", "apt_sources")
    return {name: (MORE / "site" / f"{name}.txt").read_text() for name in names}


def _read(name: str) -> str:
    return (CORPUS / name).read_text()


def decided(whole: Snapshot, snapshot: Snapshot) -> dict[Phase, Decision]:
    """Every gate of ``snapshot``, with ``whole`` as its earlier reading and as another host."""
    report = judge(
        Reading(snapshot, before=whole),
        question("node", *JUDGED, site=SITE),
        among=[(other_node(whole), question("other", *JUDGED, site=SITE))],
    )
    return dict(zip(JUDGED, report.decisions, strict=True))
