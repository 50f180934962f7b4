"""Facts of K3s, containerd, Kubernetes objects, metrics and the serving benchmark.

``None``: the text does not say. It never means zero or off.
"""

from __future__ import annotations

from typing import Literal

from fabric_tools.models.base import Fact, Model


class K3sConfigItem(Model):
    """One "- name: state" line of ``k3s check-config``."""

    line: int
    section: str
    name: str
    state: str


class K3sCheckConfig(Fact):
    """``k3s check-config``. ``status``: pass or fail; None where the STATUS line is cut off.

    ``complete`` is False also where lines were elided: then even "pass" is no evidence.
    """

    status: Literal["pass", "fail"] | None = None
    status_line: int | None = None
    items: tuple[K3sConfigItem, ...]
    complete: bool

    def missing(self, section: str) -> tuple[str, ...]:
        """Names that are missing in that section ("Generally Necessary", "Optional Features")."""
        return tuple(
            i.name for i in self.items if i.section == section and i.state.startswith("missing")
        )


class ContainerRuntime(Model):
    """One containerd runtime; None where its line was not shown."""

    name: str
    line: int
    runtime_type: str | None = None
    binary: str | None = None
    systemd_cgroup: bool | None = None


class ContainerdConfig(Fact):
    """containerd's config.toml as K3s renders it. ``rendered`` is False for the template.

    ``config_version`` follows the plugin names where the version line is not shown. ``complete``:
    the version line is there, so this is no excerpt.
    """

    config_version: int | None
    rendered: bool
    runtimes: tuple[ContainerRuntime, ...]
    default_runtime: str | None = None
    complete: bool

    def runtime(self, name: str) -> ContainerRuntime | None:
        """The runtime of exactly that name."""
        return next((r for r in self.runtimes if r.name == name), None)


class CrictlInfo(Fact):
    """``crictl info``. ``complete`` is False for a fragment that is no JSON."""

    runtime_ready: bool | None = None
    network_ready: bool | None = None
    network_message: str | None = None
    ready_line: int | None = None
    default_runtime: str | None = None
    runtimes: tuple[ContainerRuntime, ...] = ()
    enable_cdi: bool | None = None
    cni_status: str | None = None
    complete: bool


class RuntimeClasses(Fact):
    """``kubectl get runtimeclass``: name to handler, name to line."""

    handlers: dict[str, str]
    lines: dict[str, int]


