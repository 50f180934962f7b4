"""``kubectl get pods`` and ``kubectl get daemonsets``, each with or without ``-A`` and ``-o wide``.

Evidence: real tables of a GPU operator's namespace, healthy, with completed pods and with a
DaemonSet that selects no node.
"""

from __future__ import annotations

import re

from fabric_tools.models.cluster import DaemonSet, DaemonSets, Pod, Pods
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.k8s_table import cell, count, last_line_ends, read_table

PROBE_PODS = "k8s_pods"
PROBE_DAEMONSETS = "k8s_daemonsets"
_READY = re.compile(r"(\d{1,4})/(\d{1,4})$", re.ASCII)
_RESTARTS = re.compile(r"(\d{1,9})(?: \(\S{1,20} ago\))?$", re.ASCII)
_STATUS = re.compile(r"[A-Z][\w:/.-]{1,80}$", re.ASCII)


def _name(name: str, kind: str) -> str:
    """Where several kinds were asked for, kubectl writes ``pod/NAME``."""
    return name.removeprefix(kind)


def parse_k8s_pods(text: str) -> Pods:
    """One pod a row."""
    pods = []
    for number, row in read_table(PROBE_PODS, text, ("NAME", "READY", "STATUS", "RESTARTS")):
        ready, restarts = _READY.match(row["READY"]), _RESTARTS.match(row["RESTARTS"])
        if ready is None or restarts is None or _STATUS.match(row["STATUS"]) is None:
            raise ParseError(PROBE_PODS, number, f"not a pod: {row['NAME'][:60]!r}")
        pods.append(
            Pod(
                line=number,
                name=_name(row["NAME"], "pod/"),
                namespace=cell(row, "NAMESPACE"),
                ready=int(ready[1]),
                containers=int(ready[2]),
                status=row["STATUS"],
                restarts=int(restarts[1]),
                ip=cell(row, "IP"),
                node=cell(row, "NODE"),
            )
        )
    return Pods(pods=tuple(pods), complete=last_line_ends(text))


def parse_k8s_daemonsets(text: str) -> DaemonSets:
    """One DaemonSet a row."""
    found = []
    heads = ("NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE")
    for number, row in read_table(PROBE_DAEMONSETS, text, heads):
        desired, current, ready, up_to_date, available = (
            count(PROBE_DAEMONSETS, number, row, name) for name in heads[1:]
        )
        found.append(
            DaemonSet(
                line=number,
                name=_name(row["NAME"], "daemonset.apps/"),
                namespace=cell(row, "NAMESPACE"),
                desired=desired,
                current=current,
                ready=ready,
                up_to_date=up_to_date,
                available=available,
                node_selector=cell(row, "NODE SELECTOR"),
            )
        )
    return DaemonSets(daemonsets=tuple(found), complete=last_line_ends(text))
