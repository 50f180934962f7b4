"""`lspci`: labels of whole nodes and single devices, header forms, link lines."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.lspci import parse_pci_devices

LSPCI = [s for s in of_kind("lspci") if not s.name.startswith("lsp06")]
SINGLE = [s for s in LSPCI if "device" in s.label]
COUNTED = [s for s in LSPCI if "gpus" in s.label or "nvswitches" in s.label]


@pytest.mark.parametrize("sample", LSPCI, ids=lambda s: s.file)
def test_reads(sample: Sample) -> None:
    devices = parse_pci_devices(sample.text).devices
    lines = sample.text.split("\n")
    for device in devices:
        assert device.name in lines[device.line - 1]
        assert device.bus_id.endswith(lines[device.line - 1].split(" ")[0].lower())
        assert device.bus_id.count(":") == 2


@pytest.mark.parametrize("sample", SINGLE, ids=lambda s: s.file)
def test_single_device(sample: Sample) -> None:
    label, (device,) = sample.label, parse_pci_devices(sample.text).devices
    assert device.bus_id == "0000:" + label["device"]
    for key, speed, width in (
        ("lnkcap", device.link_cap_gt_s, device.link_cap_width),
        ("lnksta", device.link_sta_gt_s, device.link_sta_width),
    ):
        if key in label:
            assert f"{speed:g}GT/s x{width}" == label[key]
    if "driver" in label:
        assert device.driver == label["driver"]
    assert "LnkSta:" in sample.text.split("\n")[(device.link_line or 0) - 1]
    assert device.device_class is None


@pytest.mark.parametrize("sample", COUNTED, ids=lambda s: s.file)
def test_counts(sample: Sample) -> None:
    devices = parse_pci_devices(sample.text).devices
    nvidia = [d for d in devices if d.name.startswith("NVIDIA")]
    if "gpus" in sample.label:
        assert len([d for d in nvidia if d.class_name == "3D controller"]) == sample.label["gpus"]
    if "nvswitches" in sample.label:
        assert len([d for d in nvidia if d.class_name == "Bridge"]) == sample.label["nvswitches"]
    if "gpu_id" in sample.label:
        ids = {d.vendor_device for d in nvidia}
        assert ids == {sample.label["gpu_id"], sample.label["nvswitch_id"]}


def test_whole_node() -> None:
    listed = parse_pci_devices(text_of("lsp11"))
    degraded = [
        d
        for d in listed.devices
        if d.class_name == "PCI bridge"
        and (d.link_sta_gt_s, d.link_sta_width) != (d.link_cap_gt_s, d.link_cap_width)
    ]
    assert listed.detailed
    assert len(degraded) == 10


def test_prompt_and_idle_link() -> None:
    (device,) = parse_pci_devices(text_of("lsp03")).devices
    assert (device.line, device.link_cap_gt_s, device.link_sta_gt_s) == (3, 16.0, 2.5)
    assert device.link_sta_width == 16
    (raid,) = parse_pci_devices(text_of("lsp05")).devices
    assert (raid.link_cap_width, raid.link_sta_width) == (2, 1)


def test_without_root() -> None:
    listed = parse_pci_devices(text_of("lsp15"))
    assert not listed.detailed
    bridge, switch, _ = listed.devices
    assert (bridge.access_denied, switch.access_denied) == (True, True)
    assert (bridge.driver, switch.driver, switch.link_sta_gt_s) == ("pcieport", None, None)
    assert (switch.device_class, switch.vendor_device) == ("0680", "10de:22a3")
    assert switch.name == "NVIDIA Corporation GH100 [H100 NVSwitch]"


def test_long_domains() -> None:
    (device,) = parse_pci_devices(
        "10000:E1:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)"
        " (prog-if 00 [Normal decode])\n"
        "\tLnkCap:\tPort #0, Speed unknown, Width x0, ASPM L1\n"
        "\tLnkSta:\tSpeed 8GT/s, Width x16, TrErr- Train-\n"
    ).devices
    assert device.bus_id == "10000:e1:00.0"
    assert (device.link_cap_gt_s, device.link_cap_width) == (None, 0)
    assert (device.link_sta_gt_s, device.link_sta_width) == (8.0, 16)
    assert (device.name, device.vendor_device) == ("NVIDIA Corporation Device", "10de:2330")


H100 = text_of("lsp01")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: lspci: command not found\n",
        "\tLnkSta:\tSpeed 8GT/s, Width x16\n",
        H100 + H100,
        H100 + "something else\n",
        H100.replace("LnkSta:\tSpeed 32GT/s", "LnkSta:\tSpeed fast"),
        H100.replace("Width x16 (ok)", "Wid"),
        "19:00.0 0302: 10de:2330 (rev a1)\n",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_pci_devices(text)
