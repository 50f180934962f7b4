"""The file of one host: appended under a lock, synced to the disk, never rewritten."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fabric_tools.errors import UsageError
from fabric_tools.ledger.lines import Chain, LedgerError, check, complaints, digest, sign, split
from fabric_tools.models.ledger import LedgerEntry

_SUFFIX = ".jsonl"
#: A file name has at most 255 bytes; the rest is for what is kept aside.
_MAX_NAME = 240
#: An entry has a few KB, so this is some ten thousand gates of one host.
_MAX_BYTES = 64 * 1024 * 1024
_LOCK_WAIT_S = 30.0
_LOCK_STEP_S = 0.02


def default_folder() -> Path:
    """``$FABRIC_STATE``, else ``fabric-tools/ledger`` in ``$XDG_STATE_HOME`` or ~/.local/state."""
    if os.environ.get("FABRIC_STATE"):
        return Path(os.environ["FABRIC_STATE"])
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "fabric-tools" / "ledger"


def ledgers(folder: Path) -> tuple[Ledger, ...]:
    """The ledgers in a folder, by host name; none where there is no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(folder)) from error
    found = []
    for name in names:
        host = unquote(name.removesuffix(_SUFFIX))
        with contextlib.suppress(UsageError):  # a name that no host has
            if name == file_name(host):
                found.append(Ledger(folder, host))
    return tuple(found)


def file_name(host: str) -> str:
    """The name of a host's file: what is not a letter, digit, ``_``, ``-`` or ``.`` is quoted.

    Raises ``UsageError`` for a name that is empty, too long, or not printable.
    """
    if not host or not host.isprintable() or host != host.strip():
        raise UsageError(f"{host!r} is no host name", where="ledger")
    name = quote(host, safe="")
    name = "%2E" + name[1:] if name.startswith(".") else name
    if len(name) > _MAX_NAME:
        raise UsageError(f"{host[:40]}... is too long for a host name", where="ledger")
    return name + _SUFFIX


def make_folder(folder: Path) -> None:
    """The folder and those above it, 0700. ``UsageError`` where others may write to it."""
    try:
        for each in (*reversed(folder.parents), folder):
            with contextlib.suppress(FileExistsError):
                each.mkdir(mode=0o700)
        seen = folder.stat()
    except OSError as error:
        raise UsageError(f"cannot make: {error.strerror}", where=str(folder)) from error
    _only_ours(seen, folder, "700")


