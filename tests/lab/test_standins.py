"""The stand-ins of the lab: what they answer is read by the product's own parsers and judged by its
own checks, for a healthy node and for each named deviation.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fabric_tools.judge import Question, judge
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.ibdev2netdev import parse_ibdev2netdev
from fabric_tools.parsers.ibstat import parse_ibstat
from fabric_tools.parsers.kernel_log import parse_kernel_log
from fabric_tools.parsers.lspci import parse_pci_devices
from fabric_tools.parsers.mokutil import parse_mokutil
from fabric_tools.parsers.nvlink import parse_nvlink_status
from fabric_tools.parsers.nvlink_errors import parse_nvlink_errors
from fabric_tools.parsers.smi_answer import parse_smi_answer
from fabric_tools.parsers.smi_gpu_reset import parse_gpu_reset
from fabric_tools.parsers.smi_query import parse_smi_query
from fabric_tools.parsers.smi_table import parse_nvidia_smi
from fabric_tools.parsers.smi_text import parse_gpu_inventory_text
from fabric_tools.parsers.smi_version import parse_smi_version
from fabric_tools.parsers.smi_xml import parse_gpu_inventory_xml
from fabric_tools.parsers.topo import parse_topology
from fabric_tools.parsers.topo_p2p import parse_topo_p2p
from fabric_tools.parsers.virt import parse_virt
from fabric_tools.phases import Phase
from fabric_tools.probes import BY_ID
from lab.standins import doubles, files, hardware, kmsg, standin, state
from tests.cases_runner import AS_OF, PLATFORMS

REPO = Path(__file__).resolve().parents[2]
VERSION = "580.173.02"
KERNEL = "6.1.0-50-amd64"
#: The checks that judge hardware; what packages and the system say is not the stand-ins' matter.
HARDWARE = ("pci.", "gpu.", "driver.answers", "driver.modules", "driver.stack_match",
            "driver.nvml_agrees", "fabric.", "nvlink.full_mesh", "nvlink.links", "cuda.init",
            "kernel.", "host.platform")  # fmt: skip
Change = Callable[["Bench"], None]


class Bench:
    """A node's root with a healthy node in it: module loaded, fabric configured."""

    def __init__(self, root: Path, platform: str = "hgx-h100", version: str = VERSION) -> None:
        self.root, self.version = root, version
        self.manager_active = True
        state.write_json(root / "run/lab/node.json", hardware.make(platform))
        state.write_json(root / "var/lib/lab/node.json", hardware.make(platform))
        self.load(version)
        fabric = {"state": "Completed", "status": "Success", "clique": "0"}
        state.write_json(root / "run/lab/fabric.json", fabric)
        kmsg.boot_messages(root, KERNEL, "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro")
        said = f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build"
        kmsg.append(root, said, 6, 13.123456)

    def load(self, version: str, name: str = "nvidia") -> None:
        state.write_json(self.root / "run/lab/modules" / name, {"version": version})

    def ask(self, tool: str, *args: str) -> tuple[str, int]:
        """What a tool of the installed version prints on stdout, and its exit status."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = standin.main([self.version, tool, *args], self.root)
        return out.getvalue(), status

    def text(self, tool: str, *args: str) -> str:
        text, status = self.ask(tool, *args)
        assert status == 0, (tool, args, text)
        return text

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the hardware."""
        data = self.hardware()
        change(data)
        state.write_json(self.root / "run/lab/node.json", data)

    def hardware(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "run/lab/node.json").read_text())
        return found

    def process(self, *argv: str, holds: str = "") -> None:
        """A process in the node's ``/proc``, with a file open."""
        place = self.root / f"proc/{len(list(self.root.glob('proc/*'))) + 100}"
        (place / "fd").mkdir(parents=True)
        (place / "cmdline").write_text("\0".join(argv) + "\0")
        if holds:
            (place / "fd/3").symlink_to(holds)

    def gpu(self, index: int, **values: object) -> None:
        self.edit(lambda node: node["gpus"][index].update(values))

    def snapshot(self, children: dict[str, dict[str, object]]) -> Snapshot:
        """What the collector would bring from this node. ``children``: answers of the libraries."""
        modules = "".join(
            f"{name} 1 0 - Live 0x0000000000000000 (O)\n"
            for name in sorted(state.load(self.root).modules)
        )
        loaded = state.load(self.root).driver
        fixed = {
            "nvidia_module": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
            f"{loaded}  Release Build  (lab@lab)\n",
            "kernel_modules": modules,
            "fabricmanager_version": f"Fabric Manager version is : {self.version}\n",
            "fabricmanager_unit": "Id=nvidia-fabricmanager.service\nLoadState=loaded\n"
            f"ActiveState={'active' if self.manager_active else 'failed'}\n"
            f"SubState={'running' if self.manager_active else 'failed'}\n"
            "UnitFileState=enabled\nResult=success\n",
            "dmi_product": self.hardware()["product_name"],
            "os_release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
            "kernel_release": KERNEL + "\n",
            "fabricmanager_log": (REPO / "examples/healthy/fabricmanager_log.txt").read_text(),
        }  # fmt: skip
        probes: dict[str, dict[str, object]] = {
            name: {"status": "ok", "rc": 0, "stdout": text} for name, text in fixed.items()
        }
        for name in (
            "nvidia_smi_q_xml", "nvidia_smi_q", "nvidia_smi_topo", "nvidia_smi_nvlink",
            "nvidia_smi_version", "nvlink_errors", "kernel_journal", "dmesg", "lspci", "virt",
        ):  # fmt: skip
            probe = BY_ID[name]
            text, status = self.ask(*probe.argv)
            word = "ok" if status in probe.accept_rc else "failed"
            probes[name] = {"status": word, "rc": status, "stdout": text, "argv": probe.argv}
        return Snapshot.model_validate(
            {
                "schema_version": 1,
                "kind": "fabric-tools/snapshot",
                "collector": {"version": "0"},
                "source": {"kind": "lab"},
                "probes": probes | children,
            }
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The doubles, which ask a program that reads ROOT_FILE's root: the way to give it one."""
    folder = tmp_path_factory.mktemp("doubles")
    flat = folder / "flat"
    flat.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(REPO)!r})\n"
        "from pathlib import Path\nfrom lab.standins import standin\n"
        f"root = Path({str(folder)!r}, 'root').read_text()\n"
        "sys.exit(standin.main([sys.argv[1], 'flat'], Path(root)))\n"
    )
    flat.chmod(0o755)
    doubles.build(folder, VERSION, str(flat))
    return folder


