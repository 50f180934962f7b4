"""A ledger in a folder, its key, and entries as gates leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fabric_tools.ledger import (
    Inputs,
    Ledger,
    NodeNow,
    Proof,
    create_keys,
    entry_of,
    inputs_of,
    load_private_key,
    proved,
    state_of,
)
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.ledger import LedgerEntry, NodeState
from fabric_tools.models.report import Decision
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.models.verdict import Waiver
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import HEALTHY

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
#: Ten, so that a test may use one as it stands.
CHAIN = (
    Phase.PREFLIGHT, Phase.BASE, Phase.DRIVER, Phase.CUDA, Phase.CONTAINERD, Phase.K3S,
    Phase.NVLINK, Phase.ROCE, Phase.WEIGHTS, Phase.SERVING,
)  # fmt: skip


def live(path: Path = HEALTHY, machine: str = "m1", boot: str = "b1") -> Snapshot:
    """The healthy example as if a collector had just read it from a node with RDMA devices."""
    found = read_snapshot(path)
    host = found.host.model_copy(
        update={"machine_id": machine, "boot_id": boot, "hostname": "node1"}
    )
    source = found.source.model_copy(update={"kind": "node", "note": ""})
    return found.model_copy(update={"host": host, "source": source})


@dataclass
class Site:
    """One host's ledger and the site's key."""

    folder: Path
    key: Ed25519PrivateKey
    snapshot: Snapshot
    host: str = "node1"
    site: HostVars = field(default_factory=HostVars)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder, self.host)

    @property
    def public(self) -> Ed25519PublicKey:
        return self.key.public_key()

    @property
    def inputs(self) -> Inputs:
        return inputs_of(self.site, None)

    def entry(
        self,
        phase: Phase,
        *,
        is_open: bool = True,
        passive_only: bool = False,
        waivers: Sequence[Waiver] = (),
        at: datetime = NOW,
    ) -> LedgerEntry:
        made = entry_of(
            Decision(
                phase=phase, open=is_open, exit_code=0 if is_open else 1,
                passive_only=passive_only, reasons=() if is_open else ("failed: gpu.count",),
            ),
            self.snapshot, "text", host=self.host, inputs=self.inputs, waivers=(), recorded_at=at,
        )  # fmt: skip
        return made.model_copy(update={"waivers": tuple(waivers)})

    def add(self, *phases: Phase, **more: object) -> None:
        for phase in phases:
            self.ledger.append(self.entry(phase, **more), self.key)  # type: ignore[arg-type]

    def now(self, **other: object) -> NodeNow:
        """The node as it was recorded, but for ``other``."""
        node = NodeNow("m1", "b1", self.inputs, self.state)
        return replace(node, **other)  # type: ignore[arg-type]

    def ask(self, phase: Phase, as_of: datetime = NOW, **other: object) -> Proof | str:
        """``proved`` at that time."""
        node = self.now(**other)
        return proved(self.ledger, phase, node, public_key=self.public, as_of=as_of)

    @property
    def state(self) -> NodeState:
        return state_of(self.snapshot)


def new_site(folder: Path, snapshot: Snapshot | None = None) -> Site:
    folder.mkdir(mode=0o700, exist_ok=True)
    create_keys(folder / "site.key")
    return Site(folder, load_private_key(folder / "site.key"), snapshot or live())
