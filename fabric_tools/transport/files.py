"""Saved snapshots: one JSON file of the collector, or a folder of outputs saved by hand."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fabric_tools import __version__
from fabric_tools.errors import UsageError
from fabric_tools.judge import Reading
from fabric_tools.models.snapshot import (
    CollectorInfo,
    ProbeResult,
    ProbeStatus,
    Snapshot,
    Source,
)
from fabric_tools.parsers.recognise import probe_of_kind, probe_of_text
from fabric_tools.probes import BY_ID, PROBES
from fabric_tools.yaml_file import first_problem, read_bounded

#: More than the sum of what the probe table lets through in practice; a real one is 1 to 10 MiB.
SNAPSHOT_MAX_BYTES = 64 * 1024 * 1024
#: A file whose name says nothing is only looked at up to this size.
_UNNAMED_MAX_BYTES = 16 * 1024 * 1024
SNAPSHOT_NAME = "snapshot.json"
SOURCE_NAME = "SOURCE.txt"
#: Says of each file of a folder what it is and when it was saved.
INDEX_NAME = "node.json"
_NO_OUTPUT = (SNAPSHOT_NAME, SOURCE_NAME, INDEX_NAME, "expected")
_MAX_FILES = 400
_MAX_TEXTS = 16


class IndexEntry(BaseModel):
    """One file of a folder. ``kind`` as ``fabric-tools parse`` names it; ``when`` is free text."""

    model_config = ConfigDict(frozen=True)  # an index may say more than this product reads
    file: Annotated[str, Field(max_length=255)]
    kind: Annotated[str, Field(max_length=80)] = ""
    when: Annotated[str, Field(max_length=120)] = ""


class _Index(BaseModel):
    model_config = ConfigDict(frozen=True)
    files: Annotated[tuple[IndexEntry, ...], Field(max_length=_MAX_FILES)] = ()


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder held. ``notes`` say what the operator should know of the reading."""

    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file, a folder, or standard input (``-``). Raises ``UsageError``."""
    readings = read_folder(path).readings
    if len(readings) > 1 or readings[0].others:
        raise UsageError("holds several readings of one probe", where=str(path),
                         try_next="keep one of each")  # fmt: skip
    return readings[0].snapshot


def read_folder(path: Path) -> Folder:
    """Every reading in a file, a folder, or standard input (``-``). Raises ``UsageError``.

    A file is known by its name (``fabric-tools probes``), else by its content, else by what
    ``node.json`` says of it. Two files for one probe are both judged, and the worse verdict counts;
    where ``node.json`` says that they are of different moments, each moment is judged by itself.
    """
    if str(path) == "-":
        data = sys.stdin.buffer.read(SNAPSHOT_MAX_BYTES + 1)
        if len(data) > SNAPSHOT_MAX_BYTES:
            limit = SNAPSHOT_MAX_BYTES // 2**20
            raise UsageError(f"more than {limit} MiB", where="standard input")
        return Folder((Reading(parse_snapshot(data, "standard input")),))
    if path.is_dir():
        return _from_folder(path)
    data = read_bounded(path, SNAPSHOT_MAX_BYTES)
    return Folder((Reading(parse_snapshot(data, str(path))),))


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


@dataclass(frozen=True, slots=True)
class _Saved:
    """One file that was recognised."""

    name: str
    probe: str
    when: str
    text: str
    how: str


def _from_folder(folder: Path) -> Folder:
    names = sorted(path.name for path in folder.iterdir())
    if SNAPSHOT_NAME in names:
        beside = [name for name in names if name in known_names()]
        if beside:
            raise UsageError(f"holds {SNAPSHOT_NAME} and {beside[0]}", where=str(folder),
                             try_next="keep one of the two kinds")  # fmt: skip
        return read_folder(folder / SNAPSHOT_NAME)
    if len(names) > _MAX_FILES:
        raise UsageError(f"holds more than {_MAX_FILES} files", where=str(folder))
    index = _read_index(folder)
    found: list[_Saved] = []
    strange: list[str] = []
    for name in names:
        if name in _NO_OUTPUT:
            continue
        saved = _recognised(folder / name, index.get(name, IndexEntry(file=name[:255])))
        if saved is None:
            strange.append(name)
        else:
            found.append(saved)
        if sum(len(item.text) for item in found) > SNAPSHOT_MAX_BYTES:
            raise UsageError("holds more than 64 MiB of tool output", where=str(folder))
    _check_texts(found, folder)
    if not found:
        known = ", ".join(probe.files[0] for probe in PROBES if probe.files)
        raise UsageError(
            "holds no tool output that is known by name or content", where=str(folder),
            try_next=f"name the files like this: {known}",
        )  # fmt: skip
    return Folder(_readings(found, _source(folder), index), _notes(found, strange))


def _check_texts(found: list[_Saved], folder: Path) -> None:
    """Each further text of a probe is judged with all the rest, so there is a bound on them."""
    number = Counter((saved.when, saved.probe) for saved in found)
    for (_, probe), times in number.items():
        if times > _MAX_TEXTS:
            raise UsageError(f"holds {times} texts of {probe}, at most {_MAX_TEXTS} are judged",
                             where=str(folder))  # fmt: skip


def _read_index(folder: Path) -> dict[str, IndexEntry]:
    path = folder / INDEX_NAME
    if path.is_symlink() or not path.is_file():
        return {}
    try:
        index = _Index.model_validate_json(read_bounded(path, 1024 * 1024))
    except ValidationError as error:
        raise UsageError(f"not an index: {first_problem(error)}", where=str(path),
                         try_next='{"files": [{"file": "topo.txt", "when": "before"}]}'
                         ) from error  # fmt: skip
    return {entry.file: entry for entry in index.files}


def _recognised(path: Path, entry: IndexEntry) -> _Saved | None:
    if path.is_symlink() or not path.is_file():
        # A link may lead to any file of this machine. What stands under a name that is known is
        # meant to be judged: passing over it would turn a recorded fault into "not recorded".
        if path.name in known_names():
            raise UsageError("not a plain file, so it is not read", where=str(path),
                             try_next="copy the output itself there")  # fmt: skip
        return None
    probe, how = known_names().get(path.name), "name"
    limit = BY_ID[probe].max_bytes if probe else _UNNAMED_MAX_BYTES
    if probe is None and path.stat().st_size > limit:
        return None
    text = read_bounded(path, limit).decode("utf-8", "replace")
    if probe is None:
        probe, how = probe_of_text(text), "content"
    if probe is None and entry.kind:
        named = probe_of_kind(entry.kind)
        probe, how = (named, INDEX_NAME) if named in BY_ID else (None, "")
    return _Saved(path.name, probe, entry.when, text, how) if probe else None


def _readings(
    found: list[_Saved], source: Source, index: dict[str, IndexEntry]
) -> tuple[Reading, ...]:
    """One reading a moment, in the order of the index."""
    order = list(dict.fromkeys(entry.when for entry in index.values()))
    moments = sorted({saved.when for saved in found}, key=lambda w: (w not in order, order.index(w)
                     if w in order else 0))  # fmt: skip
    readings = []
    for moment in moments:
        texts: dict[str, list[_Saved]] = {}
        for saved in found:
            if saved.when == moment:
                texts.setdefault(saved.probe, []).append(saved)
        first = _snapshot([items[0] for items in texts.values()], source)
        others = tuple(
            first.model_copy(update={"probes": {**first.probes, probe: _result(item)}})
            for probe, items in texts.items()
            for item in items[1:]
        )
        readings.append(Reading(first, others, moment=moment))
    return tuple(readings)


def _result(saved: _Saved) -> ProbeResult:
    return ProbeResult(
        status=ProbeStatus.OK,
        argv=BY_ID[saved.probe].argv,
        stdout=saved.text,
        note=f"read from {saved.name}",
    )


def _snapshot(found: list[_Saved], source: Source) -> Snapshot:
    order = {probe.id: number for number, probe in enumerate(PROBES)}
    return Snapshot(
        schema_version=1,
        kind="fabric-tools/snapshot",
        collector=CollectorInfo(version=__version__),
        source=source,
        probes={
            saved.probe: _result(saved) for saved in sorted(found, key=lambda s: order[s.probe])
        },
    )


def _notes(found: list[_Saved], strange: list[str]) -> tuple[str, ...]:
    """So that a misnamed file does not vanish silently, and a guess is told."""
    notes = []
    guessed = [f"{saved.name} is {saved.probe}" for saved in found if saved.how != "name"]
    if guessed:
        notes.append(f"known by content, not by name: {', '.join(guessed)}")
    twice: dict[tuple[str, str], list[str]] = {}
    for saved in found:
        twice.setdefault((saved.when, saved.probe), []).append(saved.name)
    for (_, probe), names in twice.items():
        if len(names) > 1:
            notes.append(f"{' and '.join(names)} are both {probe}: the worse verdict counts")
    if strange:
        notes.append(
            f"not read, neither name nor content known: {', '.join(strange)} "
            "(known names: fabric-tools probes)"
        )
    return tuple(notes)


def _source(folder: Path) -> Source:
    """A folder with SOURCE.txt is a recording; its first paragraph is shown in every report."""
    path = folder / SOURCE_NAME
    if path.is_symlink() or not path.is_file():
        return Source(kind="files", note="a folder of outputs saved by hand")
    text = read_bounded(path, 64 * 1024).decode("utf-8", "replace")
    first = " ".join(text.strip().partition("\n\n")[0].split())
    return Source(kind="recorded", note=first[:300])
