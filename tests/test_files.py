"""Bad input: one clear line, exit 2, quickly, and nothing lost. Through the real command."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fabric_tools.transport.files import known_names
from tests.cases_runner import CORPUS, HEALTHY, ROOT

#: Each starts the command as a process.
pytestmark = pytest.mark.cli

LIMIT_S = 2.0
T40 = "topo/t40_b200_8_gpu2_off_nvlink.txt"


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
    refused(validate("--snapshot", str(path)), "big.json", "200.0 MiB", "limit is 64.0 MiB")
    (tmp_path / "node").mkdir()
    path.rename(tmp_path / "node" / "topo.txt")
    refused(validate("--snapshot", str(tmp_path / "node")), "topo.txt", "limit is 1.0 MiB")
    refused(cli("parse", "topo", str(tmp_path / "node" / "topo.txt")), "limit is 16.0 MiB")


def test_huge_standard_input() -> None:
    refused(validate("--snapshot", "-", stdin=b" " * (65 * 2**20)), "more than 64 MiB")


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(validate("--snapshot", str(tmp_path / "fifo")), "not a regular file")
    refused(validate("--snapshot", "/dev/zero"), "not a regular file")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


RAILS = (
    "rails:\n"
    "  - {{name: a, rdma_device: mlx5_0, netdev: eth0, address: 10.0.0.1/24, "
    "subnet: 10.0.0.0/24}}\n"
    "  - {{name: b, rdma_device: {}, netdev: {}, address: {}, subnet: 10.1.0.0/24}}\n"
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
        (RAILS.format("mlx5_0", "eth1", "10.1.0.1/24"), ("rdma_device mlx5_0 is declared twice",)),
        (RAILS.format("mlx5_1", "eth0", "10.1.0.1/24"), ("netdev eth0 is declared twice",)),
        (RAILS.format("mlx5_1", "eth1", "10.0.0.1/16"), ("address 10.0.0.1 is declared twice",)),
        (RAILS.format("mlx5_1", "eth1", "10.1.0.1/24") + "profile: {fabric: none}\n",
         ("profile.fabric is none",)),
        ("waivers: [{check: no.such, reason: r, owner: o, expires: 2030-01-01T00:00:00Z}]\n",
         ("no check 'no.such'",)),
    ],
    ids=["bomb", "deep", "tag", "duplicate", "typo", "cut", "nul", "platform", "one device",
         "one netdev", "one address", "rails of no fabric", "waiver"],
)  # fmt: skip
def test_bad_host_vars(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "vars.yaml"
    path.write_text(text)
    refused(validate("--snapshot", str(HEALTHY), "--host-vars", str(path)), *words)


def test_a_large_yaml_file_at_the_limit_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "vars.yaml"
    path.write_text("".join(f"k{number}: 1\n" for number in range(7000))[: 64 * 1024 - 10])
    refused(validate("--snapshot", str(HEALTHY), "--host-vars", str(path)), "vars.yaml")
    path.write_text("".join(f"k{number}: 1\n" for number in range(60000)))
    refused(validate("--snapshot", str(HEALTHY), "--host-vars", str(path)), "limit is 64 KiB")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia_smi_q.xml", "<nvidia_smi_log>" + "<gpu id='x'>\n</gpu>" * 50000),
        ("lspci.txt", "00:00.0 VGA: x" + " (rev a1)" * 60000),
        ("topo.txt", "\t".join(["", *(f"GPU{n}" for n in range(60000))])),
        ("kernel_journal.txt", "[ 1.0] " + "nvidia-" * 600000),
        ("dmesg.txt", "[ 1.0] NVRM: Xid \n" * 200000),
    ],
)  # fmt: skip
def test_hostile_outputs_cost_little_and_open_nothing(tmp_path: Path, name: str, text: str) -> None:
    for path in HEALTHY.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text(text)
    done = cli("validate", "driver", "nvlink", "preflight", "--snapshot", str(tmp_path))
    assert done.returncode in (1, 3), done.stderr
    assert b"Traceback" not in done.stderr


def test_two_files_for_one_probe(tmp_path: Path) -> None:
    for path in HEALTHY.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "topo_m.txt").write_text("garbage")
    done = validate("--snapshot", str(tmp_path))
    assert b"topo.txt and topo_m.txt are both nvidia_smi_topo: the worse verdict" in done.stderr
    assert done.returncode == 3
    (tmp_path / "topo_m.txt").unlink()
    (tmp_path / "snapshot.json").write_text("{}")
    refused(validate("--snapshot", str(tmp_path)), "holds snapshot.json and")


@pytest.mark.parametrize("output", ["console", "json", "junit", "markdown"])
def test_a_closed_pipe_is_no_verdict(output: str) -> None:
    args = f"validate driver --format {output} --snapshot {HEALTHY}"
    code = "from fabric_tools.cli.main import run; run()"
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{code}' {args} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    # A reader that leaves late lets it finish: then the verdict was printed whole.
    assert done.stdout.strip() in ("70", "0"), done
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_no_verdict() -> None:
    code = "from fabric_tools.cli.main import run; run()"
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{code}' checks >/dev/full"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 70 and done.stderr.count("\n") == 1


def test_debug_shows_the_traceback_and_keeps_the_code(tmp_path: Path) -> None:
    code = (
        "import fabric_tools.checks.host as h, fabric_tools.checks as c, dataclasses\n"
        "def boom(**_): raise ZeroDivisionError('boom')\n"
        "c.CHECKS = (dataclasses.replace(c.CHECKS[0], run=boom), *c.CHECKS[1:])\n"
        "from fabric_tools.cli.main import run; run()"
    )
    args = ["--debug", "validate", "preflight", "--snapshot", str(HEALTHY)]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, cwd=ROOT)
    assert done.returncode == 70
    assert b"ZeroDivisionError: boom" in done.stderr and b"Traceback" in done.stderr


def test_a_device_is_not_replaced_and_a_link_is_followed(tmp_path: Path) -> None:
    refused(cli("collect", "--save-collector", "/dev/full"), "not a regular file")
    assert not Path("/dev/full").is_file()
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert cli("collect", "--save-collector", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes().startswith(b"#!")


VARS = """\
ansible_user: admin
fabric_host:
  waivers:
    - {check: fabric.manager, host: node7, reason: r, owner: o, expires: "2026-12-24T00:00:00Z"}
    - {check: fabric.state, host: node7, reason: r, owner: o, expires: "2026-12-24T00:00:00Z"}
