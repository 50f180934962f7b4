"""However a text was saved, it reads the same. All ways are derived from the recorded samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from corpus import Sample, of_kind

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kinds import parser_of
from fabric_tools.parsers.saved import MAX_LINES, bare, bare_lines

KINDS = (
    "topo", "topo_p2p", "nvidia_smi", "smi_q", "smi_query_csv", "smi_gpu_reset", "nvlink", "xid",
    "sxid", "fabricmanager", "dcgmi", "modinfo", "proc_nvidia_version",
)  # fmt: skip
#: Keys that tell where something stands, or repeat a line.
PLACES = {"line_count", "unreadable_lines", "probe", "text"}
#: Samples of one line: a word and a colon before it could be the tool's own.
ONE_LINE = {
    "nvidia_smi_condensed.txt", "dcgm20_health_not_watched.txt", "04_kernel_after_restart.txt",
}  # fmt: skip


def _each(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(prefix + line for line in text.splitlines(keepends=True))


def _around(before: str, after: str = "") -> Callable[[str], str]:
    def wrap(text: str) -> str:
        return before + text + ("" if text.endswith("\n") or not after else "\n") + after

    return wrap


WAYS: dict[str, Callable[[str], str]] = {
    "windows": lambda text: "\ufeff" + text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "colours": _each("\x1b[0m"),
    "prompt": _around("root@gpu-01:~# command --option\n", "root@gpu-01:~# exit\n"),
    "rhel prompt": _around("[user@gpu01 ~]$ command\n", "[user@gpu01 ~]$ \n"),
    "conda": _around("(base) user@gpu01:/data$ command\n"),
    "sudo": _around("sudo: unable to resolve host gpu-01: Name or service not known\n"),
    "ssh": _around(
        "Warning: Permanently added '192.0.2.1' (ED25519) to the list of known hosts.\n",
        "Connection to 192.0.2.1 closed.\n",
    ),
    "kubectl exec": _around('Defaulted container "driver" out of: driver, manager (init)\n'),
    "kubectl logs": _each("[pod/check-abc/main] "),
    "kubectl times": _each("2026-01-02T10:00:00.123456789Z "),
    "script": _around('Script started on 2026-01-02 10:00:00+00:00 [TERM="xterm"]\n',
                      "\nScript done on 2026-01-02 10:01:00+00:00\n"),
    "srun -l": _each("0: "),
    "pdsh": _each("gpu-node-17: "),
    "mpirun 4": _each("[1,0]<stdout>:"),
    "prterun": _each("[prterun-gpu-01-12345@1,0]<stdout>: "),
    "quoted": _each("> "),
    "code block": _around("```text\n", "```\n"),
    "code indent": _each("    "),
    "ansible": _around("gpu01 | CHANGED | rc=0 >>\n"),
    "blank lines": _around("\n\n", "\n\n\n"),
}  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(item) for key, item in value.items()
            if isinstance(key, int) or not (key in PLACES or key == "line" or key == "lines")
        }  # fmt: skip
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _readable() -> list[Sample]:
    found = []
    for sample in of_kind(*KINDS):
        try:
            parser_of(sample.kind)(sample.text)
        except ParseError:
            continue
        found.append(sample)
    return found


SAMPLES = _readable()


@pytest.mark.parametrize("way", WAYS)
def test_the_way_of_saving_changes_nothing(way: str) -> None:
    for sample in SAMPLES:
        if sample.name in ONE_LINE and way in ("pdsh", "srun -l", "quoted"):
            continue
        parse = parser_of(sample.kind)
        plain = _plain(parse(sample.text).model_dump())
        assert _plain(parse(WAYS[way](sample.text)).model_dump()) == plain, sample.file


def test_lines_keep_their_numbers() -> None:
    assert bare_lines("x", "root@h:~# cmd\nh1: a\nh1:\nh1: b\n") == ["", "a", "", "b", ""]


def test_two_hosts_are_not_one() -> None:
    text = "gpu1: a\ngpu2: a\n"
    assert bare(text) == text
    (sample,) = (s for s in SAMPLES if s.name.startswith("t64"))
    lines = sample.text.splitlines(keepends=True)
    mixed = "".join(f"gpu{1 + n % 2}: {line}" for n, line in enumerate(lines))
    with pytest.raises(ParseError):
        parser_of("topo")(mixed)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: a\nNVRM: b\n",
        "kernel: a\nkernel: b\n",
        "version:        1.2\n",
        "Error: a\nError: b\n",
    ],
)
def test_a_word_of_the_tool_is_no_prefix(text: str) -> None:
    assert bare(text) == text


def test_a_failed_command_is_not_taken_off() -> None:
    text = "gpu01 | FAILED | rc=255 >>\nFailed to connect\n"
    assert bare(text) == text


@pytest.mark.parametrize(
    "unit", ["\n", "a\n", "h1: a\n", "> a\n", "    a\n", "[1,0]<stdout>:a\n", "a@"]
)
def test_ten_megabytes(unit: str) -> None:
    start = time.monotonic()
    bare(unit * (10 * 2**20 // len(unit)))
    assert time.monotonic() - start < 2.0
    with pytest.raises(ParseError, match="lines"):
        bare_lines("x", "\n" * MAX_LINES)
