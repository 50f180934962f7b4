"""Bonds, software RAID, NVMe, RDMA counters, and kubectl's tables and ResourceSlices."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from corpus import text_of
from written import (
    BOND_BACKUP,
    BOND_LACP,
    MDADM_DETAIL,
    MDSTAT,
    NVME_FLAT,
    NVME_NESTED,
    RDMA_STAT_JSON,
    RDMA_STAT_TEXT,
)

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.k8s_resourceslice import parse_k8s_resourceslice
from fabric_tools.parsers.k8s_workloads import parse_k8s_daemonsets, parse_k8s_pods
from fabric_tools.parsers.mdadm import parse_mdadm
from fabric_tools.parsers.nvme_list import parse_nvme_list
from fabric_tools.parsers.proc_bonding import parse_proc_bonding
from fabric_tools.parsers.rdma_stat import parse_rdma_stat

PODS, SETS = text_of("operator_pods"), text_of("operator_daemonsets")
SLICES = text_of("rs01")


def test_bond_with_lacp() -> None:
    (bond,) = parse_proc_bonding(BOND_LACP).bonds
    assert (bond.mii_status, bond.miimon_ms, bond.hash_policy) == ("up", 100, "layer3+4")
    assert (bond.lacp_rate, bond.aggregator_id, bond.aggregator_ports) == ("fast", 1, 2)
    assert (bond.partner_mac, bond.complete) == ("02:00:00:00:00:bb", True)
    first, second = bond.ports
    assert (first.name, first.speed_mbits_s, first.link_failures) == ("ens1f0np0", 25000, 2)
    assert (second.actor_port_state, second.partner_port_state) == (61, 63)
    assert BOND_LACP.split("\n")[second.line - 1] == "Slave Interface: ens1f1np1"


def test_bond_forms() -> None:
    (bond,) = parse_proc_bonding(BOND_BACKUP).bonds
    assert (bond.miimon_ms, bond.active_port, bond.lacp_rate) == (0, "eno1", None)
    down = bond.ports[1]
    assert (down.mii_status, down.speed_mbits_s, down.duplex) == ("down", None, None)
    both = f"==> /proc/net/bonding/bond0 <==\n{BOND_BACKUP}\n==> /proc/net/bonding/b1 <==\n"
    found = parse_proc_bonding(both + BOND_LACP).bonds
    assert [bond.interface for bond in found] == ["bond0", "b1"]
    cut = BOND_LACP[: BOND_LACP.rindex("details partner")]
    assert not parse_proc_bonding(cut).bonds[0].complete
    head = BOND_LACP.split("Active Aggregator")[0]
    alone = parse_proc_bonding(head + "bond bond0 has no active aggregator\n").bonds[0]
    assert (alone.no_aggregator, alone.aggregator_id) == (True, None)


def test_mdstat() -> None:
    fact = parse_mdadm(MDSTAT)
    broken, stripe, inactive, syncing = fact.arrays
    assert fact.complete
    assert (broken.wanted, broken.active, broken.failed, broken.degraded) == (2, 1, 1, True)
    assert (broken.action, broken.percent) == ("recovery", 7.5)
    assert [member.slot for member in broken.members] == [1, None, None]
    assert (stripe.state, stripe.level, stripe.degraded) == (
        "active (auto-read-only)",
        "raid0",
        None,
    )
    assert (inactive.state, inactive.level, len(inactive.members)) == ("inactive", None, 2)
    assert (syncing.action, syncing.percent, syncing.degraded) == ("resync", None, False)
    assert not parse_mdadm(MDSTAT.split("unused")[0]).complete
    assert parse_mdadm("Personalities : \nunused devices: <none>\n").arrays == ()


def test_mdadm_detail() -> None:
    (array,) = parse_mdadm(MDADM_DETAIL).arrays
    assert (array.name, array.level, array.degraded, array.failed) == ("md0", "raid1", True, 0)
    assert array.state == "clean, degraded, recovering"
    assert (array.size_kib, array.action, array.percent) == (937692352, "recovery", 12.0)
    assert array.members[1].device == "/dev/nvme0n1p2"
    removed = MDADM_DETAIL.replace(
        "1     259        7        1      active sync   /dev/nvme0n1p2",
        "-       0        0        1      removed",
    )
    assert parse_mdadm(removed).arrays[0].members[1].device is None
    cut = parse_mdadm(MDADM_DETAIL.rsplit("\n", 2)[0] + "\n")
    assert not cut.complete


def test_nvme_list() -> None:
    (flat,) = parse_nvme_list(NVME_FLAT).namespaces
    assert (flat.path, flat.nsid, flat.serial) == ("/dev/nvme0n1", 1, "S0000000000001")
    assert (flat.size_bytes, flat.address, flat.line) == (1920383410176, None, 5)
    fact = parse_nvme_list(NVME_NESTED)
    (nested,) = fact.namespaces
    assert (nested.path, nested.address, nested.firmware) == (
        "/dev/nvme1n1",
        "0000:c1:00.0",
        "OPPA4B5Q",
    )
    assert fact.bare == ("nvme2",)
    assert parse_nvme_list('{"Devices":[]}').namespaces == ()
    old = NVME_NESTED.replace('3840755982336,\n                  "Sector', '-2147483648,\n"Sector')
    assert parse_nvme_list(old).namespaces[0].size_bytes is None


def test_rdma_stat() -> None:
    first, second = parse_rdma_stat(RDMA_STAT_JSON).links
    assert (first.device, first.counters["np_cnp_sent"]) == ("mlx5_0", 2**64 - 1)
    assert (second.device, second.line, second.counters["out_of_buffer"]) == ("mlx5_bond_0", 2, 3)
    assert parse_rdma_stat(RDMA_STAT_TEXT).links[1].counters["out_of_buffer"] == 7


def test_pods() -> None:
    fact = parse_k8s_pods(PODS)
    assert fact.complete
    assert all(pod.good for pod in fact.pods)
    done = [pod for pod in fact.pods if pod.status == "Completed"]
    assert (len(fact.pods), len(done), done[0].ready) == (24, 2, 0)
    assert {pod.node for pod in done} == {"gpu-node-1", "gpu-node-2"}
    all_of = (
        "NAMESPACE     NAME          READY   STATUS             RESTARTS        AGE\n"
        "gpu-operator  dcgm-1        0/1     CrashLoopBackOff   12 (2m3s ago)   41m\n"
        "kube-system   dcgm-1        1/2     Running            0               41m\n"
    )
    first, second = parse_k8s_pods(all_of).pods
    assert (first.namespace, first.restarts, first.good) == ("gpu-operator", 12, False)
    assert not second.good
    assert parse_k8s_pods("No resources found in gpu-operator namespace.\n").pods == ()
    assert not parse_k8s_pods(all_of[:-1]).complete


def test_daemonsets() -> None:
    fact = parse_k8s_daemonsets(SETS)
    assert [item.name for item in fact.daemonsets if item.ready != item.desired] == []
    idle = next(item for item in fact.daemonsets if "mps" in item.name)
    assert (idle.desired, idle.ready) == (0, 0)
    assert fact.daemonsets[1].node_selector is None


def test_resourceslices() -> None:
    fact = parse_k8s_resourceslice(SLICES)
    assert fact.complete
    assert fact.gpus() == {"gpu-node-1": 8, "gpu-node-2": 8}
    device = (fact.slices[1].devices or ())[0]
    assert (device.driver_version, device.nvidia_driver) == ("580.105.8", "580.105.08")
    assert (device.name, device.pci_bus_id) == ("gpu-1", "0000:64:00.0")
    lines = SLICES.split("\n")
    assert all(
        lines[device.line - 1].strip() == f"name: {device.name}"
        for item in fact.slices
        for device in item.devices or ()
    )
    as_json = json.dumps(yaml.safe_load(SLICES), indent=2)
    again = parse_k8s_resourceslice(as_json)
    assert (again.gpus(), again.complete) == (fact.gpus(), True)


def test_resourceslice_forms() -> None:
    one = {
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": "n",
            "pool": {"name": "n", "generation": 2, "resourceSliceCount": 2},
            "devices": [{"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}}}}],
        },
    }  # fmt: skip
    fact = parse_k8s_resourceslice(json.dumps(one))
    assert (fact.gpus(), fact.complete) == ({"n": 1}, False)  # one slice of two
    old = json.loads(json.dumps(one))
    old["metadata"]["name"] = "older"
    old["spec"]["pool"]["generation"] = 1
    both = {"apiVersion": "v1", "kind": "List", "items": [old, one]}
    assert parse_k8s_resourceslice(json.dumps(both)).gpus() == {"n": 1}
    table = "NAME   NODE   DRIVER   POOL   AGE\nn-gpu   n      gpu.nvidia.com   n      5d\n"
    (item,) = parse_k8s_resourceslice(table).slices
    assert (item.node, item.driver, item.devices) == ("n", "gpu.nvidia.com", None)
    cut = SLICES.split("kind: List")[0]
    assert not parse_k8s_resourceslice(cut).complete


REFUSED = [
    (parse_proc_bonding, ""),
    (parse_proc_bonding, "cat: /proc/net/bonding/bond0: No such file or directory\n"),
    (parse_proc_bonding, BOND_BACKUP.replace("Speed: 1000 Mbps", "Speed: fast")),
    (parse_proc_bonding, BOND_BACKUP.replace("eno2", "eno1")),
    (parse_proc_bonding, BOND_BACKUP.replace("Bonding Mode", "Mode")),
    (parse_mdadm, ""),
    (parse_mdadm, "mdadm: cannot open /dev/md0: No such file or directory\n"),
    (parse_mdadm, MDSTAT.replace("[2/1] [_U]", "[2/1] [UU]")),
    (parse_mdadm, MDADM_DETAIL + MDADM_DETAIL),
    (parse_mdadm, MDADM_DETAIL.split("             State")[0]),
    (parse_nvme_list, ""),
    (parse_nvme_list, "nvme: command not found\n"),
    (parse_nvme_list, NVME_FLAT[:-9]),
    (parse_nvme_list, NVME_FLAT.replace("DevicePath", "Path")),
    (parse_rdma_stat, "[]"),
    (parse_rdma_stat, "link mlx5_0/1 auto off\n"),
    (parse_rdma_stat, RDMA_STAT_TEXT.replace("out_of_buffer 7", "out_of_buffer")),
    (parse_rdma_stat, RDMA_STAT_JSON.replace('"out_of_buffer":3', '"cntn":3')),
    (parse_k8s_pods, ""),
    (parse_k8s_pods, "Error from server (Forbidden): pods is forbidden\n"),
    (parse_k8s_pods, SETS),
    (parse_k8s_pods, PODS.replace("3/3", "three")),
    (parse_k8s_pods, PODS + PODS),
    (parse_k8s_pods, PODS + "nvidia-dcgm-x   1/1\n"),
    (parse_k8s_daemonsets, PODS),
    (parse_k8s_daemonsets, SETS.replace("  0         0  ", "  0         x  ")),
    (parse_k8s_resourceslice, ""),
    (parse_k8s_resourceslice, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n"),
    (parse_k8s_resourceslice, SLICES[: SLICES.index("    driver:")]),
    (parse_k8s_resourceslice, SLICES + SLICES),
    (parse_k8s_resourceslice, "apiVersion: &a [*a]\n"),
]


@pytest.mark.parametrize(("parse", "text"), REFUSED)
def test_refused(parse: Any, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