"""
SICK = HEALTHY.parent / "sick-fabric-manager-dead"


def waived(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    path = tmp_path / "node7.yml"
    path.write_text(VARS)
    return cli("validate", "nvlink", "--snapshot", str(SICK), "--host-vars", str(path), *args)


def test_waivers_hold_for_the_name_the_operator_gives(tmp_path: Path) -> None:
    now = ("--as-of", "2026-12-01T00:00:00Z")
    done = waived(tmp_path, "--name", "node7", *now)
    assert done.returncode == 0, done.stdout.decode()
    assert b"WAIVED" in done.stdout and b"JUDGED AS OF 2026-12-01" in done.stdout
    other = waived(tmp_path, *now)
    assert other.returncode == 1 and b"NOT USED" in other.stdout
    late = waived(tmp_path, "--name", "node7", "--as-of", "2026-12-25T00:00:00Z")
    assert late.returncode == 1 and b"expired on 2026-12-24" in late.stdout


def test_a_name_that_the_node_claims_brings_no_waiver(tmp_path: Path) -> None:
    from fabric_tools.models.snapshot import HostIdentity
    from fabric_tools.transport.files import read_snapshot

    host = HostIdentity(hostname="node7")
    lying = read_snapshot(SICK).model_copy(update={"host": host})
    path = tmp_path / "s.json"
    path.write_text(lying.model_dump_json())
    (tmp_path / "v.yml").write_text(VARS)
    done = cli("validate", "nvlink", "--snapshot", str(path), "--host-vars",
               str(tmp_path / "v.yml"), "--as-of", "2026-12-01T00:00:00Z")  # fmt: skip
    assert done.returncode == 1


def test_break_glass_may_be_repeated(tmp_path: Path) -> None:
    args = ("--break-glass", "fabric.manager", "--break-glass", "fabric.state", "--reason", "x")
    done = cli("validate", "nvlink", "--snapshot", str(SICK), *args)
    assert done.returncode == 0
    assert done.stdout.count(b"break-glass: ") == 2
    refused(validate("--snapshot", str(SICK), "--break-glass", "driver.answers", "--reason", "x"),
            "can never be waived")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("waivers: [{check: gpu.count, reason: r, owner: o, expires: 2030-01-01}]", "expires"),
        ("waivers: [{check: gpu.count, reason: ' ', owner: o, expires: 2030-01-01T00:00:00Z}]",
         "reason"),
        ("waivers: [{check: gpu.count, reason: r, owner: o, expires: 2030-01-01T00:00:00Z,"
         " kind: break_glass}]", "break_glass"),
        ("platform: !!timestamp foo", "YAML"),
    ],
)  # fmt: skip
def test_waivers_that_promise_too_much(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "vars.yaml"
    path.write_text(text)
    refused(validate("--snapshot", str(SICK), "--host-vars", str(path)), words)


def test_times_that_make_no_sense() -> None:
    refused(cli("validate", "driver", "--local", "--as-of", "2020-01-01"), "as of now")
    refused(validate("--snapshot", str(SICK), "--break-glass", "gpu.count", "--reason", "x",
                     "--as-of", "9999-12-31T23:00:00"), "too far")  # fmt: skip


def test_json_is_ascii_whatever_a_node_says(tmp_path: Path) -> None:
    for path in HEALTHY.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "dmi_product.txt").write_text("DGX\u202eH100\u009b2J\n")
    done = cli("validate", "preflight", "--format", "json", "--snapshot", str(tmp_path))
    assert done.stdout.isascii() and b"\x1b" not in done.stdout


def test_a_platform_file_cannot_switch_a_check_off_with_nan(tmp_path: Path) -> None:
    text = (ROOT / "fabric_tools/platforms/dgx-h100.yaml").read_text()
    for old, new in (("value: 25.0", "value: .nan"), ("count: {value: 8", "count: {value: 2000")):
        (tmp_path / "p.yaml").write_text(text.replace("id: dgx-h100", "id: x").replace(old, new))
        refused(cli("platforms", "--platforms-dir", str(tmp_path)), "p.yaml", "value")


@pytest.mark.parametrize("columns", ["0", "1", "40"])
def test_a_narrow_terminal_still_says_everything(columns: str) -> None:
    done = cli("validate", "nvlink", "--snapshot", str(SICK), COLUMNS=columns)
    assert done.returncode == 1 and b"fabric.manager" in done.stdout
    drawn = cli("topo", str(HEALTHY / "topo.txt"), COLUMNS=columns).stdout.decode()
    assert drawn.count("NV18") >= 56 and "\u2026" not in drawn


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
    assert b"neither name nor content known: nvlinks.txt" in done.stderr
    assert done.returncode == 3


def test_an_output_that_no_check_judges_is_told(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_bytes((HEALTHY / "topo.txt").read_bytes())
    (tmp_path / "dcgm_diag.txt").write_text("Successfully ran diagnostic for group.\n")
    done = validate("--snapshot", str(tmp_path), "--platform", "dgx-h100")
    assert b"dcgm_diag: known, but no check judges it yet" in done.stderr


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


def folder_of(tmp_path: Path, **files: str) -> Path:
    tmp_path.mkdir(exist_ok=True)
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text)
    return tmp_path


#: One word, or a list of names: nothing in them says what they are.
NAMELESS = {
    "dmi_product": "dmi_product.txt",
    "kernel_release": "kernel_release.txt",
    "holds": "holds.txt",
    "environment": "environment.txt",
}


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    for path in HEALTHY.iterdir():
        if path.name not in ("SOURCE.txt", "expected", *NAMELESS.values()):
            (tmp_path / f"saved-{path.name}.log").write_bytes(path.read_bytes())
    done = cli("validate", "driver", "--snapshot", str(tmp_path), "--format", "json")
    read = {probe["id"] for probe in json.loads(done.stdout)["hosts"][0]["probes"]}
    missing = set(NAMELESS)
    names = {probe for name, probe in known_names().items() if (HEALTHY / name).exists()}
    # Kernel lines do not say whether the journal or the ring buffer kept them.
    assert read == names - missing - {"kernel_journal"} | {"dmesg"}
    assert b"known by content, not by name" in done.stderr


def test_every_probe_of_the_corpus_is_recognised_or_left() -> None:
    """A text is never taken for the output of a tool that its parser then reads differently."""
    from fabric_tools.parsers.recognise import probe_of_text

    expected = {
        "topo": {"nvidia_smi_topo", "nvidia_smi"}, "nvlink": {"nvidia_smi_nvlink", "nvlink_errors"},
        "smi_q": {"nvidia_smi_q", "nvidia_smi_q_xml", "fabric_states"},
        "nccl": {"nccl_tests", "nccl_debug"}, "ibstat": {"ibstat"}, "lspci": {"lspci", "dmesg"},
        "ibv_devinfo": {"ibv_devinfo"}, "modinfo": {"modinfo"}, "dpkg": {"dpkg"},
        "xid": {"dmesg"}, "sxid": {"dmesg", "fabricmanager_log"}, "mlnx_qos": {"mlnx_qos"},
        "lldp": {"lldp"}, "proc_nvidia_version": {"nvidia_module"},
    }  # fmt: skip
    for line in (CORPUS / "manifest.jsonl").read_text().splitlines():
        sample = json.loads(line)
        if sample["kind"] in expected and "nodes/" not in sample["file"]:
            text = (CORPUS / sample["file"]).read_text(errors="replace")
            found = probe_of_text(text)
            assert found is None or found in expected[sample["kind"]], (sample["file"], found)


def test_moments_of_an_index_are_judged_each(tmp_path: Path) -> None:
    good, bad = (HEALTHY / "topo.txt").read_text(), (CORPUS / T40).read_text()
    index = {"files": [{"file": "a.txt", "when": "before"}, {"file": "b.txt", "when": "after"}]}
    folder = folder_of(tmp_path / "node", a__txt=bad, b__txt=good, node__json=json.dumps(index))
    args = ("--snapshot", str(folder), "--platform", "hgx-h100", "--format", "json")
    hosts = json.loads(cli("validate", "nvlink", *args).stdout)["hosts"]
    assert [host["host"] for host in hosts] == ["node @ before", "node @ after"]
    mesh = [
        {v["status"] for v in host["decisions"][0]["verdicts"] if v["check"] == "nvlink.full_mesh"}
        for host in hosts
    ]
    assert "fail" in mesh[0] and mesh[1] == {"pass"}


def test_two_texts_of_one_moment_are_judged_both(tmp_path: Path) -> None:
    good, bad = (HEALTHY / "topo.txt").read_text(), (CORPUS / T40).read_text()
    for first, second in ((good, bad), (bad, good)):
        folder = folder_of(tmp_path, one__txt=first, two__txt=second)
        done = cli(
            "validate", "nvlink", "--snapshot", str(folder), "--platform", "hgx-h100"
        )  # fmt: skip
        assert done.returncode == 1 and b"GPU0-GPU2" in done.stdout
        assert b"the worse verdict counts" in done.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"files": [{"when": "x"}]}', '{"files": 3}'])
def test_a_bad_index(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path, topo__txt="x", node__json=text)
    refused(validate("--snapshot", str(folder)), "node.json", "not an index")


def test_an_index_cannot_name_a_file_outside(tmp_path: Path) -> None:
    index = {"files": [{"file": "../../etc/passwd", "kind": "topo"}]}
    folder = folder_of(tmp_path, topo__txt="x", node__json=json.dumps(index))
    done = validate("--snapshot", str(folder))
    assert done.returncode == 3 and b"passwd" not in done.stdout + done.stderr


def test_several_hosts_are_compared(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(HEALTHY, tmp_path / "b")
    (tmp_path / "b" / "kernel_release.txt").write_text("6.8.0-1-generic\n")
    for name in ("nvidia_smi_q.xml", "nvlink.txt", "nvlink_errors.txt"):
        path = tmp_path / "b" / name
        path.write_text(path.read_text().replace("GPU-0000000", "GPU-0000009"))
    args = ("--snapshot", str(HEALTHY), "--snapshot", str(tmp_path / "b"), "--format", "json")
    found = json.loads(cli("validate", "driver", *args).stdout)
    assert found["exit_code"] == 1
    for host, other in zip(found["hosts"], ("6.8.0-1-generic", "5.15.0-124-generic"), strict=True):
        verdicts = host["decisions"][0]["verdicts"]
        (mine,) = [v for v in verdicts if v["check"] == "fleet.same_stack"]
        assert mine["status"] == "fail" and other in mine["actual"]
        assert mine["evidence"][0]["probe"] == "kernel_release"
    same = cli("validate", "driver", "--snapshot", str(HEALTHY), "--snapshot", str(HEALTHY))
    assert same.returncode == 3 and b"the same GPUs as healthy (2)" in same.stdout
    for option in ("--name", "--before"):
        refused(cli("validate", "driver", *args[:4], option, str(HEALTHY)), "about one host")


def test_a_before_that_is_no_earlier_reading_of_this_node(tmp_path: Path) -> None:
    from fabric_tools.models.snapshot import HostIdentity
    from fabric_tools.transport.files import read_snapshot

    args = ("--snapshot", str(HEALTHY), "--before", str(HEALTHY))
    refused(validate(*args), "--before", "the same reading")
    healthy, paths = read_snapshot(HEALTHY), []
    for number in range(2):
        host = HostIdentity(machine_id=f"{number:032x}")
        probes = {k: v for k, v in healthy.probes.items() if number or k != "nvidia_smi_topo"}
        paths.append(tmp_path / f"{number}.json")
        changed = healthy.model_copy(update={"host": host, "probes": probes})
        paths[-1].write_text(changed.model_dump_json())
    args = ("--snapshot", str(paths[1]), "--before", str(paths[0]))
    refused(validate(*args), "--before", "another machine")


def test_an_earlier_reading(tmp_path: Path) -> None:
    import shutil

    earlier = tmp_path / "earlier"
    shutil.copytree(HEALTHY, earlier)
    (earlier / "topo.txt").unlink()
    args = ("validate", "nvlink", "--snapshot", str(HEALTHY), "--before", str(earlier))
    done = cli(*args)
    assert done.returncode == 0 and b"nvlink.error_growth" in done.stdout
    refused(cli(*args, "--snapshot", str(HEALTHY)), "--before is about one host")
    refused(cli(*args[:-1], str(tmp_path / "none")), "none")