@pytest.fixture
def ask_library(libraries: Path) -> Callable[[Bench, str], dict[str, object]]:
    """Runs the collector's child ("nvml" or "cuda") against the doubles, for one bench."""

    def ask(bench: Bench, child: str) -> dict[str, object]:
        (libraries / "root").write_text(str(bench.root))
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from fabric_tools.node import " + child +
             " as m; sys.exit(m.main())"],
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(REPO)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        status = "ok" if done.returncode == 0 else "failed"
        return {"status": status, "rc": done.returncode, "stdout": done.stdout,
                "stderr": done.stderr}  # fmt: skip

    return ask


def judged(bench: Bench, ask: Callable[[Bench, str], dict[str, object]], phase: Phase) -> Decision:
    children = {"nvml": ask(bench, "nvml"), "cuda_init": ask(bench, "cuda")}
    question = Question(
        phases=(phase,), platforms=PLATFORMS, host="node", as_of=AS_OF, site=HostVars()
    )
    return judge(bench.snapshot(children), question).decisions[0]


def against(decision: Decision) -> dict[str, set[str]]:
    """Status word -> the hardware checks that have it; passes left out."""
    found: dict[str, set[str]] = {}
    for verdict in decision.verdicts:
        if verdict.check.startswith(HARDWARE) and verdict.status not in (
            Status.PASS,
            Status.NOT_APPLICABLE,
        ):
            found.setdefault(verdict.status.value, set()).add(verdict.check)
    return found


PASSIVE = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)


