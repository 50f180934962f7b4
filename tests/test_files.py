"""Bad input: one clear line, exit 2, quickly, and nothing lost. Through the real command."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_runner import HEALTHY, ROOT

LIMIT_S = 2.0


def cli(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    code = "from fabric_tools.cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], input=stdin, capture_output=True,
        check=False, timeout=60,
        cwd=ROOT, env={**os.environ, "COLUMNS": "100", **env},
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """One printable line on stderr that holds ``words``, nothing on stdout, exit 2."""
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert done.stdout == b""
    assert text.count("\n") == 1 and text.rstrip("\n").isprintable(), text
    assert "Traceback" not in text
    for word in words:
        assert word in text, text


def validate(*args: str, **kwargs: object) -> subprocess.CompletedProcess[bytes]:
    """Processor time, not the clock: a busy machine must not fail the test."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = cli("validate", "driver", *args, **kwargs)  # type: ignore[arg-type]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < LIMIT_S
    return done


def test_unknown_phase() -> None:
    refused(cli("validate", "drivre", "--snapshot", str(HEALTHY)), "drivre", "preflight")


def test_no_source_and_two_sources() -> None:
    refused(cli("validate", "driver"), "--snapshot", "--host", "--local")
    refused(cli("validate", "driver", "--local", "--host", "x"), "give one of")


def test_missing_snapshot(tmp_path: Path) -> None:
    refused(validate("--snapshot", str(tmp_path / "none.json")), "none.json", "No such file")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema_version": 1}', "\x00\x01", '{"probes": ' + "[" * 100000,
     '{"schema_version": 2, "kind": "fabric-tools/snapshot"}'],
    ids=["empty", "cut", "list", "fields", "binary", "deep", "version"],
)  # fmt: skip
def test_malformed_snapshot(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    refused(validate("--snapshot", str(path)), "s.json", "not a snapshot")


def test_folder_without_known_names(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    refused(validate("--snapshot", str(tmp_path)), "known by name", "topo.txt")


def test_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as handle:
        handle.truncate(200 * 2**20)
    refused(validate("--snapshot", str(path)), "big.json", "200.0 MiB", "limit is 64 MiB")
    (tmp_path / "node").mkdir()
    path.rename(tmp_path / "node" / "topo.txt")
    refused(validate("--snapshot", str(tmp_path / "node")), "topo.txt", "limit is 1 MiB")
    refused(cli("parse", "topo", str(tmp_path / "node" / "topo.txt")), "limit is 16 MiB")


def test_huge_standard_input() -> None:
    refused(validate("--snapshot", "-", stdin=b" " * (65 * 2**20)), "more than 64 MiB")


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(validate("--snapshot", str(tmp_path / "fifo")), "not a regular file")
    refused(validate("--snapshot", "/dev/zero"), "not a regular file")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, ("aliases", "vars.yaml:2")),
        ("[" * 5000, ("vars.yaml:1",)),
        ("platform: !!python/object/apply:os.system ['true']", ("vars.yaml:1",)),
        ("platform: a\nplatform: b\n", ("twice", "vars.yaml:2")),
        ("platfrom: dgx-h100\n", ("platfrom", "not permitted")),
        ("platform: [", ("vars.yaml",)),
        ("\x00", ("vars.yaml",)),
        ("platform: no-such\n", ("no platform 'no-such'", "dgx-h100")),
        ("waivers: [{check: no.such, reason: r, owner: o, expires: 2030-01-01T00:00:00Z}]\n",
         ("no check 'no.such'",)),
    ],
    ids=["bomb", "deep", "tag", "duplicate", "typo", "cut", "nul", "platform", "waiver"],
)  # fmt: skip
def test_bad_host_vars(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "vars.yaml"
    path.write_text(text)
    refused(validate("--snapshot", str(HEALTHY), "--host-vars", str(path)), *words)


def test_bad_platform_file(tmp_path: Path) -> None:
    text = (ROOT / "fabric_tools/platforms/dgx-h100.yaml").read_text()
    (tmp_path / "p.yaml").write_text(text)
    refused(cli("platforms", "--platforms-dir", str(tmp_path)), "p.yaml", "defined twice")
    (tmp_path / "p.yaml").write_text(
        text.replace("id: dgx-h100", "id: x").replace("value: 8", "v: 8")
    )
    refused(cli("platforms", "--platforms-dir", str(tmp_path)), "p.yaml", "gpu.count")


def test_usage_errors_of_the_command_line() -> None:
    refused(cli("nonsense"), "nonsense")
    refused(cli("validate", "driver", "--format", "pdf", "--snapshot", "x"), "pdf")
    refused(cli("explain", "nvlink.mesh"), "nvlink.mesh", "did you mean")
    refused(cli("parse", "topology", "x"), "topology", "nvlink")
    refused(cli("platforms", "dgx"), "dgx-h100")
    refused(validate("--snapshot", str(HEALTHY), "--as-of", "soon"), "soon", "2026-11-30T")
    refused(validate("--snapshot", str(HEALTHY), "--break-glass", "gpu.count"), "--reason")
    refused(cli("collect"), "--host or --local")
    refused(cli("collect", "--host", "a b"), "not a host")
    refused(cli("collect", "--host", "-oProxyCommand=x"), "not a host")


def test_an_internal_error_is_70(tmp_path: Path) -> None:
    code = (
        "import fabric_tools.checks.host as h, fabric_tools.checks as c, dataclasses\n"
        "def boom(**_): raise ZeroDivisionError('boom\\x1b[2J')\n"
        "first = dataclasses.replace(c.CHECKS[0], run=boom)\n"
        "c.CHECKS = (first, *c.CHECKS[1:])\n"
        "from fabric_tools.cli.main import run; run()"
    )
    args = ["validate", "preflight", "--snapshot", str(HEALTHY)]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, cwd=ROOT)
    assert done.returncode == 70
    assert b"host.platform raised ZeroDivisionError" in done.stderr
    assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1


def test_a_failed_write_loses_nothing(tmp_path: Path) -> None:
    target = tmp_path / "dir" / "c.pyz"
    refused(cli("collect", "--save-collector", str(target)), "cannot write")
    good = tmp_path / "c.pyz"
    assert cli("collect", "--save-collector", str(good)).returncode == 0
    before = good.read_bytes()
    assert cli("collect", "--save-collector", str(good)).returncode == 0
    assert good.read_bytes() == before
    assert good.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["c.pyz"]


def test_a_misnamed_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_bytes((HEALTHY / "topo.txt").read_bytes())
    (tmp_path / "nvlinks.txt").write_text("x")
    done = validate("--snapshot", str(tmp_path), "--platform", "dgx-h100")
    assert b"name not known: nvlinks.txt" in done.stderr
    assert done.returncode == 3


def test_snapshot_from_standard_input_and_file_are_judged_alike(tmp_path: Path) -> None:
    from fabric_tools.transport.files import read_snapshot

    text = read_snapshot(HEALTHY).model_dump_json().encode()
    path = tmp_path / "s.json"
    path.write_bytes(text)
    args = ("--format", "json", "--as-of", "2026-11-30T12:00:00Z", "--name", "n")
    first = validate("--snapshot", str(path), *args)
    again = validate("--snapshot", "-", *args, stdin=text)
    assert first.returncode == again.returncode == 0
    assert first.stdout == again.stdout
    assert json.loads(first.stdout)["exit_code"] == 0
