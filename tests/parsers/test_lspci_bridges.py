"""ACSCtl and the buses behind a bridge, in lspci."""

from __future__ import annotations

import pytest

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.lspci import parse_pci_devices
from tests.parsers.corpus import text_of


def test_acs_off_is_not_acs_untold() -> None:
    (port,) = parse_pci_devices(text_of("lsp09")).devices
    assert (port.acs, port.buses) == ((), (0x19, 0x19))
    (nic,) = parse_pci_devices(text_of("lsp08")).devices
    assert (nic.acs, nic.acs_line, nic.buses) == (None, None, None)


def test_acs_on() -> None:
    text = text_of("lsp10")
    (port,) = parse_pci_devices(text).devices
    assert port.acs == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert port.acs_line and "ACSCtl:" in text.split("\n")[port.acs_line - 1]


def test_acs_of_a_whole_node() -> None:
    devices = parse_pci_devices(text_of("lsp11")).devices
    on = [device.bus_id for device in devices if device.acs]
    assert on == ["0000:82:00.0", "0000:82:01.0", "0000:82:02.0", "0000:82:03.0"]
    assert all(device.buses is None for device in devices)


@pytest.mark.parametrize("line", ["\t\tACSCtl:\tSrcValid", "\t\tACSCtl:\tSrcValid? TransBlk-"])
def test_a_cut_acs_line_is_refused(line: str) -> None:
    head = "17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
    with pytest.raises(ParseError):
        parse_pci_devices(head + line + "\n")