class K8sNode(Fact):
    """One node: labels, GPU resources, conditions. A condition is None where its state is Unknown.

    Allocatable GPUs are no proof that CUDA works on them.
    """

    name: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    gpu_capacity: int | None = None
    gpu_allocatable: int | None = None
    conditions: dict[str, bool | None] = {}
    lines: dict[str, int] = {}

    @property
    def gpu_count(self) -> int | None:
        """What GPU feature discovery wrote into the labels."""
        value = self.labels.get("nvidia.com/gpu.count", "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else None


class MetricSample(Model):
    """One sample. ``value`` is None for NaN and infinity."""

    line: int
    name: str
    labels: dict[str, str] = {}
    value: float | None


class Metrics(Fact):
    """A scrape in the exposition format, or the reply of Prometheus' query API.

    ``types`` maps a family to its TYPE. ``_created`` twins are times; MIG repeats a GPU's rows.
    ``complete`` is False where rows must be missing: a family without its TYPE line, one that names
    fewer GPUs than others (MIG has no utilization), a last line without its end. The format has no
    closing line, so whole families may still be missing.
    """

    form: Literal["prometheus", "prometheus-api"]
    types: dict[str, str] = {}
    samples: tuple[MetricSample, ...]
    complete: bool

    def named(self, name: str) -> tuple[MetricSample, ...]:
        """Samples of that name, in order."""
        return tuple(sample for sample in self.samples if sample.name == name)

    def gpus(self) -> tuple[str, ...]:
        """GPU numbers in the labels, each once, over all families."""
        found = (s.labels["gpu"] for s in self.samples if "gpu" in s.labels)
        return tuple(dict.fromkeys(found))


class Latency(Model):
    """One latency in milliseconds. ``percentiles`` by number: ``"99"``, ``"99.9"``."""

    line: int
    mean_ms: float | None = None
    median_ms: float | None = None
    std_ms: float | None = None
    percentiles: dict[str, float] = {}


class ServingBenchmark(Fact):
    """``vllm bench serve``. ``latencies`` by ``ttft``, ``tpot``, ``itl``, ``e2el``.

    ``complete``: the closing rule was printed (some excerpts lack it although nothing is missing).
    """

    form: Literal["text", "json"]
    line: int
    successful: int
    failed: int | None = None
    duration_s: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    requests_per_s: float
    goodput_requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    peak_output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    max_concurrency: int | None = None
    latencies: dict[str, Latency] = {}
    complete: bool


class Pod(Model):
    """One row of ``kubectl get pods``. ``ready`` of ``containers``; ``status`` as printed."""

    line: int
    name: str
    namespace: str | None = None
    ready: int
    containers: int
    status: str
    restarts: int
    ip: str | None = None
    node: str | None = None

    @property
    def good(self) -> bool:
        """Running with every container ready, or completed (then 0 of 1 is its end)."""
        if self.status == "Running":
            return self.ready == self.containers
        return self.status in ("Completed", "Succeeded")


class Pods(Fact):
    """``kubectl get pods``. ``complete`` is False where the last line has no end."""

    pods: tuple[Pod, ...]
    complete: bool


class DaemonSet(Model):
    """One row of ``kubectl get daemonsets``. 0 desired is normal where no node is selected."""

    line: int
    name: str
    namespace: str | None = None
    desired: int
    current: int
    ready: int
    up_to_date: int
    available: int
    node_selector: str | None = None


class DaemonSets(Fact):
    """``kubectl get daemonsets``. ``complete`` is False where the last line has no end."""

    daemonsets: tuple[DaemonSet, ...]
    complete: bool


class DraDevice(Model):
    """One device of a ResourceSlice. ``driver_version`` as printed: it lost its leading zeros."""

    line: int
    name: str
    type: str | None = None
    uuid: str | None = None
    product: str | None = None
    driver_version: str | None = None
    pci_bus_id: str | None = None
    memory: str | None = None

    @property
    def nvidia_driver(self) -> str | None:
        """The version as NVIDIA writes it: 580.105.8 is 580.105.08."""
        parts = (self.driver_version or "").split(".")
        if len(parts) != 3 or not all(part.isdigit() for part in parts):
            return None
        return f"{parts[0]}.{parts[1]}.{parts[2]:0>2}"


class ResourceSlice(Model):
    """One ResourceSlice. ``devices`` is None in the table, which does not list them."""

    line: int
    name: str
    driver: str
    node: str | None = None
    pool: str | None = None
    generation: int | None = None
    pool_slices: int | None = None
    devices: tuple[DraDevice, ...] | None = None


class ResourceSlices(Fact):
    """``kubectl get resourceslices``, as YAML, JSON or table.

    ``complete``: the list is closed, and every pool has as many slices as it counts.
    """

    slices: tuple[ResourceSlice, ...]
    complete: bool

    def gpus(self) -> dict[str, int]:
        """GPUs per node, over the newest generation of each pool. MIG devices do not count."""
        newest: dict[tuple[str, str | None], int] = {}
        for item in self.slices:
            key = (item.driver, item.pool)
            newest[key] = max(newest.get(key, 0), item.generation or 0)
        found: dict[str, int] = {}
        for item in self.slices:
            gpus = [device for device in item.devices or () if device.type == "gpu"]
            if gpus and item.node and newest[item.driver, item.pool] == (item.generation or 0):
                found[item.node] = found.get(item.node, 0) + len(gpus)
        return found
