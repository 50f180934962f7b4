"""`crictl info`: readiness, runtimes and CDI as containerd sees them.

Evidence: one real excerpt of containerd 2.x and the tail of one of 1.7.
"""

from __future__ import annotations

import re

from fabric_tools.models.cluster import ContainerRuntime, CrictlInfo
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import (
    MIB,
    Finder,
    as_bool,
    as_dict,
    as_list,
    as_str,
    json_start,
    load_json,
    read_lines,
)

PROBE = "crictl_info"

_CDI = re.compile(r'\s*"enableCDI": (true|false),?$')
_CNI = re.compile(r'\s*"lastCNILoadStatus": "([^"]{1,500})",?$')


def _condition(conditions: list[object], kind: str) -> tuple[bool | None, str | None]:
    found = [as_dict(c) for c in conditions if as_str(as_dict(c).get("type")) == kind]
    if len(found) > 1:
        raise ParseError(PROBE, 0, f"{kind} stands there twice")
    if not found:
        return None, None
    status = as_bool(found[0].get("status"))
    if status is None:
        raise ParseError(PROBE, 0, f"{kind} has no status")
    return status, as_str(found[0].get("message"))


def _fragment(lines: list[str], why: ParseError) -> CrictlInfo:
    """A piece that is no JSON: only what one line says by itself."""
    cdi = [match[1] == "true" for line in lines if (match := _CDI.match(line))]
    cni = [match[1] for line in lines if (match := _CNI.match(line))]
    if len(cdi) > 1 or len(cni) > 1 or not (cdi or cni):
        raise why
    return CrictlInfo(
        enable_cdi=cdi[0] if cdi else None, cni_status=cni[0] if cni else None, complete=False
    )


def _runtimes(containerd: dict[str, object], finder: Finder) -> tuple[ContainerRuntime, ...]:
    found: list[ContainerRuntime] = []
    for name, value in as_dict(containerd.get("runtimes")).items():
        options = as_dict(as_dict(value).get("options"))
        found.append(
            ContainerRuntime(
                name=name,
                line=finder.key(name),
                runtime_type=as_str(as_dict(value).get("runtimeType")),
                binary=as_str(options.get("BinaryName")),
                systemd_cgroup=as_bool(options.get("SystemdCgroup")),
            )
        )
    return tuple(found)


def parse_crictl_info(text: str) -> CrictlInfo:
    """What the status and the configuration say."""
    lines = read_lines(PROBE, text, max_line=MIB)
    start = json_start(lines)
    body = "\n".join(lines[start:]) if start is not None else ""
    try:
        root = as_dict(load_json(PROBE, body))
    except ParseError as error:
        return _fragment(lines, ParseError(PROBE, 0, f"no whole JSON ({error.why})"))
    config, status = as_dict(root.get("config")), as_dict(root.get("status"))
    conditions = as_list(status.get("conditions"))
    runtime, _ = _condition(conditions, "RuntimeReady")
    network, message = _condition(conditions, "NetworkReady")
    if runtime is None and not config:
        raise ParseError(PROBE, (start or 0) + 1, "neither status nor config of crictl info")
    containerd, finder = as_dict(config.get("containerd")), Finder("\n".join(lines))
    finder.key("runtimes")
    return CrictlInfo(
        runtime_ready=runtime,
        network_ready=network,
        network_message=message,
        ready_line=Finder("\n".join(lines)).key("conditions") if conditions else None,
        default_runtime=as_str(containerd.get("defaultRuntimeName")),
        runtimes=_runtimes(containerd, finder),
        enable_cdi=as_bool(config.get("enableCDI")),
        cni_status=as_str(root.get("lastCNILoadStatus")),
        complete=runtime is not None and bool(config),
    )