@pytest.mark.parametrize("platform", sorted(hardware.PLATFORMS))
def test_a_healthy_node_passes_every_hardware_check(
    tmp_path: Path, platform: str, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    bench = Bench(tmp_path, platform)
    for phase in PASSIVE:
        decision = judged(bench, ask_library, phase)
        passed = {v.check for v in decision.verdicts if v.check.startswith(HARDWARE)}
        assert len(passed) >= 4, (phase, passed)
        wrong = [
            v for v in decision.verdicts
            if v.check.startswith(HARDWARE)
            and v.status not in (Status.PASS, Status.NOT_APPLICABLE)
            and not v.check.endswith("error_growth")
        ]  # fmt: skip
        assert not wrong, [(v.check, v.subject, v.status, v.actual) for v in wrong]


def _links(node: dict[str, Any]) -> None:
    node["gpus"][3]["nvlinks"][7] = False


DEVIATIONS: dict[str, tuple[Change, Phase, set[str]]] = {
    "GPU missing, on the bus": (
        lambda b: b.gpu(5, present=False), Phase.PREFLIGHT, {"pci.gpu_count"},
    ),
    # What it explains (cuda.init, nvlink.full_mesh), and the rest of the phase, cannot tell.
    "GPU missing, in the driver": (
        lambda b: b.gpu(5, present=False), Phase.DRIVER, {"gpu.count"},
    ),
    "ECC off": (
        lambda b: b.gpu(2, ecc_current=False, ecc_pending=False), Phase.DRIVER, {"gpu.ecc_mode"},
    ),
    "PCIe x8, on the bus": (
        lambda b: b.gpu(4, pcie_width_current=8), Phase.PREFLIGHT, {"pci.gpu_link"},
    ),
    "PCIe x8, in the driver": (
        lambda b: b.gpu(4, pcie_width_current=8), Phase.DRIVER, {"gpu.pcie"},
    ),
    "row remap pending": (
        lambda b: b.gpu(1, remap_pending=True, remap_uncorrectable=1), Phase.DRIVER,
        {"gpu.row_remap"},
    ),
    "row remap failed": (
        lambda b: b.gpu(1, remap_failed=True), Phase.DRIVER, {"gpu.row_remap"},
    ),
    "uncorrectable errors": (
        lambda b: b.gpu(1, ecc_uncorrectable_volatile=3), Phase.DRIVER, {"gpu.ecc_errors"},
    ),
    "17 of 18 links": (
        lambda b: b.edit(_links), Phase.NVLINK, {"nvlink.links"},
    ),
    "17 of 18 links, in the driver": (
        lambda b: b.edit(_links), Phase.DRIVER, {"nvlink.links"},
    ),
    "one pair PIX": (
        lambda b: b.edit(lambda n: n["topology"].update({"GPU2-GPU5": "PIX"})), Phase.NVLINK,
        {"nvlink.full_mesh"},
    ),
    "Xid 79": (
        lambda b: kmsg.append(
            b.root, "NVRM: Xid (PCI:0000:c3:00): 79, pid=1234, GPU has fallen off the bus.", 3, 99.0
        ),
        Phase.DRIVER, {"kernel.xid"},
    ),
    "fabric in progress": (
        lambda b: (b.root / "run/lab/fabric.json").unlink(), Phase.DRIVER,
        {"fabric.state", "cuda.init"},
    ),
    "fabric manager dead, state latched": (
        lambda b: setattr(b, "manager_active", False), Phase.DRIVER,
        {"fabric.manager"},
    ),
    "power limit": (
        lambda b: b.gpu(0, power_limit_w=500), Phase.DRIVER, {"gpu.power_limit"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVIATIONS)
def test_each_deviation_fails_its_own_check_and_no_other(
    bench: Bench, name: str, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    change, phase, expected = DEVIATIONS[name]
    change(bench)
    assert against(judged(bench, ask_library, phase)).get("fail") == expected


def test_the_deviant_pair_and_link_are_the_ones_that_are_named(
    bench: Bench, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    bench.edit(_links)
    bench.edit(lambda node: node["topology"].update({"GPU2-GPU5": "PIX"}))
    failed = {
        (v.check, v.subject)
        for v in judged(bench, ask_library, Phase.NVLINK).verdicts
        if v.status is Status.FAIL
    }
    assert failed == {("nvlink.links", "GPU 3"), ("nvlink.full_mesh", "GPU2-GPU5")}


def _new_userspace(bench: Bench) -> None:
    bench.load("580.126.09")


def test_a_new_userspace_over_the_old_module(
    bench: Bench, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    _new_userspace(bench)
    text, status = bench.ask("nvidia-smi", "-q", "-x")
    assert (status, parse_smi_answer(text).error) == (18, "driver_library_mismatch")
    assert parse_smi_version(bench.text("nvidia-smi", "--version")).driver_version == "580.126.09"
    nvml, cuda = ask_library(bench, "nvml"), ask_library(bench, "cuda")
    assert nvml["rc"] == 70 and "version mismatch" in str(nvml["stderr"])
    assert json.loads(str(cuda["stdout"]))["code"] == 803
    decision = judged(bench, ask_library, Phase.DRIVER)
    assert against(decision)["fail"] == {"driver.stack_match"}
    explained = {v.check for v in decision.verdicts if v.follows == "driver.stack_match"}
    assert explained == {"driver.answers", "cuda.init"}


@pytest.mark.parametrize("loaded", [(), ("nouveau",)])
def test_without_the_module_nothing_answers(
    bench: Bench, loaded: tuple[str, ...],
    ask_library: Callable[[Bench, str], dict[str, object]],
) -> None:  # fmt: skip
    (bench.root / "run/lab/modules/nvidia").unlink()
    for name in loaded:
        bench.load("1.0", name)
    for args in ((), ("-L",), ("-q",), ("topo", "-m"), ("nvlink", "-s")):
        text, status = bench.ask("nvidia-smi", *args)
        assert (status, parse_smi_answer(text).error) == (9, "driver_not_loaded")
    assert parse_smi_version(bench.text("nvidia-smi", "--version")).driver_version is None
    assert "Driver Not Loaded" in str(ask_library(bench, "nvml")["stderr"])
    assert json.loads(str(ask_library(bench, "cuda")["stdout"]))["name"] == "CUDA_ERROR_NO_DEVICE"
    drivers = {d.driver for d in parse_pci_devices(bench.text("lspci", "-D", "-nn", "-vv")).devices
               if d.vendor_device == "10de:2330"}  # fmt: skip
    assert drivers == {loaded[0] if loaded else None}


def test_no_gpu_on_the_bus(
    bench: Bench, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    for index in range(8):
        bench.gpu(index, present=False)
    text, status = bench.ask("nvidia-smi")
    assert (status, parse_smi_answer(text).error) == (6, "no_devices")
    assert json.loads(str(ask_library(bench, "cuda")["stdout"]))["code"] == 100
    assert json.loads(str(ask_library(bench, "nvml")["stdout"]))["count"] == 0


def _hung(argv: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.mark.parametrize("what", ["nvidia-smi", "nvml", "cuda"])
def test_what_hangs_answers_nothing_and_ignores_a_polite_end(
    bench: Bench, libraries: Path, what: str
) -> None:
    bench.edit(lambda node: node.update(smi_hang=True))
    (libraries / "root").write_text(str(bench.root))
    code = f"from fabric_tools.node.{what} import main; main()"
    if what == "nvidia-smi":
        code = "from pathlib import Path; from lab.standins import standin; "
        code += f"standin.main([{VERSION!r}, 'nvidia-smi'], Path({str(bench.root)!r}))"
    env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(REPO)}
    for child in _hung([sys.executable, "-c", code], env):
        # Ready when TERM is ignored (bit 15 of SigIgn), which is set just before it hangs.
        for _ in range(300):
            mask = next(
                line for line in Path(f"/proc/{child.pid}/status").read_text().splitlines()
                if line.startswith("SigIgn:")
            )  # fmt: skip
            if int(mask.split()[1], 16) & (1 << (signal.SIGTERM - 1)):
                break
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)


def test_every_form_reads_the_same_facts(bench: Bench) -> None:
    bench.gpu(2, remap_pending=True, ecc_uncorrectable_volatile=4)
    xml = parse_gpu_inventory_xml(bench.text("nvidia-smi", "-q", "-x"))
    text = parse_gpu_inventory_text(bench.text("nvidia-smi", "-q"))
    unlike = {"line", "mig_devices"}  # only XML counts MIG devices
    plain = [gpu.model_dump(exclude=unlike) for gpu in text.gpus]
    assert plain == [gpu.model_dump(exclude=unlike) for gpu in xml.gpus]
    assert xml.gpus[2].remap_pending == "Yes" and xml.gpus[2].ecc_volatile.dram_uncorrectable == 4
    table = parse_nvidia_smi(bench.text("nvidia-smi"))
    listed = parse_nvidia_smi(bench.text("nvidia-smi", "-L"))
    assert table.complete and (table.smi_version, table.cuda_version) == (VERSION, "13.0")
    assert [gpu.uuid for gpu in listed.gpus] == [gpu.uuid for gpu in xml.gpus]
    assert [gpu.bus_id for gpu in table.gpus] == [gpu.bus_id for gpu in xml.gpus]
    assert table.gpus[2].ecc_uncorrectable_volatile == 4


@pytest.mark.parametrize("version", ["570.172.08", "595.91.07", "620.70.06"])
def test_other_branches_are_read_too(tmp_path: Path, version: str) -> None:
    bench = Bench(tmp_path, version=version)
    assert parse_smi_version(bench.text("nvidia-smi", "--version")).driver_version == version
    table = parse_nvidia_smi(bench.text("nvidia-smi"))
    assert (table.driver_version, table.complete, len(table.gpus)) == (version, True, 8)
    for found in (
        parse_gpu_inventory_xml(bench.text("nvidia-smi", "-q", "-x")),
        parse_gpu_inventory_text(bench.text("nvidia-smi", "-q")),
    ):
        assert (found.driver_version, len(found.gpus)) == (version, 8)
        assert found.gpus[0].fabric.state == "Completed"


def test_the_query_knows_its_fields_and_refuses_others(bench: Bench) -> None:
    fields = "index,name,uuid,pci.bus_id,driver_version,ecc.mode.current,memory.total"
    found = parse_smi_query(
        bench.text("nvidia-smi", f"--query-gpu={fields}", "--format=csv")
    )  # fmt: skip
    assert found.complete and len(found.rows) == 8 and found.rows[3].cells[6] == "81559"
    bare = bench.text(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"
    )
    assert bare == VERSION + "\n"
    text, status = bench.ask("nvidia-smi", "--query-gpu=no.such", "--format=csv")
    assert status == 2 and "not a valid field" in text


def test_an_option_that_is_not_simulated_is_refused(bench: Bench) -> None:
    for call in (
        ("nvidia-smi", "mig", "-lgi"), ("lspci", "-t"), ("dmesg", "-C"),
        ("journalctl", "-k", "--since", "today"), ("mokutil", "--import", "x"),
    ):  # fmt: skip
        text, status = bench.ask(*call)
        assert status != 0, (call, text)


def test_p2p_and_link_counters(bench: Bench) -> None:
    bench.edit(lambda node: node["topology"].update({"GPU0-GPU1": "PIX"}))
    matrix = parse_topo_p2p(bench.text("nvidia-smi", "topo", "-p2p", "n"))
    assert matrix.complete and matrix.rows[1].cells["GPU0"] == "NS"
    assert matrix.rows[1].cells["GPU2"] == "OK"
    bench.edit(_links)
    errors = parse_nvlink_errors(bench.text("nvidia-smi", "nvlink", "-e"))
    assert [len(gpu.links) for gpu in errors.gpus] == [18, 18, 18, 17, 18, 18, 18, 18]
    status = parse_nvlink_status(bench.text("nvidia-smi", "nvlink", "-s"))
    assert [link.index for link in status.gpus[3].links if link.gbytes_s is None] == [7]
    topo = parse_topology(bench.text("nvidia-smi", "topo", "-m"))
    assert len(topo.gpus) == 8 and topo.gpu_rows_whole


def test_a_lost_gpu_closes_the_numbers_up_and_keeps_the_pairs_of_the_board(bench: Bench) -> None:
    bench.edit(lambda node: node["topology"].update({"GPU2-GPU5": "PIX"}))
    bench.gpu(0, present=False)
    topo = parse_topology(bench.text("nvidia-smi", "topo", "-m"))
    row = topo.row("GPU1")
    assert row is not None and row.cells["GPU4"] == "PIX"


def test_a_reset_carries_out_what_a_reset_can(bench: Bench) -> None:
    bench.gpu(1, remap_pending=True, ecc_uncorrectable_volatile=2, ecc_current=False)
    bench.gpu(2, pcie_width_current=8, remap_failed=True)
    answer = parse_gpu_reset(bench.text("nvidia-smi", "-r"))
    assert answer.done and len(answer.reset) == 8
    node = state.load(bench.root)
    mended, broken = node.gpus[1], node.gpus[2]
    assert not mended.remap_pending and mended.ecc_current
    assert mended.ecc_uncorrectable_volatile == 0
    assert broken.pcie_width_current == 8 and broken.remap_failed
    assert node.fabric.state == "In Progress"  # until a fabric manager configures them again


def test_no_gpu_is_reset_alone_or_in_use(bench: Bench) -> None:
    bench.gpu(0, remap_pending=True)
    text, status = bench.ask("nvidia-smi", "--gpu-reset", "-i", "0")
    assert status == 1 and parse_gpu_reset(text).refused
    bench.process("/usr/bin/nvidia-persistenced", holds="/dev/nvidia0")
    bench.process("/usr/bin/python3", "train.py", holds="/dev/nvidia3")
    text, status = bench.ask("nvidia-smi", "-r")
    assert status == 1 and "8 devices are currently being used" in text
    assert parse_gpu_reset(text).refused
    node = state.load(bench.root)
    assert node.fabric.state == "Completed" and node.gpus[0].remap_pending


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("/usr/bin/python3", "/usr/lib/lab/fm.py", "nv-fabricmanager"), 1),
        (("/usr/bin/nvidia-persistenced", "--verbose"), 0),
    ],
)
def test_a_reset_waits_for_the_fabric_manager_only(
    bench: Bench, argv: tuple[str, ...], status: int
) -> None:
    bench.process(*argv, holds="/dev/nvidia0" if status == 0 else "")
    assert bench.ask("nvidia-smi", "-r")[1] == status
    on = "Enabled" if status == 0 else "Disabled"
    found = parse_gpu_inventory_text(bench.text("nvidia-smi", "-q"))
    assert found.gpus[0].persistence_mode == on


def test_persistence_mode_lasts_as_long_as_the_module(bench: Bench) -> None:
    bench.text("nvidia-smi", "-pm", "1")
    assert "On " in bench.text("nvidia-smi").splitlines()[8]
    bench.text("nvidia-smi", "-pm", "0")
    assert "Off |   0000" in bench.text("nvidia-smi").splitlines()[8]
    bench.text("nvidia-smi", "-pm", "1")
    bench.load(VERSION)
    assert "Off |   0000" in bench.text("nvidia-smi").splitlines()[8]


def test_kernel_messages_in_every_form(bench: Bench) -> None:
    xid = "NVRM: Xid (PCI:0000:c3:00): 79, pid=1, GPU has fallen off the bus."
    kmsg.append(bench.root, xid, 3, 99.5)
    for text in (
        bench.text("dmesg"),
        bench.text("dmesg", "-T"),
        bench.text("dmesg", "-x"),
        bench.text("journalctl", "-k", "-b", "0", "--no-pager", "-q", "-o", "short-monotonic"),
        bench.text("journalctl", "-kb", "--no-pager"),
        bench.text("journalctl", "--dmesg", "--output=short-iso"),
    ):
        log = parse_kernel_log(text)
        assert [event.xid for event in log.xids] == [79]
        assert log.from_boot and log.kernel == KERNEL
    assert bench.text("dmesg", "--level=err").count("\n") == 1
    assert bench.text("journalctl", "-k", "-o", "cat", "-n", "1") == xid + "\n"
    assert bench.text("journalctl", "-k", "-g", "no such words") == "-- No entries --\n"
    assert bench.ask("journalctl", "-k", "-b", "-1")[1] == 1
    assert not kmsg.asks_kernel(["-u", "ssh", "-b"])


def test_lspci_filters(bench: Bench) -> None:
    assert len(parse_pci_devices(bench.text("lspci", "-nn", "-d", "10de:")).devices) == 12
    assert len(parse_pci_devices(bench.text("lspci", "-nn", "-d", "10de::0302")).devices) == 8
    assert bench.text("lspci", "-n", "-s", "1b:00.0") == "1b:00.0 0302: 10de:2330 (rev a1)\n"
    assert bench.text("lspci", "-D", "-s", "0000:43:00").startswith("0000:43:00.0 3D controller")
    assert bench.text("lspci", "-s", "ff:00.0") == ""


def test_secure_boot_keys_rdma_and_virtualisation(bench: Bench) -> None:
    assert parse_mokutil(bench.text("mokutil", "--sb-state")).enabled is False
    assert bench.text("mokutil", "--list-enrolled") == "MokListRT is empty\n"
    bench.edit(lambda node: node.update(secure_boot=True, mok_enrolled=["ab" * 20, "site key"]))
    assert parse_mokutil(bench.text("mokutil", "--sb-state")).enabled is True
    keys = bench.text("mokutil", "--list-enrolled")
    assert "SHA1 Fingerprint: " + ":".join(["ab"] * 20) in keys and "Subject: CN=site key" in keys
    bench.edit(lambda node: node.update(efi=False))
    assert parse_mokutil(bench.ask("mokutil", "--sb-state")[0]).efi is False
    text, status = bench.ask("systemd-detect-virt")
    assert (parse_virt(text).virtual, status) == (False, 1)
    net = bench.root / "sys/class/net/rail0"
    net.mkdir(parents=True)
    (net / "operstate").write_text("up\n")
    mapped = parse_ibdev2netdev(bench.text("ibdev2netdev")).mappings
    assert [m.up for m in mapped] == [True] + [False] * 7
    assert len(parse_ibstat(bench.text("ibstat")).devices) == 8


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"gpus": 3}', '{"platform": "x"}', "\xff\xfe"], ids=repr
)
def test_a_broken_description_is_an_error_and_never_a_healthy_node(
    bench: Bench, content: str, ask_library: Callable[[Bench, str], dict[str, object]]
) -> None:
    (bench.root / "run/lab/node.json").write_text(content, encoding="latin-1")
    for tool in ("nvidia-smi", "lspci", "mokutil"):
        assert bench.ask(tool) == ("", 70)
    assert ask_library(bench, "nvml")["rc"] == 70
    assert json.loads(str(ask_library(bench, "cuda")["stdout"]))["code"] == 999


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The doubles with a program that prints the file ``said``."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "flat").write_text(f"#!/bin/sh\ncat {folder}/said\n")
    (folder / "flat").chmod(0o755)
    doubles.build(folder, VERSION, str(folder / "flat"))
    return folder


@pytest.mark.parametrize(
    "said",
    [
        "", "status\n", "status zero\n\n\n", "gpu 99999 name x\n" * 3, "status 0\ngpu -1 name x\n",
        "status 0\ngpu 0 name " + "x" * 5000 + "\ngpu 0 links " + "1" * 500 + "\n",
        "status 0\n" + "gpu 3 uuid \n" * 20000, "\0\0\0",
    ],
    ids=range(8),
)  # fmt: skip
def test_the_libraries_do_not_crash_on_odd_input(odd: Path, said: str) -> None:
    """The real binding reads what the doubles make of nonsense; a crash would be a signal."""
    (odd / "said").write_text(said)
    env = {**os.environ, "LD_LIBRARY_PATH": str(odd), "PYTHONPATH": str(REPO)}
    for child in ("nvml", "cuda"):
        code = f"import sys; from fabric_tools.node.{child} import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=False
        )
        assert done.returncode in (0, 70), done


