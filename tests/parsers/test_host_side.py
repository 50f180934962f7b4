"""Modules, fabric manager, systemd, host identity."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.fabricmanager import parse_fabricmanager_version
from fabric_tools.parsers.host import parse_dmi_product, parse_kernel_release, parse_os_release
from fabric_tools.parsers.kernel_modules import parse_kernel_modules
from fabric_tools.parsers.nvidia_module import parse_loaded_module
from fabric_tools.parsers.systemd import parse_unit_state


@pytest.mark.parametrize("sample", of_kind("proc_nvidia_version"), ids=lambda s: s.file)
def test_loaded_module(sample: Sample) -> None:
    if sample.label["version"] is None:
        with pytest.raises(ParseError):
            parse_loaded_module(sample.text)
        return
    module = parse_loaded_module(sample.text)
    assert (module.version, module.flavour) == (sample.label["version"], sample.label["flavour"])


def test_cut_module_version_is_refused() -> None:
    text = text_of("pv01")
    assert "580.95.05" in text
    for end in range(text.index("580.95.05"), text.index("580.95.05") + 9):
        with pytest.raises(ParseError):
            parse_loaded_module(text[:end])
    with pytest.raises(ParseError, match="two NVRM"):
        parse_loaded_module(text + text)


PROC = (
    "nvidia_uvm 2076672 4 - Live 0x0000000000000000 (OE)\n"
    "nvidia 11571200 60 nvidia_uvm,nvidia_modeset, Live 0xffffffffc0a00000 (POE)\n"
    "xfs 1 0 - Loading 0x0000000000000000\n"
)
LSMOD = "Module                  Size  Used by\nnvidia              123  2 nvidia_uvm\nxfs   9  0\n"


def test_kernel_modules() -> None:
    assert parse_kernel_modules(PROC).lines == {"nvidia_uvm": 1, "nvidia": 2, "xfs": 3}
    assert parse_kernel_modules(LSMOD).lines == {"nvidia": 2, "xfs": 3}


@pytest.mark.parametrize(
    "text",
    ["", "\n", PROC[:-14], PROC[:60], LSMOD[:-1], PROC + PROC, "cat: /proc/modules: No such file"],
)
def test_kernel_modules_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_kernel_modules(text)


def test_fabricmanager_version() -> None:
    assert parse_fabricmanager_version(text_of("fm15")).version == "610.57.04"
    for text in ("", "bash: nv-fabricmanager: command not found\n", text_of("fm10"), "Fabric"):
        with pytest.raises(ParseError):
            parse_fabricmanager_version(text)
    with pytest.raises(ParseError, match="two different"):
        parse_fabricmanager_version(
            "Fabric Manager version is : 610.57.04\nFabric Manager version is : 610.57.05\n"
        )


FM = of_kind("fabricmanager")
STATUS = [s for s in FM if "Active:" in s.text]
LOGS = [s for s in FM if "Active:" not in s.text]


@pytest.mark.parametrize("sample", STATUS, ids=lambda s: s.file)
def test_unit_status(sample: Sample) -> None:
    state = parse_unit_state(sample.text)
    assert state.unit == "nvidia-fabricmanager.service"
    assert state.active == sample.label["state"]
    assert "Active:" in sample.text.split("\n")[state.line - 1]
    if "result" in sample.label:
        assert state.result == sample.label["result"]


def test_unit_status_words() -> None:
    ok, killed, off = (parse_unit_state(text_of(n)) for n in ("fm03", "fm09", "fm14"))
    assert (ok.load, ok.active, ok.sub, ok.enabled) == ("loaded", "active", "running", "enabled")
    assert (killed.sub, killed.result, killed.enabled) == ("failed", "signal", "enabled")
    assert (off.load, off.sub, off.enabled) == (None, "dead", "disabled")


@pytest.mark.parametrize("sample", LOGS, ids=lambda s: s.file)
def test_log_is_no_unit_state(sample: Sample) -> None:
    with pytest.raises(ParseError):
        parse_unit_state(sample.text)


SHOW = (
    "Result=exit-code\nId=nvidia-fabricmanager.service\nLoadState=loaded\n"
    "ActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\n"
)


def test_unit_show() -> None:
    state = parse_unit_state(SHOW)
    assert (state.active, state.sub, state.result) == ("activating", "auto-restart", "exit-code")
    assert (state.load, state.enabled, state.line) == ("loaded", "enabled", 4)
    missing = parse_unit_state(
        "Id=x.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"
        "UnitFileState=\nResult=success\n"
    )
    assert (missing.load, missing.active, missing.enabled) == ("not-found", "inactive", None)


def test_unit_status_forms() -> None:
    restart = parse_unit_state(
        "* x.service - X\n   Loaded: loaded (/x; static)\n"
        "   Active: activating (auto-restart) (Result: exit-code) since Mon\n"
    )
    assert (restart.active, restart.sub) == ("activating", "auto-restart")
    assert (restart.result, restart.enabled, restart.line) == ("exit-code", "static", 3)
    masked = parse_unit_state(
        "○ x.service\n     Loaded: masked (Reason: Unit x.service is masked.)\n"
        "     Active: inactive (dead)\n"
    )
    assert (masked.load, masked.enabled, masked.active) == ("masked", "masked", "inactive")
    missing = parse_unit_state("Unit nvidia-fabricmanager.service could not be found.\n")
    assert (missing.unit, missing.load) == ("nvidia-fabricmanager.service", "not-found")
    assert missing.active is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "active\n",
        SHOW + SHOW,
        "* x.service - X\n   Active: active (running)\n   Active: failed\n",
        "* x.service - X\n   Active: active (running)\n* x.service - X\n   Active: failed\n",
        SHOW.replace("activating", "activ"),
        SHOW.replace("Id=nvidia-fabricmanager.service\n", ""),
        SHOW.replace("LoadState=loaded", "LoadState=load"),
        "     Active: active (running)\n",
        "● x.service - X\n     Loaded: loaded (/x; enabled)\n",
        "● x.service - X\n     Active: fine\n",
        "Failed to connect to bus: No such file or directory\n",
        "System has not been booted with systemd as init system (PID 1). Can't operate.\n",
    ],
)
def test_unit_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_unit_state(text)


OS = 'PRETTY_NAME="Ubuntu 24.04.2 LTS"\n# note\nID=ubuntu\nVERSION_ID="24.04"\nA_URL=\'x\'\n'


def test_os_release() -> None:
    release = parse_os_release(OS)
    assert (release.id, release.version_id, release.line) == ("ubuntu", "24.04", 3)
    assert release.pretty_name == "Ubuntu 24.04.2 LTS"
    for text in ("", "ID=arch\n", OS.replace('24.04"', "24.04"), "cat: x: No such file\n"):
        with pytest.raises(ParseError):
            parse_os_release(text)


def test_dmi_product() -> None:
    name = parse_dmi_product(text_of("product_name")).product_name
    assert name == "Standard PC (Q35 + ICH9, 2009)"
    for text in ("", "a\nb\n", "cat: x: Permission denied\n", "a\x00b\n"):
        with pytest.raises(ParseError):
            parse_dmi_product(text)


def test_kernel_release() -> None:
    assert parse_kernel_release("6.8.0-71-generic\n").release == "6.8.0-71-generic"
    for text in ("", "Linux node1 6.8.0-71-generic #71-Ubuntu SMP x86_64 GNU/Linux\n", "six\n"):
        with pytest.raises(ParseError):
            parse_kernel_release(text)
