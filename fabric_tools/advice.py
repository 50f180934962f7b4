"""What to do about an UNKNOWN: read the node better. A fault has its own remedy, from its check."""

from __future__ import annotations

import shlex

from fabric_tools.checks.registry import Finding
from fabric_tools.models.snapshot import ProbeStatus, Snapshot
from fabric_tools.probes import BY_ID as PROBES

_REMEDIES = {
    ProbeStatus.ABSENT: "install the tool on the node, or find out why the file is not there",
    ProbeStatus.DENIED: "read the node as root (sudo)",
    ProbeStatus.TIMEOUT: "the tool hangs, which is a finding: read dmesg for Xid 119 or 79, reboot",
    ProbeStatus.CUT: "read it again; if it stays, run the command by hand and look at its size",
    ProbeStatus.FAILED: "run the command by hand and read its error",
    ProbeStatus.ERROR: "run the command by hand and read its error",
}


def how_to_read(finding: Finding, snapshot: Snapshot) -> str:
    """UNKNOWN asks for a better reading of the node, not for a repair of it."""
    name = finding.evidence[0].probe if finding.evidence else ""
    probe, result = PROBES.get(name), snapshot.probes.get(name)
    if probe is None:
        return ""
    if "nvidia-smi said" in finding.actual:
        return "nvidia-smi answered with an error: mend that first, see driver.answers"
    if result is not None and result.status is not ProbeStatus.OK:
        return _REMEDIES[result.status]
    words = ["INTERFACE" if word == "{}" else word for word in probe.argv]
    if probe.kind == "packages":  # what stands behind "--" are patterns, the tool wants names
        words = [*words[: words.index("--")], "PACKAGE..."]
    command = f"`{shlex.join(words)}`" if words else f"what fabric-collect.pyz reads: {probe.says}"
    if probe.kind == "file":
        command = f"the file {probe.argv[0]}"
    if snapshot.source.kind == "node":
        return f"look at what {command} says on the node"
    return f"record the whole of {command}" + (f" as {probe.files[0]}" if probe.files else "")
