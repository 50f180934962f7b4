"""From a judged snapshot to a ledger entry: the inputs, and what the node ran, as named values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fabric_tools import __version__
from fabric_tools.errors import UsageError
from fabric_tools.gate import used_waivers
from fabric_tools.ledger.lines import digest
from fabric_tools.models.base import Fact, Model
from fabric_tools.models.fabric_ports import RdmaPorts
from fabric_tools.models.facts import (
    FabricManagerVersion,
    GpuInventory,
    KernelRelease,
    LoadedModule,
    OsRelease,
    SmiVersion,
)
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.ledger import LedgerEntry, NodeState
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import ProbeStatus, Snapshot
from fabric_tools.models.system import Packages
from fabric_tools.models.verdict import Waiver
from fabric_tools.parsers.reader import Facts, Missing

ABSENT = "absent"
#: A node lists tens of packages and NICs; one that lists more than this is not remembered by name.
_MAX_NAMED = 256
_MAX_CHARS = 200


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the operator controls: the name of each part and the SHA-256 of its content."""

    parts: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """Of all parts: equal where nothing that goes in has changed."""
        return digest(json.dumps(dict(self.parts), sort_keys=True).encode())


def inputs_of(
    site: HostVars,
    platform: PlatformSpec | None,
    stack: Model | None = None,
    more: Mapping[str, str] | None = None,
) -> Inputs:
    """The parts: ``platform``, ``stack``, each field of ``fabric_host``, and ``more`` digests.

    Waivers are left out: they change no state of a node, and every gate judges them anew. A part
    is named by digest only, so that no credential of a proxy URL lies in the ledger.
    """
    parts = {
        f"fabric_host.{name}": _sha256(json.dumps(value, sort_keys=True))
        for name, value in site.model_dump(mode="json", exclude={"waivers"}).items()
    }
    parts["platform"] = _sha256(platform.model_dump_json()) if platform else ""
    parts["stack"] = _sha256(stack.model_dump_json()) if stack else ""
    return Inputs(parts | dict(more or {}))


def files_sha256(folder: Path) -> str:
    """One digest of the names and contents of all files below a folder (roles, templates)."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix()
            found.update(f"{name}\n{digest(path.read_bytes())}\n".encode("utf-8", "replace"))
    return found.hexdigest()


def entry_of(
    decision: Decision,
    snapshot: Snapshot,
    snapshot_text: str,
    *,
    host: str,
    inputs: Inputs,
    waivers: Sequence[Waiver],
    recorded_at: datetime,
) -> LedgerEntry:
    """The entry for one decided gate, not signed yet.

    ``snapshot_text`` is the text that was judged; ``waivers`` those that the gate was given.
    Raises ``UsageError`` for a snapshot that is no reading of the node itself, or is redacted.
    """
    if snapshot.redacted or snapshot.source.kind in ("files", "recorded"):
        raise UsageError("only a whole reading of the node itself proves a phase", where=host)
    return LedgerEntry(
        host=host,
        machine_id=short(snapshot.host.machine_id),
        boot_id=short(snapshot.host.boot_id),
        phase=decision.phase,
        open=decision.open,
        passive_only=decision.passive_only,
        exit_code=decision.exit_code,
        reasons=tuple(short(reason) for reason in decision.reasons),
        tool_version=__version__,
        inputs=dict(inputs.parts),
        inputs_sha256=inputs.sha256,
        snapshot_sha256=_sha256(snapshot_text),
        state=state_of(snapshot),
        waivers=used_waivers(decision, waivers),
        recorded_at=recorded_at,
    )


def state_of(snapshot: Snapshot) -> NodeState:
    """What the node ran, by name. What could not be read is named as unknown, with the reason."""
    facts = Facts(snapshot)
    values: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for family, kind in _FAMILIES.items():
        fact = facts.get(kind)
        if isinstance(fact, Missing):
            result = snapshot.probes.get(fact.probe)
            if result is not None and result.status is ProbeStatus.ABSENT:
                values[family] = ABSENT
            else:
                unknown[family] = short(fact.reason)
            continue
        named = {short(name): short(value) for name, value in _named(family, fact)}
        if len(named) > _MAX_NAMED:
            unknown[family] = f"more than {_MAX_NAMED} of them"
        else:
            values |= named
    return NodeState(values=values, unknown=unknown)


#: What is remembered, and the fact that it is read from.
_FAMILIES: dict[str, type[Fact]] = {
    "kernel": KernelRelease,
    "os": OsRelease,
    "driver": LoadedModule,
    "userspace": SmiVersion,
    "fabric_manager": FabricManagerVersion,
    "gpu": GpuInventory,
    "nic": RdmaPorts,
    "package": Packages,
}


def _named(family: str, fact: Fact) -> Iterator[tuple[str, str]]:
    match fact:
        case KernelRelease():
            yield family, fact.release
        case OsRelease():
            yield family, f"{fact.id} {fact.version_id}"
        case LoadedModule() | FabricManagerVersion():
            yield family, fact.version
        case SmiVersion():
            yield family, fact.driver_version or fact.nvml_version or fact.smi_version
        case GpuInventory():
            for gpu in fact.gpus:
                yield f"gpu {gpu.index}", _words(gpu.product, gpu.uuid, gpu.vbios_version)
        case RdmaPorts():
            for port in fact.ports:
                yield f"nic {port.device}", _words(port.device_type, port.node_guid, port.firmware)
        case Packages():
            yield from _packages(fact)


def _packages(fact: Packages) -> Iterable[tuple[str, str]]:
    """Two architectures or two versions of one name (rpm allows both) are kept together."""
    found: dict[str, list[str]] = {}
    for package in fact.installed():
        found.setdefault(package.name, []).append(_words(package.version, package.arch))
    return [(f"package {name}", ", ".join(sorted(all_of))) for name, all_of in found.items()]


def _words(*words: str | None) -> str:
    return " ".join(word or "-" for word in words)


def short(text: str) -> str:
    """A node's words: printable, on one line, and short."""
    return "".join(c if c.isprintable() else " " for c in text)[:_MAX_CHARS].strip()


def _sha256(text: str) -> str:
    return digest(text.encode("utf-8", "replace"))
