"""What host and cluster tools print on other nodes than the recorded ones.

Each text has the form of the tool's source or manual page; the values are made up.
"""

from __future__ import annotations

import pytest
from written import LSPCI_BRIDGE, NODE_YAML

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dev_nodes import parse_dev_nodes
from fabric_tools.parsers.dkms import parse_dkms
from fabric_tools.parsers.dpkg import parse_dpkg, parse_rpm
from fabric_tools.parsers.k8s_node import parse_k8s_node
from fabric_tools.parsers.lspci import parse_pci_devices
from fabric_tools.parsers.metrics import parse_metrics
from fabric_tools.parsers.runtimeclass import parse_runtimeclass
from fabric_tools.parsers.signing import parse_signing
from fabric_tools.parsers.vllm_bench import parse_vllm_bench


def test_lspci_acs_and_payload() -> None:
    (bridge,) = parse_pci_devices(LSPCI_BRIDGE).devices
    assert bridge.acs == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert LSPCI_BRIDGE.split("\n")[(bridge.acs_line or 0) - 1].lstrip().startswith("ACSCtl:")
    assert (bridge.max_payload_bytes, bridge.max_read_request_bytes) == (256, 128)
    off = parse_pci_devices(LSPCI_BRIDGE.replace("+ ", "- ")).devices[0]
    assert off.acs == ()
    plain = parse_pci_devices(LSPCI_BRIDGE.replace("ACSCtl", "ACSxxx")).devices[0]
    assert (plain.acs, plain.acs_line) == (None, None)
    for text in (
        LSPCI_BRIDGE.replace("ACSCtl:\tSrcValid+", "ACSCtl:\tSrcVal"),
        LSPCI_BRIDGE.replace("\t\tACSCap", "\t\tACSCtl"),
    ):
        with pytest.raises(ParseError):
            parse_pci_devices(text)


def test_lspci_class_without_name() -> None:
    text = (
        "00:00.0 Generic system peripheral [0807]: Intel Corporation Device 0b23\n"
        "00:14.2 Unassigned class [ff00]: Illegal Vendor ID Device ffff (rev ff) (prog-if ff)\n"
        "\t!!! Unknown header type 7f\n"
    )
    first, gone = parse_pci_devices(text).devices
    assert (first.device_class, first.class_name) == ("0807", "Generic system peripheral")
    assert not gone.answers


GPU = "a1:00.0 3D controller: NVIDIA X (rev a1)\n\t\tLnkSta:\tSpeed 16GT/s, Width x8\n"


def test_lspci_through_grep() -> None:
    text = GPU + "--\n\t\tLnkSta:\tSpeed 2.5GT/s, Width x1\na2:00.0 3D controller: NVIDIA X\n"
    first, second = parse_pci_devices(text).devices
    assert (first.link_sta_width, second.link_sta_width) == (8, None)


def test_lspci_cut_in_the_width() -> None:
    with pytest.raises(ParseError, match="x1 may be x16"):
        parse_pci_devices(GPU[:-1])
    assert parse_pci_devices(GPU + "00: de 10 30 23 07 04 10 00\n").devices[0].link_sta_width == 8


@pytest.mark.parametrize(
    ("text", "state", "version"),
    [
        ("nvidia-384\t\n", "un", None),
        ("nvidia-driver-550\t550.90.07-0ubuntu1\n", None, "550.90.07-0ubuntu1"),
        ("nvidia-driver-550 550.90.07-0ubuntu1 install ok installed\n", "ii", "550.90.07-0ubuntu1"),
        ("install ok installed nvidia-driver-550 550.90-1\n", "ii", "550.90-1"),
        ("nvidia-driver-550 ii  550.90-1\n", "ii", "550.90-1"),
        ("nvidia-driver-550=550.90-1\n", None, "550.90-1"),
        ("nvidia-driver-550:amd64 550.90-1 amd64 hold ok installed\n", "hi", "550.90-1"),
        ("nvidia-driver-550 deinstall ok config-files 550.90-1\n", "rc", "550.90-1"),
        ("nvidia-driver-550 unknown ok not-installed \n", "un", None),
        ("nvidia-driver-550 install reinstreq half-installed 550.90-1\n", "iHR", "550.90-1"),
    ],
)
def test_dpkg_query_formats(text: str, state: str | None, version: str | None) -> None:
    (package,) = parse_dpkg(text).packages
    assert (package.state, package.version) == (state, version)
    assert package.installed is (None if state is None else state in ("ii", "hi"))
    assert package.upstream == (None if version is None else version.split("-")[0])


@pytest.mark.parametrize("text", ["total 4\n", "hello world\n", "foo\n", "a 1 2\n", "2024 10 20\n"])
def test_no_packages(text: str) -> None:
    for parse in (parse_dpkg, parse_rpm):
        with pytest.raises(ParseError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "name", "upstream", "arch"),
    [
        ("bind-libs-32:9.16.23-18.el9.x86_64\n", "bind-libs", "9.16.23", "x86_64"),
        ("nvidia-driver 580.65.06-1.el9 x86_64\n", "nvidia-driver", "580.65.06", "x86_64"),
        ("nvidia-driver 3:580.65.06-1.el9\n", "nvidia-driver", "580.65.06", None),
        ("nvidia-driver|580.65.06|1.el9|x86_64\n", "nvidia-driver", "580.65.06", "x86_64"),
        (
            "mlnx-ofa_kernel-24.10-OFED.24.10.1.1.4.1.rhel9u4.x86_64\n",
            "mlnx-ofa_kernel", "24.10", "x86_64",
        ),
        ("kmod-nvidia-580.65.06-1.el9.aarch64\n", "kmod-nvidia", "580.65.06", "aarch64"),
    ],
)  # fmt: skip
def test_rpm_formats(text: str, name: str, upstream: str, arch: str | None) -> None:
    (package,) = parse_rpm("gpg-pubkey-d42d0685-62589a51\n" + text).packages
    assert (package.name, package.upstream, package.arch) == (name, upstream, arch)


