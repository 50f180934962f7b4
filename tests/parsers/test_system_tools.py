"""Packages, modules, firmware, containers, signatures and BMC against their labels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.models.bmc import Redfish
from fabric_tools.models.system import Package
from fabric_tools.parsers.apt_hold import parse_apt_hold
from fabric_tools.parsers.apt_policy import parse_apt_policy
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.cdi import parse_cdi
from fabric_tools.parsers.cuda_error import parse_cuda_error
from fabric_tools.parsers.dev_nodes import parse_dev_nodes
from fabric_tools.parsers.dkms import parse_dkms
from fabric_tools.parsers.docker_info import parse_docker_info
from fabric_tools.parsers.dpkg import parse_dpkg, parse_rpm
from fabric_tools.parsers.ipmi_sdr import parse_ipmi_sdr
from fabric_tools.parsers.modinfo import parse_modinfo
from fabric_tools.parsers.mokutil import parse_mokutil
from fabric_tools.parsers.redfish import parse_redfish
from fabric_tools.parsers.signing import parse_signing
from fabric_tools.parsers.virt import parse_virt


def _same(said: dict[str, Any], label: dict[str, Any]) -> None:
    for key in said.keys() & label.keys():
        assert said[key] == label[key], key


@pytest.mark.parametrize("sample", of_kind("modinfo"), ids=lambda s: s.file)
def test_modinfo(sample: Sample) -> None:
    module = parse_modinfo(sample.text)
    _same(module.model_dump(), sample.label)
    assert module.version in sample.text.split("\n")[module.line - 1]


def _upstream(packages: tuple[Package, ...]) -> str | None:
    versions = {package.upstream for package in packages}
    assert len(versions) <= 1
    return versions.pop() if versions else None


@pytest.mark.parametrize("sample", of_kind("dpkg"), ids=lambda s: s.file)
def test_dpkg(sample: Sample) -> None:
    found = parse_dpkg(sample.text)
    installed = found.installed()
    branches = {m[1] for p in installed if (m := re.search(r"-(\d{3})(?:-|$)", p.name))}
    rest = {p.upstream for p in found.packages if p.state == "rc" and "grid" not in p.name}
    said = {
        "installed_branches": sorted(branches),
        "installed_version": _upstream(installed),
        "installed": _upstream(installed),
        "leftover_rc": sum(p.state == "rc" for p in found.packages),
        "residual": next(iter(rest), None),
        "fabricmanager": _upstream(found.installed("nvidia-fabricmanager")),
        "toolkit": _upstream(found.installed("nvidia-container-toolkit")),
    }
    # Eight rows of 595 and one of an older GRID driver: the label counts the former.
    if sample.label.get("leftover_rc") == 8:
        said["leftover_rc"] = sum(p.state == "rc" and p.upstream in rest for p in found.packages)
    _same(said, sample.label)


def test_dpkg_states() -> None:
    found = parse_dpkg(
        "Desired=Unknown/Install/Remove/Purge/Hold\n"
        "| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend\n"
        "|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)\n"
        "||/ Name           Version      Architecture Description\n"
        "+++-==============-============-============-=================\n"
        "hi  linux-image-a  1:6.8.0-1.2  amd64        Kernel\n"
        "iU  nvidia-b:amd64 580.1-0ubuntu1 amd64      Half\n"
        "un  nvidia-c       <none>       <none>       (no description available)\n"
        "iHR nvidia-d       580.1-1      amd64        Bad\n"
        "dpkg-query: no packages found matching nvidia-fabricmanager*\n"
    )
    held, half, gone, bad = found.packages
    assert (held.held, held.installed, held.upstream) == (True, True, "6.8.0")
    assert (half.installed, half.state, half.upstream) == (False, "iU", "580.1")
    assert (gone.version, gone.installed, bad.installed) == (None, False, False)
    assert found.absent == ("nvidia-fabricmanager*",)
    (plain,) = parse_dpkg("nvidia-utils-580:amd64\t580.1-1\n").packages
    assert (plain.installed, plain.upstream) == (None, "580.1")


def test_dpkg_names_that_were_never_installed() -> None:
    """The output of our own query on a Debian 12: nothing stands where the version would."""
    found = parse_dpkg("un  libgldispatch0-nvidia  \nii  nvidia-b 580.1-1 amd64\npn  c  amd64\n")
    never, there, purged = found.packages
    assert (never.version, never.state, never.installed) == (None, "un", False)
    assert there.installed and (purged.arch, purged.installed) == ("amd64", False)
    for cut in ("ii  nvidia-b  \n", "rc  nvidia-b\n", "iU  nvidia-b  amd64 x y\n"):
        with pytest.raises(ParseError):
            parse_dpkg(cut)


def test_rpm() -> None:
    found = parse_rpm(
        "nvidia-fabricmanager-580.65.06-1.x86_64\npackage nvidia-imex is not installed\n"
    )
    assert (found.packages[0].name, found.packages[0].upstream) == (
        "nvidia-fabricmanager",
        "580.65.06",
    )
    assert found.absent == ("nvidia-imex",)  # fmt: skip


@pytest.mark.parametrize("sample", of_kind("dkms"), ids=lambda s: s.file)
def test_dkms(sample: Sample) -> None:
    modules = parse_dkms(sample.text).modules
    _same({"modules": [[m.name, m.version, m.kernel, m.state] for m in modules]}, sample.label)
    assert modules


def test_dkms_forms() -> None:
    status = parse_dkms(
        "nvidia/580.1: added\n"
        "nvidia/580.1, 6.8.0, x86_64: installed (WARNING! Diff between built and installed)\n"
    )
    assert (status.modules[0].kernel, status.modules[0].state) == (None, "added")
    assert (status.modules[1].note or "").startswith("WARNING!")
    assert parse_dkms("").modules == ()


@pytest.mark.parametrize("sample", of_kind("mokutil"), ids=lambda s: s.file)
def test_mokutil(sample: Sample) -> None:
    state = parse_mokutil(sample.text)
    said = {
        "secure_boot": state.enabled,
        "setup_mode": state.setup_mode,
        "shim_validation": state.shim_validation,
    }
    _same(said, sample.label)


@pytest.mark.parametrize("sample", of_kind("apt_hold"), ids=lambda s: s.file)
def test_apt_hold(sample: Sample) -> None:
    names = parse_apt_hold(sample.text).lines
    said = {
        "held": len(names),
        "driver_held": any(re.match(r"nvidia-headless|linux-modules-nvidia", n) for n in names),
        "fabricmanager_held": any("fabricmanager" in n for n in names),
        "kernel_meta_held": any(n.startswith("linux-image") for n in names),
    }  # fmt: skip
    _same(said, sample.label)


@pytest.mark.parametrize("sample", of_kind("apt_policy"), ids=lambda s: s.file)
def test_apt_policy(sample: Sample) -> None:
    (package,) = parse_apt_policy(sample.text).packages
    _same(package.model_dump(), sample.label)


@pytest.mark.parametrize("sample", of_kind("cdi"), ids=lambda s: s.file)
def test_cdi(sample: Sample) -> None:
    found = parse_cdi(sample.text)
    said = {
        "entries": len(found.lines),
        "gpus": sum(name.isdigit() for name in found.named()),
        "has_all": "all" in found.named(),
    }
    _same(said, sample.label)
    assert found.complete


@pytest.mark.parametrize("sample", of_kind("docker_info"), ids=lambda s: s.file)
def test_docker(sample: Sample) -> None:
    found = parse_docker_info(sample.text)
    _same({"runtimes": list(found.runtimes), "default": found.default}, sample.label)
    as_json = parse_docker_info(
        '{"Runtimes": {"nvidia": {}, "runc": {}}, "DefaultRuntime": "runc"}'
    )
    assert (as_json.runtimes, as_json.default) == (("nvidia", "runc"), "runc")


def test_small_ones() -> None:
    (virt,) = of_kind("systemd_detect_virt")
    found = parse_virt(virt.text)
    assert (found.virtual, found.kind) == (virt.label["virtual"], virt.label["type"])
    assert not parse_virt("none\n").virtual
    (error,) = of_kind("cuda_error")
    assert parse_cuda_error(error.text).code == error.label["cuda_error"]
    assert parse_cuda_error("RuntimeError: CUDA error: out of memory\n").code == 2
    (nodes,) = of_kind("dev_nodes")
    read = parse_dev_nodes(nodes.text)
    assert len(read.gpu_nodes) == nodes.label["gpu_nodes"]
    assert any(n.path == "/dev/nvidiactl" for n in read.nodes) == nodes.label["nvidiactl"]
    assert parse_dev_nodes("/dev/nvidia0\n/dev/nvidia1\n/dev/nvidia-uvm\n").gpu_nodes == (
        *("/dev/nvidia0", "/dev/nvidia1"),
    )


@pytest.mark.parametrize("sample", of_kind("signing"), ids=lambda s: s.file)
def test_signing(sample: Sample) -> None:
    _same(parse_signing(sample.text).model_dump(), sample.label)


def test_signing_forms() -> None:
    checks = "The following checks were performed on each of these signatures:\n"
    good = parse_signing(f"\nVerification for r.io/a:1 --\n{checks}  - The cosign claims\n\n[]\n")
    assert (good.tool, good.ok, good.tlog_skipped) == ("cosign", True, False)
    bad = "Error: no matching signatures: none of the expected identities matched what was in the\n"
    assert parse_signing(bad).cause == "identity"
    assert parse_signing("Verified OK\n").ok


@pytest.mark.parametrize("sample", of_kind("ipmi_sdr"), ids=lambda s: s.file)
def test_ipmi(sample: Sample) -> None:
    for sensor in parse_ipmi_sdr(sample.text).sensors:
        wanted = sample.label["sensors"][sensor.name]
        assert (sensor.value, sensor.status) == (wanted["value"], wanted["status"])
        assert sensor.unit == wanted.get("unit")


def _redfish(fact: Redfish) -> dict[str, Any]:
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


@pytest.mark.parametrize("sample", of_kind("redfish"), ids=lambda s: s.file)
def test_redfish(sample: Sample) -> None:
    fact = parse_redfish(sample.text)
    _same(_redfish(fact), sample.label)
    lines = sample.text.split("\n")
    for reading in (*fact.temperatures, *fact.fans):
        assert reading.name in lines[reading.line - 1]
    assert all(fan.value is None for fan in fact.fans if fan.state == "Absent")


REFUSED = [
    (parse_modinfo, "modinfo: ERROR: Module nvidia not found.\n"),
    (parse_modinfo, text_of("mi01") + text_of("mi01")),
    (parse_modinfo, "filename:       /lib/modules/6/extra/other.ko\nversion:        580.1\n"),
    (parse_modinfo, "version:        unknown\n"),
    (parse_dpkg, ""),
    (parse_dpkg, "dpkg-query: error: something\n"),
    (parse_dpkg, text_of("dp01") + text_of("dp01")),
    (parse_dpkg, "ii  nvidia-driver-580\n"),
    (parse_rpm, "error: cannot open Packages database\n"),
    (parse_dkms, "Error! Could not locate dkms.conf file.\n"),
    (parse_dkms, "nvidia/580.1, 6.8.0, x86_64: instal\n"),
    (parse_mokutil, ""),
    (parse_mokutil, "SecureBoot enabl\n"),
    (parse_mokutil, "SecureBoot enabled\nSecureBoot disabled\n"),
    (parse_mokutil, "Platform is in Setup Mode\n"),
    (parse_apt_hold, "bash: apt-mark: command not found\n"),
    (parse_apt_policy, "a-package:\n  Installed: 1\n"),
    (parse_cdi, ""),
    (parse_cdi, "nvidia.com/gpu=0\nnvidia.com/gpu=0\n"),
    (parse_docker_info, "Cannot connect to the Docker daemon\n"),
    (parse_virt, "kvm\nnone\n"),
    (parse_virt, "bash: systemd-detect-virt: not found\n"),
    (parse_cuda_error, "all is well\n"),
    (parse_cuda_error, "CUDA: Error 801: system not yet initialized\n"),
    (parse_dev_nodes, ""),
    (parse_signing, "Key abc failed to verify targets\n"),
    (parse_signing, "Verification succeeded\nVerification failed with error: x\n"),
    (parse_signing, "Verification for r.io/a:1 --\n"),
    (parse_ipmi_sdr, "TEMP_CPU0 | 46 degrees C | fine\n"),
    (parse_redfish, '{"error": {"message": "Unauthorized"}}'),
    (parse_redfish, '{"Id": "1"}'),
    (parse_redfish, text_of("rf03").replace('odata.count": 8', 'odata.count": 9')),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "text"), REFUSED)
def test_refused(parse: Any, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