class Ledger:
    """The append-only file of one host in ``folder``. ``notes``: what an append had to mend."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder, self.host = folder, host
        self.path = folder / file_name(host)
        self.notes: list[str] = []

    def append(self, entry: LedgerEntry, key: Ed25519PrivateKey) -> LedgerEntry:
        """Sign and add one entry; it is on the disk when this returns. Returns it as written.

        What a killed writer left behind the last whole line is moved to a ``.torn`` file first.
        Raises ``LedgerError`` where the last line is damaged, of another host or key, or another
        process holds the file; ``UsageError`` where the file cannot be used at all.
        """
        if entry.host != self.host:
            raise UsageError(f"an entry of {entry.host} in the ledger of {self.host}")
        make_folder(self.folder)
        with self._opened(os.O_RDWR | os.O_CREAT | os.O_APPEND, fcntl.LOCK_EX) as handle:
            _settle(handle, self.path)
            chain = split(_read(handle, self.path))
            self._cut(handle, chain)
            self._may_extend(chain, key)
            signed, line = sign(entry, key, chain.head)
            _add(handle, line, self.path)
        return signed

    def chain(self) -> Chain:
        """All lines, read under a shared lock; none where there is no file yet."""
        try:
            with self._opened(os.O_RDONLY, fcntl.LOCK_SH) as handle:
                return split(_read(handle, self.path))
        except FileNotFoundError:
            return Chain(())

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, signatures not checked. ``LedgerError`` names a line that is none."""
        lines = self.chain().lines
        for line in lines:
            if line.entry is None:
                raise LedgerError(f"line {line.number} {line.why}", where=str(self.path))
        return tuple(line.entry for line in lines if line.entry is not None)

    def last(self, phase: str) -> LedgerEntry | None:
        """The last entry of a phase, open or closed."""
        return next((e for e in reversed(self.entries()) if e.phase == phase), None)

    def verify(self, public_key: Ed25519PublicKey) -> tuple[str, ...]:
        """Complaints, each ``line N: why``; empty where the chain is whole.

        A torn last line is no complaint (see ``chain().torn``): it never was an entry.
        """
        return check(self.chain(), self.host, public_key)

    @contextmanager
    def _opened(self, flags: int, lock: int) -> Iterator[int]:
        """The file, locked. Raises ``FileNotFoundError`` where it is only read and not there."""
        try:
            handle = os.open(self.path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise
        except OSError as error:
            link = error.errno == errno.ELOOP
            why = "is a symbolic link" if link else f"cannot open: {error.strerror}"
            raise UsageError(why, where=str(self.path)) from error
        try:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                raise UsageError("not a regular file", where=str(self.path))
            # Root may read what another account keeps, but must not add what that one cannot read.
            if lock == fcntl.LOCK_EX or os.geteuid() != 0:
                _only_ours(seen, self.path, "600")
            _lock(handle, lock, self.path)
            yield handle
        finally:
            os.close(handle)  # and with it the lock

    def _cut(self, handle: int, chain: Chain) -> None:
        """Move a torn last line aside; the lines before it keep every byte."""
        if not chain.torn:
            return
        aside = self.path.with_suffix(".torn")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            kept = os.open(aside, flags, 0o600)
            try:
                _write(kept, chain.torn + b"\n")
                os.fsync(kept)
            finally:
                os.close(kept)
            os.ftruncate(handle, os.fstat(handle).st_size - len(chain.torn))
            os.fsync(handle)
        except OSError as error:
            raise UsageError(f"cannot keep: {error.strerror}", where=str(aside)) from error
        self.notes.append(
            f"{self.path}: a writer was cut off after line {len(chain.lines)}; its "
            f"{len(chain.torn)} bytes were never an entry and were moved to {aside.name}"
        )

    def _may_extend(self, chain: Chain, key: Ed25519PrivateKey) -> None:
        """What is wrong with the last line must not be hidden below new ones."""
        if not chain.lines:
            return
        before = digest(chain.lines[-2].data) if len(chain.lines) > 1 else ""
        wrong = complaints(chain.lines[-1], self.host, key.public_key(), before)
        if wrong:
            raise LedgerError(
                f"line {len(chain.lines)} {wrong[0]}", where=str(self.path),
                try_next=f"see `fabric-tools ledger verify {shlex.quote(self.host)}`; to begin "
                "anew keep the file elsewhere, every phase is then to be proved again",
            )  # fmt: skip


def _only_ours(seen: os.stat_result, path: Path, mode: str) -> None:
    """What others may write to proves nothing."""
    if seen.st_uid not in (os.geteuid(), 0):
        raise UsageError("belongs to another user", where=str(path))
    if stat.S_IMODE(seen.st_mode) & 0o022:
        raise UsageError(
            "other users may write here", where=str(path), try_next=f"chmod {mode} {path}"
        )


def _lock(handle: int, kind: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"another process has held it for {_LOCK_WAIT_S:.0f} s", where=str(path)
                ) from error
        except OSError as error:
            raise UsageError(
                f"cannot lock: {error.strerror}", where=str(path),
                try_next="keep the ledger on a local disk",
            ) from error  # fmt: skip
        time.sleep(_LOCK_STEP_S)


def _read(handle: int, path: Path) -> bytes:
    if os.fstat(handle).st_size > _MAX_BYTES:
        raise LedgerError(f"larger than {_MAX_BYTES >> 20} MiB", where=str(path))
    parts = []
    offset = 0
    try:
        while part := os.pread(handle, 1 << 20, offset):
            parts.append(part)
            offset += len(part)
    except OSError as error:
        raise LedgerError(f"cannot read: {error.strerror}", where=str(path)) from error
    return b"".join(parts)


def _add(handle: int, line: bytes, path: Path) -> None:
    """All of the line or nothing of it, as far as a living process can see to that."""
    size = os.fstat(handle).st_size
    try:
        _write(handle, line)
        os.fsync(handle)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, size)
        raise UsageError(f"cannot write: {error.strerror}", where=str(path)) from error


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _settle(handle: int, path: Path) -> None:
    """Private, and with a name that survives a power loss, before anything is written to it."""
    try:
        os.fchmod(handle, 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror}", where=str(path)) from error
