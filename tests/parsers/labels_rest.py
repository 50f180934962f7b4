"""What the labels of network, host and cluster samples must equal, taken from the parsed fact.

``READERS`` gives the values of the label's keys, ``PROSE`` the keys that are no facts, and
``WRONG_LABELS`` where a label contradicts its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from fabric_tools.models.base import Fact
from fabric_tools.models.facts import KernelLog, PciDevice
from fabric_tools.models.network import EthtoolLinks, IpLink
from fabric_tools.models.rdma import RdmaDevs
from fabric_tools.models.system import Package

Label = dict[str, object]
Reader = Callable[[Any], Label]


class Some(dict[str, object]):
    """Equal to a mapping that names some of its keys: labels do not repeat everything."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and all(
            key in self and self[key] == value for key, value in other.items()
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def _one(values: Iterable[Any]) -> Any:
    """The value on which all agree, else None."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _apt_hold(fact: Any) -> Label:
    return {
        "held": len(fact.lines),
        "driver_held": any(
            re.match(r"nvidia-(?:headless|driver)|linux-modules-nvidia", name)
            for name in fact.lines
        ),
        "fabricmanager_held": any("fabricmanager" in name for name in fact.lines),
        "kernel_meta_held": any(name.startswith("linux-image") for name in fact.lines),
    }


def _apt_policy(fact: Any) -> Label:
    (package,) = fact.packages
    return {"installed": package.installed, "candidate": package.candidate}


def _cdi(fact: Any) -> Label:
    assert fact.complete
    return {
        "entries": len(fact.lines),
        "gpus": sum(name.isdigit() for name in fact.named()),
        "has_all": "all" in fact.named(),
    }


def _crictl(fact: Any) -> Label:
    runtimes = {runtime.name: runtime for runtime in fact.runtimes}
    default = runtimes.get(fact.default_runtime or "")
    return {
        "RuntimeReady": fact.runtime_ready,
        "NetworkReady": fact.network_ready,
        "default_runtime": fact.default_runtime,
        "nvidia_runtime": "nvidia" in runtimes,
        "SystemdCgroup": default.systemd_cgroup if default else None,
        "valid_json": fact.complete,
        "cni": fact.cni_status,
        "enableCDI": fact.enable_cdi,
    }


def _words(numbers: dict[int, int] | None) -> dict[str, int] | None:
    return None if numbers is None else {str(key): value for key, value in numbers.items()}


def _dcb(fact: Any) -> Label:
    return {
        "pfc_enabled": None if fact.pfc_enabled is None else list(fact.pfc_enabled),
        "pfc_cap": fact.pfc_cap,
        "prio_tc": _words(fact.prio_tc),
        "dscp_prio": fact.dscp_names,
        "dscp_numeric": _words(fact.dscp_prio),
    }


def _dev_nodes(fact: Any) -> Label:
    return {
        "nvidiactl": any(node.path == "/dev/nvidiactl" for node in fact.nodes),
        "gpu_nodes": len(fact.gpu_nodes),
    }


def _dkms(fact: Any) -> Label:
    return {"modules": [[m.name, m.version, m.kernel, m.state] for m in fact.modules]}


def _dmi(fact: Any) -> Label:
    machines = ("Standard PC", "KVM", "VMware", "Virtual Machine", "Google Compute", "OpenStack")
    return {"virtual": fact.product_name.startswith(machines)}


def _docker(fact: Any) -> Label:
    return {"runtimes": list(fact.runtimes), "default": fact.default}


def _upstream(packages: tuple[Package, ...]) -> str | None:
    found: str | None = _one(package.upstream for package in packages)
    return found


def _dpkg(fact: Any) -> Label:
    installed = fact.installed()
    branches = {m[1] for p in installed if (m := re.search(r"-(\d{3})(?:-|$)", p.name))}
    rest = [p for p in fact.packages if p.state == "rc"]
    return {
        "installed_branches": sorted(branches),
        "installed_version": _upstream(installed),
        "installed": _upstream(installed),
        "leftover_rc": len(rest),
        "residual": _upstream(tuple(p for p in rest if "grid" not in p.name)),
        "fabricmanager": _upstream(fact.installed("nvidia-fabricmanager")),
        "toolkit": _upstream(fact.installed("nvidia-container-toolkit")),
    }


def _ethtool(fact: Any) -> Label:
    if isinstance(fact, EthtoolLinks):
        (link,) = fact.links
        return {
            "iface": link.interface,
            "speed_mbps": link.speed_mbits_s,
            "lanes": link.lanes,
            "max_supported_mbps": link.max_supported_mbits_s,
            "duplex": link.duplex,
            "fec": list(link.fec_supported),
            "autoneg_supported": link.autoneg_supported,
            "link_detected": link.link_detected,
            "complete": link.complete,
        }
    (driver,) = fact.drivers
    return {
        "driver": driver.driver,
        "version": driver.version,
        "origin": driver.origin,
        "firmware": driver.firmware,
        "psid": driver.psid,
        "bus": driver.bus_id,
    }


def _ipv4_index(fact: Any) -> int | None:
    """The first RoCE v2 GID with an IPv4 address."""
    return next((gid.index for gid in fact.gids if gid.version == "v2" and gid.ipv4), None)


def _gids(fact: Any) -> Label:
    assert fact.complete
    return {"count": len(fact.gids), "rocev2_ipv4_index": _ipv4_index(fact)}


def _ib_write_bw(fact: Any) -> Label:
    (test,) = fact.tests
    best, last = max(test.rows, key=lambda row: row.average), test.rows[-1]
    return {
        "rows": len(test.rows),
        "failed": bool(test.errors),
        "max_avg_gbps": best.average_gbits_s,
        "avg_gbps": last.average_gbits_s,
        "peak_gbps": last.peak if test.unit == "Gb/sec" else None,
        "unit": test.unit,
        "mtu": test.mtu_bytes,
        "max_avg": best.average,
        "max_avg_size": best.size_bytes,
        "last_avg": last.average,
        "last_avg_gbps": float(round(last.average_gbits_s or 0)),
    }


def _ibdev2netdev(fact: Any) -> Label:
    return {
        "devices": len({mapping.device for mapping in fact.mappings}),
        "up": sum(mapping.up is True for mapping in fact.mappings),
    }


def _ibstat(fact: Any) -> Label:
    ports = [(device, port) for device in fact.devices for port in device.ports]
    up = [(device, port) for device, port in ports if (port.state or "").lower() == "active"]
    # On a B300 the MT4129 functions manage NVLink, the network has ConnectX-8.
    newer = any(device.type == "MT4131" for device in fact.devices)
    managed = [device.name for device in fact.devices if newer and device.type == "MT4129"]
    network = [(device, port) for device, port in ports if device.name not in managed]
    return {
        "cas": len(fact.devices),
        "devices": len(fact.devices),
        "ports": len(ports),
        "active": len(up) if fact.complete else None,
        "link_layer": _one(port.link_layer for _, port in ports),
        "rate": _one(port.rate_gbits_s for _, port in ports[:1]),
        "nvlink_management": managed,
        "network_ports_up": sum(port.state == "Active" for _, port in network),
        "network_ports_down": sorted(
            (device.name for device, port in network if port.state == "Down"),
            key=lambda name: int(name.rpartition("_")[2]),
        ),
    }


def _ibv_devinfo(fact: Any) -> Label:
    assert fact.complete
    ports = [port for device in fact.devices for port in device.ports]
    states, active = [port.state for port in ports], [port.active_mtu_bytes for port in ports]
    alone = len(ports) == 1
    return {
        "hcas": len(fact.devices),
        "state": states[0] if alone else states,
        "states": states,
        "active_mtu": active[0] if alone else [str(mtu) for mtu in active],
        "max_mtu": _one(port.max_mtu_bytes for port in ports),
        "link_layer": _one(port.link_layer for port in ports),
    }


def _interface(link: IpLink) -> Some:
    slave, errors = link.bond_slave, link.errors
    return Some(
        {
            "state": link.state,
            "carrier": link.carrier,
            "mtu": link.mtu_bytes,
            "master": link.master,
            "parentdev": link.parentdev,
            "altname": link.altnames[0] if link.altnames else None,
            "vfs": link.vfs,
            "mode": link.bond.mode if link.bond else None,
            "miimon": link.bond.miimon_ms if link.bond else None,
            "mii_status": slave.mii_status if slave else None,
            "ad_partner_oper_port_state": slave.ad_partner_oper_port_state if slave else None,
            **(errors.model_dump() if errors else {}),
        }
    )


def _ip_link(fact: Any) -> Label:
    return {
        "interfaces": {link.name: _interface(link) for link in fact.links},
        "complete": fact.complete,
    }


def _mtu(fact: Any) -> Label:
    data = [link for link in fact.links if link.link_type == "ether" and link.link is None]
    first = fact.links[0]
    return {
        "mtu": first.mtu_bytes,
        "state": first.state,
        "vfs": first.vfs,
        "rdma_nics": len(data),
    }


def _ipmi(fact: Any) -> Label:
    return {
        "sensors": {
            sensor.name: Some(value=sensor.value, unit=sensor.unit, status=sensor.status)
            for sensor in fact.sensors
        }
    }


def _k3s_check(fact: Any) -> Label:
    return {
        "status": fact.status,
        "missing_optional": list(fact.missing("Optional Features")),
        "complete": fact.complete,
    }


def _containerd(fact: Any) -> Label:
    return {
        "config_version": fact.config_version,
        "runtimes": {
            runtime.name: {"binary": runtime.binary, "systemd_cgroup": runtime.systemd_cgroup}
            for runtime in fact.runtimes
        },
        "default_runtime": fact.default_runtime,
        "complete": fact.complete,
        "rendered": fact.rendered,
    }


def _k8s_daemonsets(fact: Any) -> Label:
    return {
        "daemonsets": len(fact.daemonsets),
        "not_ready": [item.name for item in fact.daemonsets if item.ready != item.desired],
    }


def _k8s_node(fact: Any) -> Label:
    return {
        "labels": fact.labels,
        "gpu_count": fact.gpu_count,
        "product": fact.labels.get("nvidia.com/gpu.product"),
        "mig": fact.labels.get("nvidia.com/mig.config"),
        "driver_deploy": fact.labels.get("nvidia.com/gpu.deploy.driver"),
        "capacity": fact.gpu_capacity,
        "allocatable": fact.gpu_allocatable,
        "conditions": fact.conditions,
        "ready": fact.conditions.get("Ready"),
    }


def _k8s_pods(fact: Any) -> Label:
    others: dict[tuple[str, str], int] = {}
    for pod in fact.pods:
        if pod.status != "Running":
            key = (pod.name.rpartition("-")[0], pod.status)
            others[key] = others.get(key, 0) + 1
    return {
        "pods": len(fact.pods),
        "not_running": [f"{name} ({n}, {status})" for (name, status), n in others.items()],
    }


def _k8s_resourceslice(fact: Any) -> Label:
    return {
        "slices": {item.name: len(item.devices) for item in fact.slices},
        "gpus_per_node": fact.gpus(),
        "driver": _one(
            device.nvidia_driver
            for item in fact.slices
            for device in item.devices
            if device.type == "gpu"
        ),
    }


def _lldp(fact: Any) -> Label:
    return {
        "format": fact.format,
        "neighbours": [
            {
                "iface": item.interface,
                "switch": item.system_name,
                "port": item.port_id,
                "port_id_type": item.port_id_type,
            }
            for item in fact.neighbours
        ],
    }


def _kind(device: PciDevice) -> str:
    if device.class_name == "Bridge" and device.name.startswith("NVIDIA"):
        return "nvswitch"
    if device.class_name == "3D controller" and device.name.startswith("NVIDIA"):
        return "gpu"
    if device.class_name in ("Ethernet controller", "Infiniband controller"):
        return "nic"
    return "bridge" if device.class_name == "PCI bridge" else device.class_name


def _width(speed: float | None, width: int | None) -> str | None:
    return None if speed is None else f"{speed:g}GT/s x{width}"


def _degraded(device: PciDevice) -> bool:
    return (device.link_sta_gt_s, device.link_sta_width) != (
        device.link_cap_gt_s,
        device.link_cap_width,
    )


def _lspci(fact: Any) -> Label:
    if isinstance(fact, KernelLog):
        (note,) = fact.notes
        return {"available_gbps": note.available_gbits_s, "capable_gbps": note.capable_gbits_s}
    by: dict[str, list[PciDevice]] = {}
    for device in fact.devices:
        by.setdefault(_kind(device), []).append(device)
    gpus, switches, nics = by.get("gpu", []), by.get("nvswitch", []), by.get("nic", [])
    # What the sample is about: its only device, or the NVSwitches where it lists several.
    (about,) = fact.devices if len(fact.devices) == 1 else (switches[:1] or gpus[:1] or nics[:1])
    same = fact.devices if len(fact.devices) == 1 else switches or gpus
    linked = {
        kind: sum(_degraded(device) for device in by.get(kind, []) if device.link_line)
        for kind in ("gpu", "nic", "nvswitch", "bridge")
    }
    return {
        "device": about.bus_id.removeprefix("0000:"),
        "class": _kind(about),
        "lnkcap": _width(about.link_cap_gt_s, about.link_cap_width),
        "lnksta": _width(about.link_sta_gt_s, about.link_sta_width),
        "degraded": _degraded(about),
        "driver": _one(device.driver for device in same),
        "access_denied": all(device.access_denied for device in same),
        "acsctl": None if about.acs is None else list(about.acs),
        "acs_enabled": None if about.acs is None else bool(about.acs),
        "max_payload": about.max_payload_bytes,
        "gpus": len(gpus),
        "nvswitches": len(switches),
        "gpu_id": _one(device.vendor_device for device in gpus),
        "nvswitch_id": _one(device.vendor_device for device in switches),
        "cx7": sum("ConnectX-7" in device.name for device in nics),
        "cx6dx_functions": sum("ConnectX-6 Dx" in device.name for device in nics),
        "ib_vfs": sum(
            device.class_name == "Infiniband controller" and "Virtual Function" in device.name
            for device in nics
        ),
        "gpu_degraded": linked["gpu"],
        "nic_degraded": linked["nic"],
        "nvswitch_degraded": linked["nvswitch"],
        "bridges_downgraded": linked["bridge"],
        "acs_on_ports": sum(bool(device.acs) for device in fact.devices),
    }


def _per_gpu(fact: Any, name: str) -> object:
    rows = fact.named(name)
    if any("gpu" in row.labels for row in rows):
        return {row.labels["gpu"]: row.value for row in rows}
    return rows[0].value


def _metrics(fact: Any) -> Label:
    names = list(dict.fromkeys(sample.name for sample in fact.samples))
    server = "vllm" if any(name.startswith("vllm:") for name in names) else "dcgm-exporter"
    mig: dict[str, list[str]] = {}
    for sample in fact.named("DCGM_FI_DEV_POWER_USAGE"):
        if profile := sample.labels.get("GPU_I_PROFILE"):
            mig.setdefault(sample.labels["gpu"], []).append(profile)
    models = {s.labels["model_name"] for s in fact.samples if "model_name" in s.labels}
    return {
        "format": fact.form,
        "server": server,
        "model": _one(models),
        "families": len(fact.types),
        "gpus": len(fact.gpus()),
        "gpus_per_node": len(fact.gpus()),
        "results": len(fact.samples),
        "driver": fact.samples[0].labels.get("DCGM_FI_DRIVER_VERSION"),
        "values": Some({name: _per_gpu(fact, name) for name in names}),
        "rows": Some({name: len(fact.named(name)) for name in names}),
        "mig": mig,
        "request_success": {
            sample.labels["finished_reason"]: str(sample.value)
            for sample in fact.named("vllm:request_success_total")
        },
        "complete": fact.complete,
    }


def _mlnx_qos(fact: Any) -> Label:
    return {
        "trust": fact.trust,
        "dcbx": fact.dcbx_mode,
        "pfc_enabled": None if fact.pfc_enabled is None else list(fact.pfc_enabled),
        "pfc": None if fact.pfc is None else [int(on) for on in fact.pfc],
        "buffers": list(fact.buffers_bytes or ()),
        "cable_len": fact.cable_len_m,
        "tc_bw": {
            str(item.tc): item.bw_percent
            for item in fact.traffic_classes
            if item.bw_percent is not None
        },
        "complete": fact.complete,
    }


def _mokutil(fact: Any) -> Label:
    return {
        "secure_boot": fact.enabled,
        "setup_mode": fact.setup_mode,
        "shim_validation": fact.shim_validation,
    }


def _rdma(fact: Any) -> Label:
    if isinstance(fact, RdmaDevs):
        return {"devices": [device.device for device in fact.devices]}
    return {
        "devices": {
            link.device: {
                "state": link.state,
                "phys": link.physical_state,
                "netdev": link.netdev,
            }
            for link in fact.links
        }
    }


def _redfish(fact: Any) -> Label:
    readings = {reading.name: reading.value for reading in fact.readings}
    sensor = next(iter(fact.readings), None)
    enabled = [r for r in (*fact.temperatures, *fact.fans) if r.state == "Enabled"]
    return {
        "resource": fact.resource,
        "temperatures": len(fact.temperatures),
        "gpu_temps": {t.name: t.value for t in fact.temperatures if t.name.startswith("GPU")},
        "absent": sum(t.state == "Absent" for t in fact.temperatures),
        "fans": len(fact.fans),
        "fans_absent": sum(fan.state == "Absent" for fan in fact.fans),
        "health_not_ok": [r.name for r in enabled if r.health != "OK"],
        "model": fact.model,
        "firmware": fact.firmware,
        "pcie": fact.pcie_gen,
        "health": fact.health,
        "state": fact.state,
        "processor_type": fact.processor_type,
        "enabled": fact.enabled,
        "pci_bus_dec": fact.pci_bus,
        "pci_bus_hex": None if fact.pci_bus is None else f"{fact.pci_bus:x}",
        "gpus": len(fact.gpu_sensors),
        "sensors": {
            s.id: {
                "gpu_c": s.gpu_c, "mem_c": s.memory_c, "power_w": s.power_w, "cap_w": s.power_cap_w,
                "supply": s.supply, "brake": s.brake, "thermal": s.thermal_alert,
            }
            for s in fact.gpu_sensors
        },
        "temp_c": readings.get("TemperatureCelsius"),
        "power_w": readings.get("ConsumedPowerWatt"),
        "clock_mhz": readings.get("OperatingSpeedMHz"),
        "pcie_gen": fact.pcie_gen,
        "pcie_gen_max": fact.pcie_gen_max,
        "pcie_correctable": fact.pcie_correctable,
        "throttle": list(fact.throttle),
        "implausible": list(fact.implausible),
        "gpu": fact.related[0].rpartition("/")[2] if fact.related else None,
        "reading": sensor.value if sensor else None,
        "unit": sensor.unit if sensor else None,
    }  # fmt: skip


def _runtimeclass(fact: Any) -> Label:
    return {"classes": fact.handlers}


def _signing(fact: Any) -> Label:
    return {"tool": fact.tool, "ok": fact.ok, "cause": fact.cause}


def _active(fact: Any, layer: str) -> int:
    ports = [port for device in fact.devices for port in device.ports]
    return sum(port.state == "ACTIVE" and port.link_layer == layer for port in ports)


def _sysfs_ib(fact: Any) -> Label:
    ports = {device.name: device.ports[0] for device in fact.devices if device.ports}
    return {
        "devices": {
            device.name: {
                "fw_ver": device.firmware,
                "hca_type": device.type,
                "link_layer": port.link_layer,
                "rate": f"{port.rate_gbits_s:g} Gb/sec ({port.width})",
                "state": f"4: {port.state}" if port.state == "ACTIVE" else port.state,
            }
            for device in fact.devices
            if (port := ports.get(device.name)) is not None and port.rate_gbits_s is not None
        },
        "link_downed": {
            name: count
            for name, port in ports.items()
            if (count := port.counters.get("link_downed"))
        },
        "ib_ports_active": _active(fact, "InfiniBand"),
        "eth_ports_active": _active(fact, "Ethernet"),
        "gids": {
            str(gid.index): {
                "gid": gid.gid,
                "type": {"v1": "IB/RoCE v1", "v2": "RoCE v2"}.get(gid.version or ""),
                "ndev": gid.ndev,
            }
            for gid in fact.gids
        },
        "empty": [str(index) for index in fact.empty_gids],
        "ipv4_rocev2_index": _ipv4_index(fact),
    }


def _virt(fact: Any) -> Label:
    return {"virtual": fact.virtual, "type": fact.kind}


def _vllm_bench(fact: Any) -> Label:
    ttft, tpot = fact.latencies.get("ttft"), fact.latencies.get("tpot")
    return {
        "successful": fact.successful,
        "failed": fact.failed,
        "req_s": fact.requests_per_s,
        "out_tok_s": fact.output_tokens_per_s,
        "total_tok_s": fact.total_tokens_per_s,
        "goodput": fact.goodput_requests_per_s,
        "p99_ttft_ms": ttft.percentiles.get("99") if ttft else None,
        "p99_tpot_ms": tpot.percentiles.get("99") if tpot else None,
        "mean_tpot_ms": tpot.mean_ms if tpot else None,
    }


READERS: dict[str, Callable[[Fact], Label]] = {
    "apt_hold": _apt_hold,
    "apt_policy": _apt_policy,
    "cdi": _cdi,
    "crictl_info": _crictl,
    "dcb": _dcb,
    "dev_nodes": _dev_nodes,
    "dkms": _dkms,
    "dmi": _dmi,
    "docker_info": _docker,
    "dpkg": _dpkg,
    "ethtool": _ethtool,
    "gids": _gids,
    "ib_write_bw": _ib_write_bw,
    "ibdev2netdev": _ibdev2netdev,
    "ibstat": _ibstat,
    "ibstatus": _ibstat,
    "ibv_devinfo": _ibv_devinfo,
    "ip_link": _ip_link,
    "ipmi_sdr": _ipmi,
    "k3s_check_config": _k3s_check,
    "k3s_containerd": _containerd,
    "k8s_daemonsets": _k8s_daemonsets,
    "k8s_node": _k8s_node,
    "k8s_pods": _k8s_pods,
    "k8s_resourceslice": _k8s_resourceslice,
    "lldp": _lldp,
    "lspci": _lspci,
    "metrics": _metrics,
    "mlnx_qos": _mlnx_qos,
    "mokutil": _mokutil,
    "mtu": _mtu,
    "rdma": _rdma,
    "rdma_dev": _rdma,
    "redfish": _redfish,
    "runtimeclass": _runtimeclass,
    "show_gids": _gids,
    "signing": _signing,
    "sysfs_ib": _sysfs_ib,
    "systemd_detect_virt": _virt,
    "vllm_bench": _vllm_bench,
}

#: Keys that judge, explain or tell where the text was taken: not in the text.
PROSE: dict[str, set[str]] = {kind: {"verdict", "note", "notable"} for kind in READERS}
PROSE["ibstat"] |= {"active_note"}
PROSE["ipmi_sdr"] |= {"complete"}  # the tool prints neither a count nor an end
PROSE["lspci"] |= {"where", "virtual"}

#: file -> key -> why the label is not what the text says.
WRONG_LABELS: dict[str, dict[str, str]] = {
    "nodes/n06_h100_k8s_healthy/resourceslices.yaml": {
        "gpus_per_node": "one number for two nodes; rs01, the same text, has it by node",
    },
    "other/dpkg/dp01_535_ii_595_rc.txt": {
        "leftover_rc": "nine rows are rc: eight of 595 and one of an older GRID driver",
    },
    "other/metrics/met04_dcgm_a800_mig.txt": {
        "complete": "two whole families; that the exporter had more is known from the source only",
    },
}
