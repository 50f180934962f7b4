"""Saved snapshots: one JSON file of the collector, or a folder of outputs saved by hand."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import ValidationError

from fabric_tools import __version__
from fabric_tools.errors import UsageError
from fabric_tools.models.snapshot import (
    CollectorInfo,
    ProbeResult,
    ProbeStatus,
    Snapshot,
    Source,
)
from fabric_tools.probes import PROBES
from fabric_tools.yaml_file import first_problem, read_bounded

#: More than the sum of what the probe table lets through in practice; a real one is 1 to 10 MiB.
SNAPSHOT_MAX_BYTES = 64 * 1024 * 1024
SNAPSHOT_NAME = "snapshot.json"
SOURCE_NAME = "SOURCE.txt"


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file, a folder, or standard input (``-``). Raises ``UsageError``."""
    if str(path) == "-":
        data = sys.stdin.buffer.read(SNAPSHOT_MAX_BYTES + 1)
        if len(data) > SNAPSHOT_MAX_BYTES:
            limit = SNAPSHOT_MAX_BYTES // 2**20
            raise UsageError(f"more than {limit} MiB", where="standard input")
        return parse_snapshot(data, "standard input")
    if path.is_dir():
        return _from_folder(path)
    return parse_snapshot(read_bounded(path, SNAPSHOT_MAX_BYTES), str(path))


def parse_snapshot(data: bytes | str, where: str) -> Snapshot:
    """JSON text to a snapshot. Raises ``UsageError`` with what is wrong with it."""
    try:
        return Snapshot.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(
            f"not a snapshot: {first_problem(error)}", where=where,
            try_next="make one with `fabric-tools collect` or fabric-collect.pyz",
        ) from error  # fmt: skip


def known_names() -> dict[str, str]:
    """File names that are recognised in a folder, each with its probe."""
    return {name: probe.id for probe in PROBES for name in probe.files}


def _from_folder(folder: Path) -> Snapshot:
    """A folder says each thing once: two files for one probe are refused, not chosen from."""
    inner = folder / SNAPSHOT_NAME
    present = {probe.id: [n for n in probe.files if (folder / n).exists()] for probe in PROBES}
    if inner.is_file():
        beside = [name for names in present.values() for name in names]
        if beside:
            raise UsageError(f"holds {SNAPSHOT_NAME} and {beside[0]}", where=str(folder),
                             try_next="keep one of the two kinds")  # fmt: skip
        return read_snapshot(inner)
    probes: dict[str, ProbeResult] = {}
    for probe in PROBES:
        names = present[probe.id]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} are both {probe.id}", where=str(folder),
                             try_next="keep one of them")  # fmt: skip
        for name in names:
            path = folder / name
            text = read_bounded(path, probe.max_bytes).decode("utf-8", "replace")
            probes[probe.id] = ProbeResult(
                status=ProbeStatus.OK, argv=probe.argv, stdout=text, note=f"read from {name}"
            )
    if not probes:
        known = ", ".join(probe.files[0] for probe in PROBES if probe.files)
        raise UsageError(
            "holds no tool output that is known by name", where=str(folder),
            try_next=f"name the files like this: {known}",
        )  # fmt: skip
    return Snapshot(
        schema_version=1,
        kind="fabric-tools/snapshot",
        collector=CollectorInfo(version=__version__),
        source=_source(folder),
        probes=probes,
    )


def unrecognised(folder: Path) -> list[str]:
    """Names in a folder that no probe claims, so that a misnamed file does not vanish silently."""
    names = set(known_names()) | {SOURCE_NAME, SNAPSHOT_NAME, "expected"}
    return sorted(path.name for path in folder.iterdir() if path.name not in names)


def _source(folder: Path) -> Source:
    """A folder with SOURCE.txt is a recording; its first paragraph is shown in every report."""
    path = folder / SOURCE_NAME
    if not path.is_file():
        return Source(kind="files", note="a folder of outputs saved by hand")
    text = read_bounded(path, 64 * 1024).decode("utf-8", "replace")
    first = " ".join(text.strip().partition("\n\n")[0].split())
    return Source(kind="recorded", note=first[:300])