_SMOKE = """
import ctypes, pynvml as p
p.nvmlInit()
h = [p.nvmlDeviceGetHandleByIndex(i) for i in range(p.nvmlDeviceGetCount())]
f = p.c_nvmlGpuFabricInfo_v2_t(); p.nvmlDeviceGetGpuFabricInfoV(h[0], ctypes.byref(f))
g = p.c_nvmlGpuFabricInfo_v3_t(); p.nvmlDeviceGetGpuFabricInfoV(h[0], ctypes.byref(g))
v = p.nvmlDeviceGetFieldValues(h[0], [90, 91, 1])
try:
    p.nvmlDeviceGetPowerUsage(h[0]); missing = ""
except p.NVMLError as error:
    missing = type(error).__name__
print([p.nvmlSystemGetNVMLVersion(), p.nvmlSystemGetCudaDriverVersion_v2(),
    p.nvmlDeviceGetIndex(h[7]), p.nvmlDeviceGetPciInfo(h[1]).busId,
    p.nvmlDeviceGetMemoryInfo(h[0]).total >> 20, p.nvmlDeviceGetTemperature(h[0], 0),
    p.nvmlDeviceGetCurrPcieLinkGeneration(h[0]), p.nvmlDeviceGetMaxPcieLinkGeneration(h[0]),
    p.nvmlDeviceGetTopologyCommonAncestor(h[0], h[1]),
    p.nvmlDeviceGetTopologyCommonAncestor(h[0], h[5]),
    p.nvmlDeviceGetP2PStatus(h[0], h[5], p.NVML_P2P_CAPS_INDEX_NVLINK),
    p.nvmlDeviceGetP2PStatus(h[2], h[5], p.NVML_P2P_CAPS_INDEX_NVLINK),
    [x.nvmlReturn for x in v], v[1].value.uiVal, f.state, f.status, g.state, missing])
p.nvmlShutdown()
"""


