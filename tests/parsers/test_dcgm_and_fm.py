"""dcgmi and the fabric manager's log against their labels, and hand-written hard cases."""

from __future__ import annotations

import pytest
from more_samples import Sample, of_kind, text_of

from fabric_tools.models.dcgm import (
    DcgmDiag,
    DcgmDiscovery,
    DcgmHealth,
    DcgmNvlinkErrors,
    DcgmNvlinkStatus,
)
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcgmi import parse_dcgm_diag, parse_dcgmi
from fabric_tools.parsers.fabricmanager_log import parse_fabricmanager_log

FACTS = {
    "diag": DcgmDiag,
    "nvlink": (DcgmNvlinkStatus, DcgmNvlinkErrors),
    "health": DcgmHealth,
    "discovery": DcgmDiscovery,
}


def _diag(sample: Sample, fact: DcgmDiag) -> None:
    label = sample.label
    fails = fact.tests("fail")
    assert fact.form == label["format"]
    if label["fails"] is None:
        assert not fact.results and fact.error
    elif isinstance(label["fails"], int):
        assert (len(fails), bool(fact.results)) == (label["fails"], True)
    else:
        assert list(fails) == [name.split(" (")[0] for name in label["fails"]]
    for key, value in (
        ("version", fact.dcgm_version),
        ("dcgm", fact.dcgm_version),
        ("driver", fact.driver_version),
        ("skips", list(fact.tests("skip"))),
        ("warns", list(fact.tests("warn"))),
        ("error_ids", sorted({i for r in fact.results for i in r.error_ids})),
        ("overall", "Fail" if fails else "Pass"),
    ):
        if key in label:
            assert value == label[key], key
    lines = sample.text.split("\n")
    assert all(result.test in lines[result.line - 1] for result in fact.results)
    assert fact.complete


def _links(label: dict[str, object], fact: DcgmNvlinkStatus) -> None:
    letters = {"U": "up", "D": "down", "X": "disabled"}
    said = {
        str(g.id): {k: g.links.count(v) for k, v in letters.items()} for g in fact.gpus  # type: ignore[arg-type]
    }  # fmt: skip
    down = [f"GPU {gpu.id} link {at}" for gpu in fact.gpus for at in gpu.at("down")]
    assert (said, down, fact.complete) == (label["gpus"], label["fails"], label["complete"])
    if "nvswitches" in label:
        assert fact.switches is not None and len(fact.switches) == label["nvswitches"]


@pytest.mark.parametrize("sample", of_kind("dcgmi"), ids=lambda s: s.file)
def test_dcgmi(sample: Sample) -> None:
    label, fact = sample.label, parse_dcgmi(sample.text)
    if "command" in label:
        assert isinstance(fact, FACTS[label["command"]])
    if isinstance(fact, DcgmDiag):
        _diag(sample, fact)
    elif isinstance(fact, DcgmNvlinkStatus):
        _links(label, fact)
    elif isinstance(fact, DcgmNvlinkErrors):
        bad = {
            f"Link {link.index}": {name: count for name, count in link.counts.items() if count}
            for link in fact.links
        }
        assert (fact.gpu, len(fact.links)) == (label["gpu"], label["links"])
        assert {name: counts for name, counts in bad.items() if counts} == label["errors"]
    elif isinstance(fact, DcgmHealth):
        assert fact.overall == label["overall"]
        assert (fact.error is None) == (label["overall"] is not None)
    else:
        said = (fact.gpu_count, fact.nvswitch_count, fact.cpu_count)
        assert said == (label["gpus"], label["nvswitches"], label["cpus"])
        assert fact.complete and len(fact.gpus) == label["gpus"]


def _rows(*rows: str) -> str:
    head = text_of("dcgm01").split("\n")[1:10]
    rule = "+---------------------------+------------------------------------------------+"
    cells = [row.split("=", 1) for row in rows]
    return "\n".join([*head, *(f"| {a:<25} | {b:<46} |" for a, b in cells), rule, ""])


def test_results_per_gpu() -> None:
    fact = parse_dcgm_diag(
        _rows(
            "PCIe=Pass - GPUs: 0, 1, 2,",
            "=3, 4",
            "=Fail - GPU: 5",
            "Warning=GPU 5 is bad",
            "memory=Fail",
            "=GPU0: Pass",
            "=GPU1: Fail",
            "Warning: GPU1=it failed",
        )
    )
    pcie, pcie_bad, memory, one, two = fact.results
    assert (pcie.gpus, pcie.status) == ((0, 1, 2, 3, 4), "pass")
    assert (pcie_bad.gpus, pcie_bad.status, pcie.messages) == ((5,), "fail", ("GPU 5 is bad",))
    assert (memory.gpus, one.gpus, two.gpus, two.status) == (None, (0,), (1,), "fail")
    assert fact.tests("fail") == ("PCIe", "memory")


