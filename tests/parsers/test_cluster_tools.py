"""K3s, containerd, Kubernetes objects, metrics and the serving benchmark against their labels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.crictl_info import parse_crictl_info
from fabric_tools.parsers.k3s_check_config import parse_k3s_check_config
from fabric_tools.parsers.k3s_containerd import parse_k3s_containerd
from fabric_tools.parsers.k8s_node import parse_k8s_node
from fabric_tools.parsers.metrics import parse_metrics
from fabric_tools.parsers.runtimeclass import parse_runtimeclass
from fabric_tools.parsers.vllm_bench import parse_vllm_bench


def _same(said: dict[str, Any], label: dict[str, Any]) -> None:
    for key in said.keys() & label.keys():
        assert said[key] == label[key], key


@pytest.mark.parametrize("sample", of_kind("k3s_check_config"), ids=lambda s: s.file)
def test_check_config(sample: Sample) -> None:
    found = parse_k3s_check_config(sample.text)
    said = {
        "status": found.status,
        "missing_optional": list(found.missing("Optional Features")),
        "complete": found.complete,
    }
    _same(said, sample.label)
    assert found.complete == sample.label.get("complete", True)


def test_check_config_fails() -> None:
    text = text_of("k3s01").replace("STATUS: pass", "STATUS: 1 (fail)")
    text = text.replace("CONFIG_MEMCG: enabled", "CONFIG_MEMCG: missing (fail)")
    found = parse_k3s_check_config(text)
    assert (found.status, found.missing("Generally Necessary")) == ("fail", ("CONFIG_MEMCG",))
    coloured = text_of("k3s01").replace("STATUS: pass", "STATUS: \x1b[32mpass\x1b[m")
    assert parse_k3s_check_config(coloured).status == "pass"


@pytest.mark.parametrize("sample", of_kind("k3s_containerd"), ids=lambda s: s.file)
def test_containerd(sample: Sample) -> None:
    found = parse_k3s_containerd(sample.text)
    said = {
        "config_version": found.config_version,
        "runtimes": {
            r.name: {"binary": r.binary, "systemd_cgroup": r.systemd_cgroup} for r in found.runtimes
        },
        "default_runtime": found.default_runtime,
        "complete": found.complete,
        "rendered": found.rendered,
    }
    _same(said, sample.label)
    lines = sample.text.split("\n")
    assert all(runtime.name in lines[runtime.line - 1] for runtime in found.runtimes)


def test_containerd_default_runtime() -> None:
    text = text_of("k3c04").replace('snapshotter = "overlayfs"', 'default_runtime_name = "nvidia"')
    assert parse_k3s_containerd(text).default_runtime == "nvidia"


@pytest.mark.parametrize("sample", of_kind("crictl_info"), ids=lambda s: s.file)
def test_crictl(sample: Sample) -> None:
    info = parse_crictl_info(sample.text)
    runtimes = {runtime.name: runtime for runtime in info.runtimes}
    default = runtimes.get(info.default_runtime or "")
    said = {
        "RuntimeReady": info.runtime_ready,
        "NetworkReady": info.network_ready,
        "default_runtime": info.default_runtime,
        "nvidia_runtime": "nvidia" in runtimes,
        "SystemdCgroup": default.systemd_cgroup if default else None,
        "valid_json": info.complete,
        "cni": info.cni_status,
        "enableCDI": info.enable_cdi,
    }
    _same(said, sample.label)


@pytest.mark.parametrize("sample", of_kind("runtimeclass"), ids=lambda s: s.file)
def test_runtimeclass(sample: Sample) -> None:
    assert parse_runtimeclass(sample.text).handlers == sample.label["classes"]


def test_runtimeclass_json() -> None:
    item = {"metadata": {"name": "nvidia"}, "handler": "nvidia-cdi"}
    found = parse_runtimeclass(json.dumps({"kind": "List", "items": [item]}, indent=2))
    assert found.handlers == {"nvidia": "nvidia-cdi"}


@pytest.mark.parametrize("sample", of_kind("k8s_node"), ids=lambda s: s.file)
def test_node(sample: Sample) -> None:
    node = parse_k8s_node(sample.text)
    said = {
        "labels": node.labels,
        "gpu_count": node.gpu_count,
        "product": node.labels.get("nvidia.com/gpu.product"),
        "mig": node.labels.get("nvidia.com/mig.config"),
        "driver_deploy": node.labels.get("nvidia.com/gpu.deploy.driver"),
        "capacity": node.gpu_capacity,
        "allocatable": node.gpu_allocatable,
        "conditions": node.conditions,
        "ready": node.conditions.get("Ready"),
    }
    _same(said, sample.label)


def test_node_described() -> None:
    node = parse_k8s_node(
        "Name:               node1\n"
        "Labels:             kubernetes.io/hostname=node1\n"
        "                    nvidia.com/gpu.count=8\n"
        "Conditions:\n"
        "  Type                 Status  LastHeartbeatTime   Reason\n"
        "  MemoryPressure       False   Mon, 01 Jan 2026    KubeletHasSufficientMemory\n"
        "  Ready                Unknown Mon, 01 Jan 2026    NodeStatusUnknown\n"
        "Capacity:\n  cpu:             112\n  nvidia.com/gpu:  8\n"
        "Allocatable:\n  cpu:             112\n  nvidia.com/gpu:  7\n"
    )
    assert (node.name, node.gpu_count, node.gpu_capacity, node.gpu_allocatable) == (
        "node1",
        8,
        8,
        7,
    )
    assert node.conditions == {"MemoryPressure": False, "Ready": None}


@pytest.mark.parametrize("sample", of_kind("metrics"), ids=lambda s: s.file)
def test_metrics(sample: Sample) -> None:
    label, found = sample.label, parse_metrics(sample.text)
    gpu_rows = {
        name: {s.labels["gpu"]: s.value for s in found.named(name)}
        for name in label.get("values", {})
        if name.startswith("DCGM")
    }
    plain = {
        name: found.named(name)[0].value
        for name in label.get("values", {})
        if not name.startswith("DCGM")
    }
    said = {
        "format": found.form,
        "families": len(found.types),
        "gpus": len(found.gpus()),
        "gpus_per_node": len(found.gpus()),
        "values": gpu_rows or plain,
        "rows": {name: len(found.named(name)) for name in label.get("rows", {})},
        "results": len(found.samples),
        "driver": found.samples[0].labels.get("DCGM_FI_DRIVER_VERSION"),
        "mig": {
            gpu: [s.labels["GPU_I_PROFILE"] for s in found.named("DCGM_FI_DEV_POWER_USAGE")
                  if s.labels["gpu"] == gpu]
            for gpu in label.get("mig", {})
        },
        "request_success": {
            s.labels["finished_reason"]: str(s.value)
            for s in found.named("vllm:request_success_total")
        },
    }  # fmt: skip
    _same(said, label)
    lines = sample.text.split("\n")
    if found.form == "prometheus":
        assert all(lines[s.line - 1].startswith(s.name) for s in found.samples)


def test_metrics_forms() -> None:
    found = parse_metrics(
        '# HELP a b\n# TYPE a gauge\na{x="1, \\"2\\"}",y="\\n"} 1.5e+01 1700000000\n'
        'a_bucket{le="+Inf"} 3\nb NaN\nc{} 0\nd +Inf\n'
    )
    a, bucket, b, c, d = found.samples
    assert (a.labels, a.value) == ({"x": '1, "2"}', "y": "\n"}, 15.0)
    assert (bucket.labels["le"], b.value, c.value, d.value) == ("+Inf", None, 0.0, None)
    assert len(parse_metrics("a 1\nb{x=").samples) == 1


@pytest.mark.parametrize("sample", of_kind("vllm_bench"), ids=lambda s: s.file)
def test_vllm_bench(sample: Sample) -> None:
    label = sample.label
    if label.get("numeric") is False:
        with pytest.raises(ParseError, match="no number"):
            parse_vllm_bench(sample.text)
        return
    found = parse_vllm_bench(sample.text)
    said = {
        "successful": found.successful,
        "failed": found.failed,
        "req_s": found.requests_per_s,
        "out_tok_s": found.output_tokens_per_s,
        "total_tok_s": found.total_tokens_per_s,
        "goodput": found.goodput_requests_per_s,
        "p99_ttft_ms": found.latencies["ttft"].percentiles["99"],
        "p99_tpot_ms": found.latencies["tpot"].percentiles["99"],
        "mean_tpot_ms": found.latencies["tpot"].mean_ms,
    }
    _same(said, label)


def test_vllm_bench_json() -> None:
    result = {
        "date": "20260101", "completed": 8, "failed": 0, "duration": 2.5, "request_rate": "inf",
        "total_input_tokens": 80, "total_output_tokens": 800, "request_throughput": 3.2,
        "request_goodput": None, "output_throughput": 320.0, "total_token_throughput": 352.0,
        "mean_ttft_ms": 10.0, "median_ttft_ms": 9.0, "p99_ttft_ms": 20.5, "std_ttft_ms": 1.0,
        "p99.9_itl_ms": 5.0, "ttfts": [0.1, 0.2], "errors": ["", ""],
    }  # fmt: skip
    found = parse_vllm_bench(json.dumps(result))
    assert (found.form, found.successful, found.goodput_requests_per_s) == ("json", 8, None)
    assert found.latencies["ttft"].percentiles == {"99": 20.5}
    assert found.latencies["itl"].percentiles == {"99.9": 5.0}
    with pytest.raises(ParseError):
        parse_vllm_bench(json.dumps({**result, "completed": "8"}))


K3C01 = text_of("k3c01")
REFUSED = [
    (parse_k3s_check_config, ""),
    (parse_k3s_check_config, "STATUS: pass\n"),
    (parse_k3s_check_config, text_of("k3s01") * 2),
    (parse_k3s_check_config, text_of("k3s01").replace("STATUS: pass", "STATUS: passable")),
    (parse_k3s_containerd, ""),
    (parse_k3s_containerd, "version = 2\nversion = 3\n"),
    (parse_k3s_containerd, "[plugins.'io.containerd.cri.v1.runtime'\n"),
    (parse_k3s_containerd, K3C01 + K3C01),
    (parse_k3s_containerd, "version = 2\n" + K3C01),
    (parse_k3s_containerd, text_of("k3c04") + K3C01),
    (parse_k3s_containerd, K3C01.replace("SystemdCgroup = true", 'SystemdCgroup = "yes"')),
    (parse_k3s_containerd, "a = " + "[" * 900 + "\n"),
    (parse_crictl_info, ""),
    (parse_crictl_info, "{}"),
    (parse_crictl_info, text_of("cri01").replace('"status": true', '"status": 1')),
    (parse_runtimeclass, ""),
    (parse_runtimeclass, "Error from server (Forbidden)\n"),
    (parse_runtimeclass, "NAME HANDLER AGE\nnvidia nvidia\n"),
    (parse_k8s_node, ""),
    (parse_k8s_node, '{"kind": "Pod"}'),
    (parse_k8s_node, 'error: the server doesn\'t have a resource type "node"\n'),
    (parse_k8s_node, text_of("kn03").replace('"nvidia.com/gpu": "7"', '"nvidia.com/gpu": "x"')),
    (parse_metrics, ""),
    (parse_metrics, "curl: (7) Failed to connect to localhost port 9400\n"),
    (parse_metrics, "a one\n"),
    (parse_metrics, 'a{x="1",x="2"} 1\n'),
    (parse_metrics, '{"status": "error"}'),
    (parse_vllm_bench, ""),
    (parse_vllm_bench, text_of("vb01") * 2),
    (parse_vllm_bench, text_of("vb01").replace("19.50", "nineteen")),
    (parse_vllm_bench, "\n".join(text_of("vb01").split("\n")[:5])),
    (parse_vllm_bench, '{"completed": 3}'),
]


@pytest.mark.parametrize(("parse", "text"), REFUSED)
def test_refused(parse: Any, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
