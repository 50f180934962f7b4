"""Fabric blocks of `nvidia-smi -q`, whole or excerpt. What no sample shows is derived from one."""

from __future__ import annotations

import pytest
from corpus import SAMPLES, Sample, of_kind, text_of

from fabric_tools.models.facts import GpuInventory
from fabric_tools.models.smi import FabricStates
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dispatch import parse_smi_q
from fabric_tools.parsers.smi_fabric import parse_fabric_states

EXCERPTS = [sample for sample in of_kind("smi_q") if sample.label.get("gpus") is None]
BLOCK = "    Fabric\n        State       : Completed\n        Status      : Success\n"


@pytest.mark.parametrize("sample", EXCERPTS, ids=lambda sample: sample.name)
def test_an_excerpt_gives_its_blocks(sample: Sample) -> None:
    states = parse_smi_q(sample.text)
    assert isinstance(states, FabricStates)
    assert not states.complete
    assert all(block.gpu is None for block in states.blocks)
    lines = sample.text.split("\n")
    assert [lines[block.line - 1].strip() for block in states.blocks] == ["Fabric"] * len(
        states.blocks
    )


def test_the_guid_is_no_block() -> None:
    states = parse_fabric_states(text_of("sq17"))
    assert len(states.blocks) == 3
    with pytest.raises(ParseError, match="Fabric block"):
        parse_smi_q("        GPU Fabric GUID          : N/A\n    Inforom Version\n")


def test_health_is_read() -> None:
    fabric = parse_fabric_states(text_of("sq15")).blocks[0].fabric
    assert fabric.health == {"summary": "Unhealthy", "bandwidth": "Full"}
    assert fabric.clique_id == "2"
    assert parse_fabric_states(text_of("sq14")).blocks[0].fabric.health == {}


@pytest.mark.parametrize("name", ["sq09", "sq10", "sq11", "sq12"])
def test_a_whole_text_is_complete(name: str) -> None:
    text = text_of(name)
    whole, states = parse_smi_q(text), parse_fabric_states(text)
    assert isinstance(whole, GpuInventory)
    assert states.complete
    assert [b.gpu for b in states.blocks] == [gpu.index for gpu in whole.gpus]
    assert [b.fabric for b in states.blocks] == [gpu.fabric for gpu in whole.gpus]
    assert all("abric" in text.split("\n")[block.line - 1] for block in states.blocks)


@pytest.mark.parametrize("name", ["sq05", "sq07", "sq16"])
def test_a_whole_text_without_the_block_is_refused(name: str) -> None:
    with pytest.raises(ParseError, match="no GPU has a Fabric block"):
        parse_fabric_states(text_of(name))


def test_a_cut_or_partial_text_is_not_complete() -> None:
    text = text_of("sq09")
    at = text.rindex("        Health\n")
    assert not parse_fabric_states(text[:at]).complete
    # One GPU of eight is what `-q -i 0` prints.
    one = text[: text.index("\nGPU 00000000:2A")] + "\n"
    states = parse_fabric_states(one)
    assert (len(states.blocks), states.complete) == (1, False)


DERIVED = {
    "crlf": BLOCK.replace("\n", "\r\n"),
    "colours": BLOCK.replace("Fabric", "\x1b[01;31m\x1b[KFabric\x1b[m\x1b[K"),
    "prompt": "root@h1:~# nvidia-smi -q | grep -A2 Fabric\n" + BLOCK + "root@h1:~# nvidia-smi \n",
    "grep -n": "".join(
        f"{n}{'-' if n > 221 else ':'}{line}\n" for n, line in enumerate(BLOCK.splitlines(), 221)
    ),
    "dedented": "Fabric\n    State       : Completed\n    Status      : Success\n",
    "other lines": "    C2C Mode        : N/A\n" + BLOCK + "    Processes       : None\n",
    "gpu heading": "GPU 00000000:18:00.0\n" + BLOCK,
    "no newline": BLOCK[:-1],
}


@pytest.mark.parametrize("text", DERIVED.values(), ids=DERIVED)
def test_ways_of_saving(text: str) -> None:
    (block,) = parse_fabric_states(text).blocks
    assert (block.fabric.state, block.fabric.status) == ("Completed", "Success")


def test_two_blocks_without_a_separator() -> None:
    states = parse_fabric_states(BLOCK + BLOCK.replace("Completed", "In Progress"))
    assert [block.fabric.state for block in states.blocks] == ["Completed", "In Progress"]


REFUSED = {
    "nothing": "",
    "no state": "    Fabric\n--\n    Fabric\n",
    "cut state": "    Fabric\n        State       : Compl",
    "two states": BLOCK + "        State       : In Progress\n",
    "a log": BLOCK + "Jul 01 10:00:00 h nv-fabricmanager[1]: Successfully configured\n",
    "two columns": BLOCK + "    Processes : None\n",
    "an error": BLOCK + "Failed to initialize NVML: Unknown Error\n",
    "a table": "| Fabric | State |\n",
    "other tool": "Fabric\n  State: Completed\n  Status: Success\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_excerpt_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_smi_q(text)


def test_text_of_another_tool_is_refused() -> None:
    for sample in SAMPLES:
        if sample.kind != "smi_q":
            with pytest.raises(ParseError):
                parse_fabric_states(sample.text)


def test_a_last_line_that_may_be_cut_does_not_count() -> None:
    text = BLOCK + "        CliqueId    : 1"
    assert parse_fabric_states(text).blocks[0].fabric.clique_id is None