def test_cut_diag_is_not_complete() -> None:
    text = text_of("dcgm01")
    for keep in range(14, text.count("\n")):
        cut = "\n".join(text.split("\n")[:keep]) + "\n"
        assert not parse_dcgm_diag(cut).complete, keep
    with pytest.raises(ParseError):
        parse_dcgm_diag(text_of("dcgm11")[:-40])


def test_json_summary_alone_can_fail() -> None:
    text = text_of("dcgm11").replace('"status": "Fail"', '"status": "Pass"', 1)
    assert parse_dcgm_diag(text).tests("fail") == ("software",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: unable to establish a connection to the specified host: localhost\n",
        "Successfully ran diagnostic for group.\n",
        _rows("PCIe=Perhaps"),
        _rows("=Pass"),
        text_of("dcgm05").replace("Fail  ", "Fai   ", 1),
        "\n".join(line for line in text_of("dcgm01").split("\n") if "  Deployment" not in line),
        text_of("dcgm11").replace('"status": "Fail"', '"status": "Maybe"'),
        text_of("dcgm11").replace('"status"', '"state"'),
        text_of("dcgm12") * 2,
        text_of("dcgm07").replace('"0,1,2,3,4,5,6,7"', '"all of them"'),
        text_of("dcgm17").replace("U U U", "U ? U", 1),
        text_of("dcgm17").replace("gpuId 1:", "gpuId 0:"),
        text_of("dcgm21").replace("7 GPUs found.", "6 GPUs found."),
        text_of("dcgm19").replace("Healthy", "Splendid"),
    ],
)
def test_dcgmi_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_dcgmi(text)


NO_LOG = ("fm09", "fm14", "fm15", "fabricmanager_version", "03_fabricmanager_before")
LOGS = [s for s in of_kind("fabricmanager") if not s.name.startswith(NO_LOG)]
CAUSES = {"nvswitch_count": "nvswitch_count", "no_nvswitch": "nothing_to_do"}


@pytest.mark.parametrize("sample", LOGS, ids=lambda s: s.file)
def test_fabricmanager_log(sample: Sample) -> None:
    label, log = sample.label, parse_fabricmanager_log(sample.text)
    sxids = log.of_kind("sxid")
    if "state" in label:
        assert log.state == label["state"]
    if "errors" in label:
        assert log.errors == label["errors"]
    if "sxid" in label:
        wanted = label["sxid"] if isinstance(label["sxid"], list) else [label["sxid"]]
        assert {event.sxid for event in sxids} == set(wanted)
        assert any(event.fatal for event in sxids) == label["fatal"]
        assert label.get("port", sxids[0].port) == sxids[0].port
    if "cause" in label:
        cause = CAUSES.get(label["cause"], label["cause"])
        (event, *_) = [event for event in log.events if event.kind == cause]
        for key in ("fm_version", "driver_version"):
            assert getattr(event, key) == label.get(key)
    if "nvlsm" in label:
        assert log.nvlsm == label["nvlsm"]
        assert bool(log.of_kind("configured")) == label.get("configured", True)
    lines = sample.text.split("\n")
    assert all(event.text[:60] in lines[event.line - 1] for event in log.events)


@pytest.mark.parametrize(
    "words",
    [
        "fabric manager NVIDIA GPU driver interface version 580.1.2 does not match with driver"
        " version 570.3",
        "Fabric Manager version 580.1.2 didn't match with NVIDIA driver version 570.3.",
        "fabric manager NVSwitch driver interface version 580.1.2 don't match with driver version"
        " 570.3. Please update with matching NVIDIA driver package.",
        "NVIDIA driver version 570.3 does not match the fabric manager version 580.1.2",
    ],
)
def test_mismatch_wordings(words: str) -> None:
    log = parse_fabricmanager_log(f"[Feb 25 2025 13:59:45] [ERROR] [tid 1] {words}\n")
    (event,) = log.events
    assert (event.fm_version, event.driver_version, log.state) == ("580.1.2", "570.3", "failed")


def test_the_last_word_counts() -> None:
    started, failed = "systemd[1]: Started NVIDIA fabric manager service.", (
        "systemd[1]: nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL"
    )  # fmt: skip
    assert parse_fabricmanager_log(f"{started}\n{failed}\n").state == "failed"
    assert parse_fabricmanager_log(f"{failed}\n{started}\n").state == "active"
    other = "systemd[1]: ssh.service: Failed with result 'exit-code'."
    assert parse_fabricmanager_log(f"{started}\n{other}\n").state == "active"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- No entries --\n",
        *(s.text for s in of_kind("fabricmanager") if s.name.startswith(NO_LOG)),
        "nv-fabricmanager[1]: version of this does not match that\n",
        "nv-fabricmanager[1]: detected NVSwitch fatal error twenty\n",
    ],
)
def test_no_log(text: str) -> None:
    with pytest.raises(ParseError):
        parse_fabricmanager_log(text)