def test_the_real_binding_reads_the_double(bench: Bench, libraries: Path) -> None:
    bench.edit(lambda node: node["topology"].update({"GPU2-GPU5": "PIX"}))
    (libraries / "root").write_text(str(bench.root))
    done = subprocess.run(
        [sys.executable, "-c", _SMOKE], env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    expected = ["13." + VERSION, 13000, 7, "00000000:43:00.0", 81559, 30, 5, 5, 40, 50, 0, 5,
                [0, 0, 3], 18, 3, 0, 3, "NVMLError_FunctionNotFound"]  # fmt: skip
    assert done.stdout.strip() == str(expected)


def test_the_installed_files_run_by_themselves(bench: Bench, tmp_path: Path) -> None:
    """What goes into the image needs nothing of the repository and no site packages."""
    root = tmp_path / "image"
    files.install(root)
    listed = {path.name for path in (root / files.PACKAGE.lstrip("/")).iterdir()}
    there = {path.name for path in files.HERE.glob("*.py")}
    assert listed == set(files.MODULES)
    assert there - listed == {"doubles.py", "files.py", "hardware.py"}
    launcher = (root / "bin/dmesg").read_text()
    assert launcher == '#!/bin/sh\nexec /usr/lib/lab/standin - dmesg "$@"\n'
    program = (root / files.STANDIN.lstrip("/")).read_text()
    here = program.replace("/usr/lib/lab", f"{root}/usr/lib/lab").replace(
        "main(sys.argv[1:])", f'main(sys.argv[1:], __import__("pathlib").Path("{bench.root}"))'
    )
    assert here != program
    (root / "standin").write_text(here.replace("/usr/bin/python3", sys.executable))
    done = subprocess.run(
        ["/bin/sh", str(root / "standin"), VERSION, "nvidia-smi", "-L"],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.count("GPU ") == 8


def test_equal_input_gives_equal_libraries(tmp_path: Path) -> None:
    one, two = doubles.build(tmp_path / "1", VERSION), doubles.build(tmp_path / "2", VERSION)
    assert {k: p.read_bytes() for k, p in one.items()} == {
        k: p.read_bytes() for k, p in two.items()
    }
    other = doubles.build(tmp_path / "3", "570.172.08")
    assert other["libnvidia-ml.so.1"].read_bytes() != one["libnvidia-ml.so.1"].read_bytes()
    with pytest.raises(ValueError, match="not a driver version"):
        doubles.build(tmp_path / "4", '580"; system("x')


def test_hardware_of_two_nodes_differs_and_of_one_does_not() -> None:
    first, second = hardware.make("dgx-h100", "node1"), hardware.make("dgx-h100", "node2")
    assert first == hardware.make("dgx-h100", "node1")
    uuids = {gpu["uuid"] for node in (first, second) for gpu in node["gpus"]}
    assert len(uuids) == 16
    with pytest.raises(ValueError, match="the lab knows"):
        hardware.make("hgx-b200")
