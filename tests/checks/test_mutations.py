"""One fact of a good node made bad: the check that looks at it closes the gate.

The table has a line for every check of the registry. A fact is changed after it was read, so this
tests the check alone; that the text of a sick node becomes that fact is tested by the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabric_tools import judge as judge_module
from fabric_tools.checks import BY_ID, CHECKS
from fabric_tools.models import (
    boot,
    dcgm,
    fabric_ports,
    facts,
    nccl_texts,
    network,
    os_state,
    rdma,
    smi,
    storage,
    system,
)
from fabric_tools.models.base import Fact
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Facts, Missing
from fabric_tools.parsers.smi_fields import THROTTLE
from tests.checks.whole import decided, whole_node

Change = Callable[[Any], Any]


def _with(**update: Any) -> Change:
    return lambda fact: fact.model_copy(update=update)


def _gpu(number: int, **update: Any) -> Change:
    """One GPU of the inventory changed."""

    def change(inventory: facts.GpuInventory) -> facts.GpuInventory:
        gpus = list(inventory.gpus)
        gpus[number] = gpus[number].model_copy(update=update)
        return inventory.model_copy(update={"gpus": tuple(gpus)})

    return change


def _device(which: str, **update: Any) -> Change:
    """The first PCI device of that id changed."""

    def change(pci: facts.PciDevices) -> facts.PciDevices:
        devices = list(pci.devices)
        at = next(n for n, device in enumerate(devices) if device.vendor_device == which)
        devices[at] = devices[at].model_copy(update=update)
        return pci.model_copy(update={"devices": tuple(devices)})

    return change


def _log(**update: Any) -> Change:
    def change(logs: facts.KernelLogs) -> facts.KernelLogs:
        first = logs.logs[0].model_copy(update=update)
        return logs.model_copy(update={"logs": (first, *logs.logs[1:])})

    return change


def _cell(topo: facts.Topology) -> facts.Topology:
    rows = list(topo.rows)
    rows[2] = rows[2].model_copy(update={"cells": {**rows[2].cells, "GPU5": "SYS"}})
    return topo.model_copy(update={"rows": tuple(rows)})


def _link(status: facts.NvlinkStatus) -> facts.NvlinkStatus:
    gpus = list(status.gpus)
    links = list(gpus[4].links)
    links[7] = links[7].model_copy(update={"gbytes_s": None})
    gpus[4] = gpus[4].model_copy(update={"links": tuple(links)})
    return status.model_copy(update={"gpus": tuple(gpus)})


def _recovered(errors: smi.NvlinkErrors) -> smi.NvlinkErrors:
    gpus = list(errors.gpus)
    links = list(gpus[1].links)
    counts = {**links[0].counts, "Recovery Errors": 5}
    links[0] = links[0].model_copy(update={"counts": counts})
    gpus[1] = gpus[1].model_copy(update={"links": tuple(links)})
    return errors.model_copy(update={"gpus": tuple(gpus)})


def _moved(packages: system.Packages) -> system.Packages:
    first = packages.packages[0].model_copy(update={"upstream": "570.86.15"})
    return packages.model_copy(update={"packages": (first, *packages.packages[1:])})


def _one_less(rosters: facts.GpuRosters) -> facts.GpuRosters:
    best = rosters.best
    less = best.model_copy(update={"gpus": best.gpus[:-1], "attached_gpus": 7})
    return rosters.model_copy(update={"rosters": (less,)})


def _waiting(states: smi.FabricStates) -> smi.FabricStates:
    fabric = facts.GpuFabric(state="In Progress", status="N/A")
    first = states.blocks[0].model_copy(update={"fabric": fabric, "gpu": None})
    return states.model_copy(update={"blocks": (first, *states.blocks[1:])})


def _failed(log: dcgm.FabricManagerLog) -> dcgm.FabricManagerLog:
    event = dcgm.FmEvent(line=1, kind="version_mismatch", text="does not match")
    return log.model_copy(update={"events": (*log.events, event)})


def _nccl(**update: Any) -> Change:
    """Both halves of the last row of the first test changed."""

    def change(tests: nccl_texts.NcclTexts) -> nccl_texts.NcclTexts:
        text = tests.texts[0]
        run = text.runs[0]
        row = run.rows[-1]
        halves = {
            name: half.model_copy(update=update)
            for name in ("out_of_place", "in_place")
            if (half := getattr(row, name)) is not None
        }
        rows = (*run.rows[:-1], row.model_copy(update=halves))
        run = run.model_copy(update={"rows": rows})
        text = text.model_copy(update={"runs": (run, *text.runs[1:])})
        return tests.model_copy(update={"texts": (text, *tests.texts[1:])})

    return change


def _nccl_log(**update: Any) -> Change:
    def change(logs: nccl_texts.NcclTexts) -> nccl_texts.NcclTexts:
        texts = [
            text.model_copy(update={"log": text.log.model_copy(update=update)})
            if text.log
            else text
            for text in logs.texts
        ]
        return logs.model_copy(update={"texts": tuple(texts)})

    return change


def _port(**update: Any) -> Change:
    """The port of the first rail changed."""

    def change(ports: fabric_ports.RdmaPorts) -> fabric_ports.RdmaPorts:
        found = [p.model_copy(update=update) if p.device == "mlx5_0" else p for p in ports.ports]
        return ports.model_copy(update={"ports": tuple(found)})

    return change


def _netdev(**update: Any) -> Change:
    """The interface of the first rail changed."""

    def change(links: network.IpLinks) -> network.IpLinks:
        found = [x.model_copy(update=update) if x.name == "enp25s0np0" else x for x in links.links]
        return links.model_copy(update={"links": tuple(found)})

    return change


def _acs_on(pci: facts.PciDevices) -> facts.PciDevices:
    devices = list(pci.devices)
    for at, device in enumerate(devices):
        if device.buses is not None and device.acs == ():
            devices[at] = device.model_copy(update={"acs": ("SrcValid",)})
    return pci.model_copy(update={"devices": tuple(devices)})


def _narrow_nic(pci: facts.PciDevices) -> facts.PciDevices:
    devices = list(pci.devices)
    at = next(n for n, d in enumerate(devices) if (d.vendor_device or "").startswith("15b3:"))
    devices[at] = devices[at].model_copy(update={"link_sta_width": 8})
    return pci.model_copy(update={"devices": tuple(devices)})


def _wrong_rail(topo: facts.Topology) -> facts.Topology:
    row = topo.rows[0]
    cells = {name: "SYS" if name in topo.nics else cell for name, cell in row.cells.items()}
    rows = (row.model_copy(update={"cells": cells}), *topo.rows[1:])
    return topo.model_copy(update={"rows": rows})


def _no_pfc(qos: fabric_ports.QosByPort) -> fabric_ports.QosByPort:
    first = qos.settings[0].model_copy(update={"pfc": ()})
    return qos.model_copy(update={"settings": (first, *qos.settings[1:])})


def _slow(tests: rdma.BwTests) -> rdma.BwTests:
    test = tests.tests[0]
    row = test.rows[-1].model_copy(update={"average_gbits_s": 190.0})
    test = test.model_copy(update={"rows": (*test.rows[:-1], row)})
    return tests.model_copy(update={"tests": (test,)})


def _kernel(**update: Any) -> Change:
    """The kernel that boots next changed."""

    def change(found: boot.NextBoot) -> boot.NextBoot:
        first = found.kernels[0].model_copy(update=update)
        return found.model_copy(update={"kernels": (first, *found.kernels[1:])})

    return change


def _unsigned(found: boot.NextBoot) -> boot.NextBoot:
    module = found.kernels[0].module
    assert module is not None
    return _kernel(module=module.model_copy(update={"signer": ""}))(found)


def _not_held(name: str) -> Change:
    """One hold taken away, and no pin stands for it."""

    def change(holds: system.AptHolds) -> system.AptHolds:
        assert name in holds.lines
        return holds.model_copy(
            update={"lines": {k: v for k, v in holds.lines.items() if k != name}}
        )

    return change


def _moves(name: str, old: str | None) -> Change:
    move = boot.Move(line=1, name=name, old=old, new="9")
    return _with(moves=(move,))


def _other_repository(policy: system.AptPolicy) -> system.AptPolicy:
    first = policy.packages[0]
    row = first.versions[0].model_copy(update={"sources": ("https://other.example/deb x/main",)})
    first = first.model_copy(update={"versions": (row, *first.versions[1:])})
    return policy.model_copy(update={"packages": (first, *policy.packages[1:])})


XID_79 = facts.XidEvent(line=1, xid=79, pci="0000:9a:00", text="GPU has fallen off the bus")
SXID = facts.SxidEvent(
    line=1, switch="nvidia-nvswitch0", pci="0000:07:00.0", sxid=20034, fatal=True, text=""
)
REFUSED = facts.KernelNote(line=1, kind="probe_failed", text="probe failed")
AGGREGATE = facts.EccErrors(correctable=0, sram_uncorrectable=0, dram_uncorrectable=3)


def _source_down(apt: os_state.AptUpdate) -> os_state.AptUpdate:
    first = apt.sources[0].model_copy(update={"trouble": "unreachable"})
    return apt.model_copy(update={"sources": (first, *apt.sources[1:])})


def _source_elsewhere(apt: os_state.AptUpdate) -> os_state.AptUpdate:
    first = apt.sources[0].model_copy(update={"uri": "http://archive.ubuntu.com/ubuntu/dists/x"})
    return apt.model_copy(update={"sources": (first, *apt.sources[1:])})


def _set(name: str, value: str) -> Change:
    """One setting changed, by name."""

    def change(fact: Any) -> Any:
        setting = os_state.Setting(line=1, value=value)
        return fact.model_copy(update={"values": {**fact.values, name: setting}})

    return change


def _no_blacklist(config: os_state.AptConfig) -> os_state.AptConfig:
    return config.model_copy(update={"lists": {}})


def _no_memlock(limits: os_state.Limits) -> os_state.Limits:
    lines = tuple(line for line in limits.lines if line.item != "memlock")
    return limits.model_copy(update={"lines": lines})


def _degraded(arrays: storage.MdArrays) -> storage.MdArrays:
    first = arrays.arrays[0].model_copy(update={"active": 3})
    return arrays.model_copy(update={"arrays": (first, *arrays.arrays[1:])})


#: check -> the fact it reads, and how that fact goes bad.
MUTATIONS: dict[str, tuple[type[Fact], Change]] = {
    "host.platform": (facts.DmiProduct, _with(product_name="DGXH200")),
    "host.os": (facts.OsRelease, _with(version_id="20.04")),
    "apt.sources": (os_state.AptUpdate, _source_down),
    "apt.mirror": (os_state.AptUpdate, _source_elsewhere),
    "apt.unattended": (os_state.AptConfig, _no_blacklist),
    "host.time": (os_state.ClockTracking, _with(bound_s=5.0)),
    "host.proxy": (os_state.Environment, _set("NO_PROXY", "localhost")),
    "host.ca": (os_state.TrustStore, _with(fingerprints={})),
    "host.limits": (os_state.Limits, _no_memlock),
    "host.sysctl": (os_state.Sysctls, _set("fs.inotify.max_user_instances", "128")),
    "storage.array": (storage.MdArrays, _degraded),
    "pci.gpu_count": (facts.PciDevices, _device("10de:2330", answers=False)),
    "pci.nvswitch_count": (facts.PciDevices, _device("10de:22a3", vendor_device="10de:ffff")),
    "pci.gpu_link": (facts.PciDevices, _device("10de:2330", link_sta_width=8)),
    "driver.answers": (facts.SmiAnswer, _with(error="gpu_lost", text="lost")),
    "driver.modules": (facts.KernelModules, _with(lines={"nvidia": 1, "nouveau": 2})),
    "driver.stack_match": (facts.LoadedModule, _with(version="565.57.02")),
    "driver.supported": (facts.LoadedModule, _with(version="470.256.02")),
    "driver.packages": (system.Packages, _moved),
    "driver.stack_lock": (facts.LoadedModule, _with(version="565.57.02")),
    "packages.kernel_hold": (system.AptHolds, _not_held("linux-generic")),
    "packages.driver_hold": (system.AptHolds, _not_held("nvidia-fabricmanager-565")),
    "packages.kernel_still": (boot.UpgradePlan, _moves("linux-image-9.9.9-9-generic", None)),
    "packages.driver_still": (boot.UpgradePlan, _moves("nvidia-fabricmanager-565", "1")),
    "driver.origin": (system.AptPolicy, _other_repository),
    "boot.kernel": (boot.NextBoot, _kernel(initramfs=None)),
    "boot.headers": (boot.NextBoot, _kernel(headers=False)),
    "boot.module": (boot.NextBoot, _kernel(module=None, module_note="not found")),
    "boot.nouveau": (boot.NextBoot, _with(modprobe=())),
    "boot.secure_boot": (boot.NextBoot, _unsigned),
    "driver.nvml_agrees": (facts.NvmlInventory, _with(count=7)),
    "cuda.init": (facts.CudaInit, _with(code=802, devices=None)),
    "gpu.count": (facts.GpuRosters, _one_less),
    "gpu.readable": (facts.GpuInventory, _gpu(3, unreadable={"power": "GPU is lost"})),
    "gpu.identity": (facts.GpuInventory, _gpu(3, product="NVIDIA H100 PCIe")),
    "gpu.mig": (facts.GpuInventory, _gpu(3, mig_pending="Enabled")),
    "gpu.ecc_mode": (facts.GpuInventory, _gpu(3, ecc_mode_pending="Disabled")),
    "gpu.ecc_errors": (
        facts.GpuInventory,
        _gpu(3, ecc_volatile=facts.EccErrors(sram_uncorrectable=1, dram_uncorrectable=0)),
    ),
    "gpu.row_remap": (facts.GpuInventory, _gpu(3, remap_failure="Yes")),
    "gpu.recovery": (facts.GpuInventory, _gpu(3, recovery_action="Reset")),
    "gpu.pcie": (facts.GpuInventory, _gpu(3, pcie_width_current=8)),
    "gpu.throttle": (facts.GpuInventory, _gpu(3, throttle=dict.fromkeys(THROTTLE, True))),
    "gpu.power_limit": (facts.GpuInventory, _gpu(3, power_limit_w=300.0)),
    "gpu.temperature": (facts.GpuInventory, _gpu(3, tlimit_c=-1)),
    "kernel.xid": (facts.KernelLogs, _log(xids=(XID_79,))),
    "kernel.sxid": (facts.KernelLogs, _log(sxids=(SXID,))),
    "kernel.driver_faults": (facts.KernelLogs, _log(notes=(REFUSED,))),
    "fabric.manager": (facts.UnitState, _with(active="failed", sub="failed")),
    "fabric.state": (
        facts.GpuInventory, _gpu(3, fabric=facts.GpuFabric(state="In Progress", status="N/A"))
    ),
    "fabric.registration": (smi.FabricStates, _waiting),
    "fabric.log": (dcgm.FabricManagerLog, _failed),
    "nvlink.full_mesh": (facts.Topology, _cell),
    "nvlink.links": (facts.NvlinkStatus, _link),
    "nvlink.error_growth": (smi.NvlinkErrors, _recovered),
    "gpu.error_growth": (facts.GpuInventory, _gpu(3, ecc_aggregate=AGGREGATE)),
    "nccl.correct": (nccl_texts.NodeNcclTests, _nccl(wrong=3.0)),
    "nccl.busbw": (nccl_texts.NodeNcclTests, _nccl(busbw_gbytes_s=175.0, algbw_gbytes_s=100.0)),
    "nccl.transport": (nccl_texts.NodeNcclLogs, _nccl_log(nvls="failed")),
    "nccl.correct_between": (nccl_texts.ClusterNcclTests, _nccl(wrong=3.0)),
    "nccl.busbw_between": (
        nccl_texts.ClusterNcclTests, _nccl(busbw_gbytes_s=93.75, algbw_gbytes_s=50.0)
    ),
    "nccl.transport_between": (
        nccl_texts.ClusterNcclLogs, _nccl_log(network="Socket", networks=("Socket",), gdrdma=False)
    ),
    "nic.pcie_link": (facts.PciDevices, _narrow_nic),
    "pci.acs": (facts.PciDevices, _acs_on),
    "nic.ports": (fabric_ports.RdmaPorts, _port(state="Down", active=False)),
    "nic.link_layer": (fabric_ports.RdmaPorts, _port(link_layer="InfiniBand")),
    "nic.speed": (fabric_ports.RdmaPorts, _port(rate_gbits_s=100.0)),
    "nic.error_growth": (fabric_ports.RdmaPorts, _port(counters={"link_downed": 10**6})),
    "roce.gid": (fabric_ports.RdmaPorts, _port(gids=())),
    "roce.mtu": (network.IpLinks, _netdev(mtu_bytes=1500)),
    "roce.qos": (fabric_ports.QosByPort, _no_pfc),
    "roce.bond": (
        network.IpLinks, _netdev(master="bond0", bond_slave=network.BondSlave(state="ACTIVE"))
    ),
    "roce.lldp": (network.LldpNeighbours, _with(neighbours=())),
    "roce.perftest": (rdma.BwTests, _slow),
    "topo.rails": (facts.Topology, _wrong_rail),
    "fleet.same_stack": (facts.GpuInventory, _gpu(3, vbios_version="96.00.00.00.00")),
}  # fmt: skip


#: Whose bad fact here is one that is missing: no neighbour may also be an LLDP daemon that is off.
CANNOT_TELL = {"roce.lldp"}


def test_every_check_has_its_line() -> None:
    assert set(MUTATIONS) == set(BY_ID)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return whole_node(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("check", [item.id for item in CHECKS])
def test_one_bad_fact_closes_the_gate(
    whole: Snapshot, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, change = MUTATIONS[check]
    sick = whole.model_copy()

    class Changed(Facts):
        def get(self, wanted):  # type: ignore[no-untyped-def]
            found = super().get(wanted)
            if wanted is not kind or self.snapshot is not sick:
                return found
            assert not isinstance(found, Missing)
            assert change(found) != found
            return change(found)

    monkeypatch.setattr(judge_module, "Facts", Changed)
    gates = decided(whole, sick)
    for phase in BY_ID[check].phases:
        mine = {v.status for v in gates[phase].verdicts if v.check == check}
        assert (Status.UNKNOWN if check in CANNOT_TELL else Status.FAIL) in mine, mine
        assert not gates[phase].open
