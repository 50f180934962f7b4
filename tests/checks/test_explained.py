"""What one fault explains of another, and what it does not."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from fabric_tools.gate import settles_s
from fabric_tools.judge import Reading
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status, Verdict
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import AS_OF, HEALTHY, report_on


def changed(*without: str, **texts: str) -> Snapshot:
    snapshot = read_snapshot(HEALTHY)
    new = {name: ProbeResult(status=ProbeStatus.OK, stdout=text) for name, text in texts.items()}
    probes = {k: v for k, v in {**snapshot.probes, **new}.items() if k not in without}
    return snapshot.model_copy(update={"probes": probes})


def text(probe: str) -> str:
    return read_snapshot(HEALTHY).probes[probe].stdout


def judged(snapshot: Reading | Snapshot, check: str) -> dict[str, Verdict]:
    """What a judgement of both phases says of one check, by subject."""
    decisions = report_on(snapshot, Phase.PREFLIGHT, Phase.DRIVER).decisions
    return {v.subject: v for d in decisions for v in d.verdicts if v.check == check}


def silent(address: str) -> str:
    """lspci with a GPU that fell off the bus and is still listed."""
    return "".join(
        line.replace("(rev a1)", "(rev ff)") if line.startswith(f"0000:{address}") else line
        for line in text("lspci").splitlines(keepends=True)
    )


def narrow(xml: str, address: str) -> str:
    before, block = xml.split(f'<gpu id="00000000:{address}">')
    block = block.replace("<current_link_width>16x", "<current_link_width>8x", 1)
    return f'{before}<gpu id="00000000:{address}">{block}'


def test_a_lost_gpu_does_not_explain_the_link_of_the_one_that_got_its_number() -> None:
    """GPU 5 of the bus is lost: the driver's GPU 5 is the bus's GPU 6, and that one is narrow."""
    xml = narrow(text("nvidia_smi_q_xml"), "BA:00.0")
    xml = re.sub(r'<gpu id="00000000:AB:00.0">.*?</gpu>', "", xml, flags=re.DOTALL)
    xml = xml.replace("<attached_gpus>8", "<attached_gpus>7")
    node = changed(nvidia_smi_q_xml=xml, lspci=silent("ab:00.0"))
    assert judged(node, "pci.gpu_link")["GPU 5"].status is Status.FAIL
    link = judged(node, "gpu.pcie")["GPU 5"]
    assert "BA:00.0" in link.actual and (link.status, link.follows) == (Status.FAIL, "")


def test_the_same_width_on_the_bus_and_in_the_driver_is_one_fault() -> None:
    head, tail = text("lspci").split("0000:ab:00.0", 1)
    tail = re.sub(r"(LnkSta:.*Width )x16 \(ok\)", r"\1x8 (downgraded)", tail, count=1)
    xml = narrow(text("nvidia_smi_q_xml"), "AB:00.0")
    link = judged(changed(nvidia_smi_q_xml=xml, lspci=f"{head}0000:ab:00.0{tail}"), "gpu.pcie")
    assert (link["GPU 5"].status, link["GPU 5"].follows) == (Status.UNKNOWN, "pci.gpu_link")


def test_more_lost_by_the_driver_than_by_the_bus_is_a_fault_of_its_own() -> None:
    """Seven answer on the bus; a list without addresses has five."""
    listed = "".join(
        f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n:08d}-0000-4000-8000-000000000000)\n"
        for n in range(5)
    )
    node = changed("nvidia_smi_q_xml", lspci=silent("ab:00.0"), nvidia_smi_list=listed)
    assert judged(node, "pci.gpu_count")["node"].status is Status.FAIL
    count = judged(node, "gpu.count")["node"]
    assert count.actual.startswith("5") and (count.status, count.follows) == (Status.FAIL, "")


def test_a_masked_manager_is_the_cause_whatever_the_bus_lacks() -> None:
    unit = text("fabricmanager_unit").replace("LoadState=loaded", "LoadState=masked")
    unit = unit.replace("ActiveState=active", "ActiveState=inactive").replace("=running", "=dead")
    lspci = re.sub(r"(?m)^(.*\[10de:22a3\]) \(rev a1\)", r"\1 (rev ff)", text("lspci"), count=1)
    node = changed(fabricmanager_unit=unit, lspci=lspci)
    assert judged(node, "pci.nvswitch_count")["node"].status is Status.FAIL
    assert judged(node, "fabric.manager")["node"].status is Status.FAIL
    assert {v.follows for v in judged(node, "fabric.state").values()} == {"fabric.manager"}


@pytest.mark.parametrize(("active", "seconds"), [("active", 60), ("inactive", 0)])
def test_cuda_is_waited_for_while_the_fabric_registers(active: str, seconds: int) -> None:
    """Error 802 is what a healthy node says as long as its GPUs are In Progress."""
    xml = text("nvidia_smi_q_xml").replace("<state>Completed<", "<state>In Progress<")
    cuda = '{"code": 802, "name": "CUDA_ERROR_SYSTEM_NOT_READY", "devices": null}'
    unit = text("fabricmanager_unit").replace("ActiveState=active", f"ActiveState={active}")
    node = changed(nvidia_smi_q_xml=xml, cuda_init=cuda, fabricmanager_unit=unit)
    (decision,) = report_on(node, Phase.DRIVER).decisions
    assert not decision.open and settles_s([decision]) == seconds, decision.reasons


def test_a_manager_that_starts_is_waited_for_and_one_that_crashes_is_not() -> None:
    unit = text("fabricmanager_unit").replace("ActiveState=active", "ActiveState=activating")
    for sub, seconds in (("start", 60), ("auto-restart", 0), ("auto-restart-queued", 0)):
        node = changed(fabricmanager_unit=unit.replace("SubState=running", f"SubState={sub}"))
        (decision,) = report_on(node, Phase.DRIVER).decisions
        against = {v.check for v in decision.verdicts if v.status is Status.UNKNOWN}
        assert against == {"fabric.manager", "fabric.state"}
        assert not decision.open and settles_s([decision]) == seconds, decision.reasons


def test_a_snapshot_of_the_future_is_not_waited_for() -> None:
    xml = text("nvidia_smi_q_xml").replace("<state>Completed<", "<state>In Progress<")
    node = changed(nvidia_smi_q_xml=xml)
    for taken, seconds in ((AS_OF, 60), (AS_OF + timedelta(hours=1), 0)):
        node = node.model_copy(update={"started_at": taken})
        (decision,) = report_on(node, Phase.DRIVER).decisions
        assert settles_s([decision]) == seconds, decision.reasons


def test_another_manager_does_not_explain_what_the_library_says() -> None:
    """Error 803 and "Driver/library version mismatch" are about userspace."""
    cuda = '{"code": 803, "name": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "devices": null}'
    version = text("fabricmanager_version")
    other = re.sub(r"\d+\.\d+\.\d+", "580.65.06", version)
    assert other != version
    node = changed(cuda_init=cuda, fabricmanager_version=other)
    match = judged(node, "driver.stack_match")
    assert {s: v.status.value for s, v in match.items()} == {
        "userspace": "pass", "fabric manager": "fail",
    }  # fmt: skip
    assert judged(node, "cuda.init")["node"].status is Status.FAIL
    new = text("nvidia_smi_version").replace("565.57", "580.65")
    ahead = judged(changed(cuda_init=cuda, nvidia_smi_version=new), "cuda.init")["node"]
    assert (ahead.status, ahead.follows) == (Status.UNKNOWN, "driver.stack_match")


def test_of_two_texts_the_one_that_nothing_explains_counts() -> None:
    """Saved twice: once the driver has all that the bus has, once it has one less."""
    xml = text("nvidia_smi_q_xml")

    def fewer(*addresses: str) -> Snapshot:
        less = xml.replace("<attached_gpus>8", f"<attached_gpus>{8 - len(addresses)}")
        for address in addresses:
            less = re.sub(rf'<gpu id="00000000:{address}">.*?</gpu>', "", less, flags=re.DOTALL)
        return changed(nvidia_smi_q_xml=less, lspci=seven)

    seven = re.sub(r"(?m)^0000:ab:00\.0 .*\n(?:[ \t].*\n|\n)*", "", text("lspci"))
    reading = Reading(fewer("AB:00.0"), others=(fewer("AB:00.0", "BA:00.0"),))
    count = judged(reading, "gpu.count")["node"]
    assert (count.status, count.follows) == (Status.FAIL, "") and "ba:00.0" in count.actual


def lost(*addresses: str) -> dict[str, str]:
    """One GPU gone from the bus and from the driver."""
    xml, lspci = text("nvidia_smi_q_xml"), text("lspci")
    xml = xml.replace("<attached_gpus>8", f"<attached_gpus>{8 - len(addresses)}")
    for address in addresses:
        gone = rf'<gpu id="00000000:{address.upper()}">.*?</gpu>'
        xml = re.sub(gone, "", xml, flags=re.DOTALL)
        here = rf"(?m)^0000:{re.escape(address)} .*\n(?:[ \t].*\n|\n)*"
        lspci = re.sub(here, "", lspci, flags=re.IGNORECASE)
    return {"nvidia_smi_q_xml": xml, "lspci": lspci}


@pytest.mark.parametrize(("devices", "follows"), [(7, "pci.gpu_count"), (3, "")])
def test_who_lacks_more_gpus_than_the_driver_has_a_fault_of_its_own(
    devices: int, follows: str
) -> None:
    cuda = f'{{"code": 0, "name": "CUDA_SUCCESS", "devices": {devices}}}'
    node = changed(**lost("AB:00.0"), cuda_init=cuda, nvidia_smi_topo=matrix(devices))
    assert judged(node, "pci.gpu_count")["node"].status is Status.FAIL
    for check in ("cuda.init", "nvlink.full_mesh"):
        found = judged(node, check)["node"]
        assert (found.status is Status.FAIL, found.follows) == (not follows, follows)


def matrix(gpus: int) -> str:
    """``nvidia-smi topo -m`` of so many GPUs."""
    names = [f"GPU{index}" for index in range(gpus)]
    rows = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name in names:
        cells = [" X " if other == name else "NV18" for other in names]
        rows.append("\t".join([name, *cells, "0-55,112-167", "0", "", "N/A"]))
    return "\n".join([*rows, "", text("nvidia_smi_topo").partition("\n\n")[2]])


@pytest.mark.parametrize("state", ["active", "masked"])
def test_802_follows_from_a_manager_that_is_down_and_from_nothing_else(state: str) -> None:
    """A manager that runs has the switches that are there, whatever else is wrong."""
    cuda = '{"code": 802, "name": "CUDA_ERROR_SYSTEM_NOT_READY", "devices": null}'
    unit = text("fabricmanager_unit")
    if state == "masked":
        unit = unit.replace("LoadState=loaded", "LoadState=masked")
    lspci = re.sub(r"(?m)^(.*\[10de:22a3\]) \(rev a1\)", r"\1 (rev ff)", text("lspci"), count=1)
    version = text("fabricmanager_version").replace("565.57.01", "580.65.06")
    node = changed(
        cuda_init=cuda, fabricmanager_unit=unit, lspci=lspci, fabricmanager_version=version
    )
    assert judged(node, "pci.nvswitch_count")["node"].status is Status.FAIL
    found = judged(node, "cuda.init")["node"]
    assert found.follows == ("" if state == "active" else "fabric.manager")


def test_of_two_texts_that_differ_in_their_cause_the_order_does_not_matter() -> None:
    seven = changed(**lost("AB:00.0"))
    codes = (
        '{"code": 0, "name": "CUDA_SUCCESS", "devices": 7}',
        '{"code": 803, "name": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "devices": null}',
    )
    one, other = (
        seven.model_copy(update={"probes": {**seven.probes, "cuda_init": ok(code)}})
        for code in codes
    )
    assert judged(one, "cuda.init")["node"].follows == "pci.gpu_count"
    assert judged(other, "cuda.init")["node"].status is Status.FAIL
    for reading in (Reading(one, others=(other,)), Reading(other, others=(one,))):
        assert judged(reading, "cuda.init")["node"].status is Status.FAIL


def ok(stdout: str) -> ProbeResult:
    return ProbeResult(status=ProbeStatus.OK, stdout=stdout)


@pytest.mark.parametrize(("ntp", "seconds"), [("yes", 90), ("no", 0)])
def test_a_clock_without_chrony_is_waited_for_if_a_service_sets_it(ntp: str, seconds: int) -> None:
    told = text("timedatectl").replace("NTPSynchronized=yes", "NTPSynchronized=no")
    node = changed(timedatectl=told.replace("NTP=yes", f"NTP={ntp}"))
    absent = ProbeResult(status=ProbeStatus.ABSENT, argv=("chronyc",))
    node = node.model_copy(update={"probes": {**node.probes, "chrony_tracking": absent}})
    (decision,) = report_on(node, Phase.BASE).decisions
    (clock,) = [v for v in decision.verdicts if v.check == "host.time"]
    assert (clock.status, clock.settles_s) == (Status.FAIL, seconds)