def test_dkms_weak_modules() -> None:
    text = (
        "nvidia/580.65.06, 5.14.0-427.el9.x86_64, x86_64: installed-weak from 5.14.0-362.el9\n"
        "nvidia/535: broken\n"
        "mlnx-ofa_kernel/24.10.OFED.24.10.1.1.4.1, 6.8.0-1020-nvidia-64k, aarch64: built\n"
    )
    states = [(module.state, module.note) for module in parse_dkms(text).modules]
    assert states == [("installed-weak", "from 5.14.0-362.el9"), ("broken", None), ("built", None)]
    with pytest.raises(ParseError):
        parse_dkms("nvidia/580.65.06, 6.8.0, x86_64: installed-w\n")


LS = """crw-rw-rw- 1 root root 195,   0 Dec  1 10:00 /dev/nvidia0
crw-rw-rw-. 1 root root 195, 255 Dec  1 10:00 /dev/nvidiactl

/dev/nvidia-caps:
total 0
drwxr-xr-x  2 root root     80 Dec  1 10:00 .
cr-------- 1 root root 238, 1 Dec  1 10:00 nvidia-cap1

/dev/nvidia-caps-imex-channels:
total 0
crw-rw-rw- 1 root root 507, 0 Dec  1 10:00 channel0
"""


def test_dev_nodes_in_folders() -> None:
    nodes = parse_dev_nodes(LS)
    assert [node.path for node in nodes.nodes][2:] == [
        "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps-imex-channels/channel0",
    ]  # fmt: skip
    assert nodes.gpu_nodes == ("/dev/nvidia0",)
    short = parse_dev_nodes(
        "/dev/nvidia0  /dev/nvidia1  /dev/nvidiactl\n\n"
        "/dev/nvidia-caps:\nnvidia-cap1  nvidia-cap2\n"
    )
    assert (len(short.nodes), len(short.gpu_nodes)) == (5, 2)
    quoted = "ls: cannot access \u2018/dev/nvidia*\u2019: No such file or directory\n"
    assert parse_dev_nodes(quoted).absent
    for text in ("total 0\ncrw------- 1 root root 231, 64 Dec 1 10:00 issm0\n", "nvidia-cap1\n"):
        with pytest.raises(ParseError):
            parse_dev_nodes(text)


def test_node_as_yaml() -> None:
    node = parse_k8s_node(NODE_YAML)
    assert (node.name, node.gpu_count, node.gpu_capacity, node.gpu_allocatable) == ("n1", 8, 8, 7)
    assert (node.conditions, node.annotations) == (
        {"Ready": True}, {"k3s.io/node-args": '["server"]'},
    )  # fmt: skip
    assert NODE_YAML.split("\n")[node.lines["conditions"] - 1] == "  conditions:"
    for text in (NODE_YAML.split("status:")[0], NODE_YAML + "---\n" + NODE_YAML):
        with pytest.raises(ParseError):
            parse_k8s_node(text)


@pytest.mark.parametrize("text", ["apiVersion: v1\nN/A", "apiVersion: v1\na: b\u2028: c\u2028\n"])
def test_yaml_errors_point_into_the_text(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_k8s_node(text)
    assert caught.value.line <= text.count("\n") + 1


def test_runtimeclass_as_yaml() -> None:
    found = parse_runtimeclass(
        "apiVersion: v1\nitems:\n- apiVersion: node.k8s.io/v1\n  handler: nvidia-cdi\n"
        "  kind: RuntimeClass\n  metadata:\n    name: nvidia\nkind: List\n"
    )
    assert (found.handlers, found.lines) == ({"nvidia": "nvidia-cdi"}, {"nvidia": 7})


def test_metrics_complete() -> None:
    text = '# TYPE a gauge\na{gpu="0"} 1\na{gpu="1"} 1\n# TYPE b gauge\nb{gpu="0"} 1\n'
    assert not parse_metrics(text).complete
    assert parse_metrics(text + 'b{gpu="1"} 1 1700000000.125\n# EOF\n').complete
    assert not parse_metrics("c 1\n").complete
    assert not parse_metrics("# TYPE c counter\nc_total 1").complete


def test_signing_without_attestation() -> None:
    text = "Error: no matching attestations: \nerror during command execution: no matching\n"
    assert parse_signing(text).cause == "no_signatures"


def test_vllm_bench_mean_over_nothing() -> None:
    text = (
        "============ Serving Benchmark Result ============\nSuccessful requests: 1\n"
        "Benchmark duration (s): 2.0\nRequest throughput (req/s): 0.5\nMean TPOT (ms): nan\n"
        "P99 TPOT (ms): 3.5\n" + "=" * 50 + "\n"
    )
    tpot = parse_vllm_bench(text).latencies["tpot"]
    assert (tpot.mean_ms, tpot.percentiles) == (None, {"99": 3.5})
    with pytest.raises(ParseError):
        parse_vllm_bench(text.replace("(req/s): 0.5", "(req/s): nan"))
