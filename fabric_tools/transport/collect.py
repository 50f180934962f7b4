"""Run the collector over a connection: one round trip where sudo asks nothing, three where it does.

The zipapp travels on standard input into memory; nothing is written on the node. Only where sudo
wants a password is it written, to a private directory that is removed again, because the password
needs the input stream for itself. What runs as root is checked against the digest we sent, and what
comes back is a snapshot or it is not passed on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import shlex
from enum import StrEnum

from pydantic import SecretStr, ValidationError

from fabric_tools.errors import UnreachableError
from fabric_tools.models.snapshot import Snapshot
from fabric_tools.node.collector import worst_case_s
from fabric_tools.node.main import FRAME
from fabric_tools.probes import PROBES
from fabric_tools.transport.connection import Completed, Connection, Limits
from fabric_tools.yaml_file import first_problem

#: Seconds for everything but the probes: login shell, sudo, transfer.
_OVERHEAD_S = 20.0
_NEED = "FABRIC-NEED"


class Sudo(StrEnum):
    """``auto``: become root through sudo unless already root. ``never``: stay who we are."""

    AUTO = "auto"
    NEVER = "never"


# One line each and without "!", so that any login shell (csh too) passes them on unchanged.
# argv: path length sha256 nonce [collector options...]
_CHECK_PYTHON = (
    "import sys;sys.version_info<(3,9) and "
    f"(print('{_NEED}',sys.argv[4],'python',sys.version.split()[0]),sys.exit(96));"
)
_RUN_BYTES = (
    "hashlib.sha256(b).hexdigest()==sys.argv[3] or sys.exit('collector damaged on its way');"
    # Where the kernel forbids memfds (vm.memfd_noexec=2), a file without a name does as well.
    'exec(\'try:\\n f=os.memfd_create("fabric-collect")\\nexcept OSError:\\n import tempfile;'
    "t=tempfile.TemporaryFile();f=t.fileno()');"
    "o=open(f,'wb',closefd=False);o.write(b);o.flush();"
    "p='/proc/self/fd/%d'%f;sys.argv=[p,'--frame',sys.argv[4]]+sys.argv[5:];"
    "runpy.run_path(p,run_name='__main__')"
)
_BOOT_STDIN = (
    f"{_CHECK_PYTHON}import os,hashlib,runpy;b=sys.stdin.buffer.read(int(sys.argv[2]));{_RUN_BYTES}"
)
_BOOT_FILE = f"{_CHECK_PYTHON}import os,hashlib,runpy;b=open(sys.argv[1],'rb').read();{_RUN_BYTES}"

# sh arguments: $1 nonce, $2 sudo mode, $3 boot code, then the boot code's own arguments.
_SH_STDIN = (
    'n=$1; m=$2; b=$3; shift 3; r=""; '
    'if [ "$m" = auto ] && [ "$(id -u)" -ne 0 ]; then '
    'e=$(LC_ALL=C sudo -n true 2>&1 </dev/null) && r="sudo -n" || '
    f'{{ echo "{_NEED} $n sudo $e" | tr "\\n" " "; echo; exit 96; }}; fi; '
    f'command -v python3 >/dev/null || {{ echo "{_NEED} $n python none"; exit 96; }}; '
    'exec $r python3 -I -c "$b" "$@"'
)
# The directory's name is made up here, so that it can be removed whatever became of the upload.
# $1 its name; an upload that was cut off removes it itself, because nobody may come back.
_SH_FOLDER = "d=${TMPDIR:-/tmp}/$1; "
_SH_UPLOAD = (
    f'{_SH_FOLDER}umask 077; mkdir -- "$d" && cat >"$d/collect.pyz" && '
    '[ "$(wc -c <"$d/collect.pyz")" -eq "$2" ] || { rm -rf -- "$d"; exit 1; }'
)
_SH_SUDO = (
    f"{_SH_FOLDER}p=$2; b=$3; shift 3; "
    'exec env LC_ALL=C sudo -k -S -p "$p" -- python3 -I -c "$b" "$d/collect.pyz" "$@"'
)
_SH_REMOVE = f'{_SH_FOLDER}rm -rf -- "$d"'


def collect(
    connection: Connection,
    archive: bytes,
    *,
    sudo: Sudo = Sudo.AUTO,
    password: SecretStr | None = None,
    redact: bool = False,
    worst_s: float | None = None,
) -> str:
    """The snapshot's JSON text, whole (length and digest are checked), from the node.

    ``archive`` is the zipapp; ``worst_s`` its longest possible run (default: the probe table's).
    Raises ``UnreachableError`` when the node is not trusted, refuses sudo, has no Python 3.9, sends
    too much, or does not answer in time.
    """
    job = _Job(connection, archive, redact, worst_s or worst_case_s(PROBES))
    answer = job.direct(sudo)
    need = _needs(answer, job.nonce)
    if need is None or need[1] == "python":
        return job.snapshot(answer)
    _refuse_hopeless(connection.name, need[2])
    if password is None:
        raise UnreachableError(
            f"sudo wants a password: {_clean(need[2])}", where=connection.name,
            try_next="give one with --ask-sudo-password, or read less with --no-sudo",
        )  # fmt: skip
    return job.with_password(password)


def file_command(path: str, archive: bytes, nonce: str) -> tuple[str, ...]:
    """What runs ``archive`` from the file ``path`` on the node, if that still is what was sent.

    For a carrier other than a ``Connection``; ``framed`` reads the answer.
    """
    digest = hashlib.sha256(archive).hexdigest()
    return ("python3", "-I", "-c", _BOOT_FILE, path, str(len(archive)), digest, nonce)


def framed(answer: Completed, nonce: str, where: str) -> str:
    """The snapshot's JSON in stdout, which may begin with a login banner.

    Written anew from the model, as ASCII: what the node sent may be printed on a terminal. Raises
    ``UnreachableError`` for anything else than one whole snapshot.
    """
    need = _needs(answer, nonce)
    if need is not None and need[1] == "python":
        raise _no_python(where, need[2])
    frame = _frame(answer, nonce)
    if frame is None:
        said = _clean(_text(answer.stderr) or _text(answer.stdout)) or "nothing"
        raise UnreachableError(
            f"no snapshot came back (exit status {answer.rc}); the node said: {said}",
            where=where,
        )
    body = answer.stdout[frame.end() : frame.end() + int(frame[1])]
    if hashlib.sha256(body).hexdigest().encode() != frame[2]:
        raise UnreachableError("the snapshot is damaged or cut", where=where)
    try:
        snapshot = Snapshot.model_validate_json(body)
    except ValidationError as error:
        raise UnreachableError(
            f"what came back is not a snapshot: {_clean(first_problem(error))}", where=where
        ) from error
    return json.dumps(snapshot.model_dump(mode="json")) + "\n"


def _needs(answer: Completed, nonce: str) -> re.Match[str] | None:
    return re.search(rf"(?m)^{_NEED} {nonce} (\S+) ?(.*)$", _text(answer.stdout))


def _frame(answer: Completed, nonce: str) -> re.Match[bytes] | None:
    mark = f"{FRAME} {nonce}".encode()
    return re.search(rb"(?m)^%s (\d{1,9}) ([0-9a-f]{64})\n" % mark, answer.stdout)


class _Job:
    """One collection; the nonce tells our output from anything else the login prints."""

    def __init__(
        self, connection: Connection, archive: bytes, redact: bool, worst_s: float
    ) -> None:
        self.nonce = secrets.token_hex(16)
        self._connection, self._archive = connection, archive
        self._digest = hashlib.sha256(archive).hexdigest()
        self._limits = Limits(timeout_s=worst_s + _OVERHEAD_S)
        self._options = ("--redact",) if redact else ()

    @property
    def _boot_args(self) -> tuple[str, ...]:
        return (str(len(self._archive)), self._digest, self.nonce, *self._options)

    def direct(self, sudo: Sudo) -> Completed:
        """The collector on standard input, as root where sudo needs no password."""
        command = _sh(_SH_STDIN, self.nonce, sudo.value, _BOOT_STDIN, "-", *self._boot_args)
        return self._connection.run(command, self._archive, self._limits)

    def with_password(self, password: SecretStr) -> str:
        """The collector from a private directory, standard input left to the password."""
        run, short = self._connection.run, Limits(timeout_s=_OVERHEAD_S)
        folder = f"fabric-{secrets.token_hex(8)}"
        try:
            size = str(len(self._archive))
            upload = run(_sh(_SH_UPLOAD, folder, size), self._archive, short)
            if upload.rc:
                raise UnreachableError(
                    f"cannot write to a temporary directory: {_clean(_text(upload.stderr))}",
                    where=self._connection.name,
                )
            asker = _SudoPrompt(self._connection.name, f"[fabric {self.nonce}]", password)
            command = _sh(_SH_SUDO, folder, asker.prompt, _BOOT_FILE, *self._boot_args)
            answer = run(command, b"", self._limits, asker)
            if _frame(answer, self.nonce) is None:
                asker.explain(answer)
            return self.snapshot(answer)
        finally:
            # It decides nothing: neither a snapshot that is here nor an error may be lost to it.
            with contextlib.suppress(UnreachableError):
                run(_sh(_SH_REMOVE, folder), b"", short)

    def snapshot(self, answer: Completed) -> str:
        """See ``framed``."""
        return framed(answer, self.nonce, self._connection.name)


class _SudoPrompt:
    """Gives the password once, after our own prompt; a second prompt means it was wrong."""

    def __init__(self, name: str, prompt: str, password: SecretStr) -> None:
        self.prompt, self._name, self._password = prompt, name, password
        self._given = False

    def __call__(self, stderr: bytes) -> bytes | None:
        seen = stderr.count(self.prompt.encode())
        if seen > 1:
            raise UnreachableError(
                "sudo refused the password", where=self._name, try_next="nothing was run as root"
            )
        if seen == 1 and not self._given:
            self._given = True
            return self._password.get_secret_value().encode() + b"\n"
        return None

    def explain(self, answer: Completed) -> None:
        """Raise with sudo's reason, where sudo gave one. A login script may say anything else."""
        text = _text(answer.stderr).replace(self.prompt, "\n")
        said = " ".join(re.findall(_SUDO_SAYS, text))
        if "incorrect password" in said:
            raise UnreachableError("sudo refused the password", where=self._name)
        _refuse_hopeless(self._name, said)
        if not self._given and answer.rc:
            raise UnreachableError(f"sudo failed: {_clean(said or text)}", where=self._name)


_SUDO_SAYS = (
    r"(?m)^(?:sudo: |Sorry, user |\S+ is not in the sudoers file|\S+ is not allowed to run sudo).*"
)
#: What sudo says where no password helps, and what the operator can do.
_HOPELESS = (
    ("not in the sudoers file", "user may not use sudo", "add a sudoers rule or use --no-sudo"),
    ("is not allowed to", "sudoers does not allow this command", "allow it or use --no-sudo"),
    ("may not run sudo", "user may not use sudo", "add a sudoers rule or use --no-sudo"),
    (
        "must have a tty", "sudo demands a terminal (requiretty), none is ever allocated",
        "set `Defaults:USER !requiretty` or use --no-sudo",
    ),
    ("not found", "sudo is not installed", "log in as root or use --no-sudo"),
)  # fmt: skip


def _refuse_hopeless(name: str, text: str) -> None:
    for words, what, try_next in _HOPELESS:
        if words in text:
            raise UnreachableError(f"{what}: {_clean(text)}", where=name, try_next=try_next)


def _no_python(name: str, version: str) -> UnreachableError:
    have = "there is none" if version.startswith("none") else f"the node has {_clean(version)}"
    return UnreachableError(
        f"the collector needs Python 3.9 or later, {have}", where=name,
        try_next="install python3, or save tool output by hand into a folder",
    )  # fmt: skip


def _sh(script: str, *args: str) -> str:
    """A command line that runs ``script`` under a POSIX shell, from any login shell."""
    return shlex.join(["exec", "sh", "-c", script, "fabric", *args])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _clean(text: str) -> str:
    """At most 300 printable characters on one line: nodes do not get to write on terminals."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())[:300]
