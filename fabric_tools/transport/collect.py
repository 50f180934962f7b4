"""Run the collector over a connection: one round trip where sudo asks nothing, three where it does.

The zipapp travels on standard input into memory; nothing is written on the node. Only where sudo
wants a password is it written, to a private directory that is removed again, because the password
needs the input stream for itself. What runs as root is checked against the digest we sent.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
from enum import StrEnum

from pydantic import SecretStr

from fabric_tools.errors import UnreachableError
from fabric_tools.node.collector import worst_case_s
from fabric_tools.node.main import FRAME
from fabric_tools.probes import PROBES
from fabric_tools.transport.connection import Completed, Connection, Limits

#: Seconds for everything but the probes: login shell, sudo, transfer.
_OVERHEAD_S = 20.0
_NEED = "FABRIC-NEED"


class Sudo(StrEnum):
    """``auto``: become root through sudo unless already root. ``never``: stay who we are."""

    AUTO = "auto"
    NEVER = "never"


# One line each and without "!", so that any login shell (csh too) passes them on unchanged.
# argv: length sha256 nonce [path] [collector options...]
_CHECK_PYTHON = (
    "import sys;sys.version_info<(3,9) and "
    f"(print('{_NEED}',sys.argv[3],'python',sys.version.split()[0]),sys.exit(96));"
)
_RUN_BYTES = (
    "hashlib.sha256(b).hexdigest()==sys.argv[2] or sys.exit('collector damaged on its way');"
    "f=os.memfd_create('fabric-collect');o=open(f,'wb',closefd=False);o.write(b);o.flush();"
    "p='/proc/self/fd/%d'%f;sys.argv=[p,'--frame',sys.argv[3]]+sys.argv[5:];"
    "runpy.run_path(p,run_name='__main__')"
)
_BOOT_STDIN = (
    f"{_CHECK_PYTHON}import os,hashlib,runpy;b=sys.stdin.buffer.read(int(sys.argv[1]));{_RUN_BYTES}"
)
_BOOT_FILE = f"{_CHECK_PYTHON}import os,hashlib,runpy;b=open(sys.argv[4],'rb').read();{_RUN_BYTES}"

# sh arguments: $1 nonce, $2 sudo mode, $3 boot code, then the boot code's own arguments.
_SH_STDIN = (
    'n=$1; m=$2; b=$3; shift 3; r=""; '
    'if [ "$m" = auto ] && [ "$(id -u)" -ne 0 ]; then '
    'e=$(LC_ALL=C sudo -n true 2>&1 </dev/null) && r="sudo -n" || '
    f'{{ echo "{_NEED} $n sudo $e" | tr "\\n" " "; echo; exit 96; }}; fi; '
    f'command -v python3 >/dev/null || {{ echo "{_NEED} $n python none"; exit 96; }}; '
    'exec $r python3 -I -c "$b" "$@"'
)
_SH_UPLOAD = 'umask 077; d=$(mktemp -d) && cat >"$d/fabric-collect.pyz" && echo "FABRIC-DIR $1 $d"'
_SH_SUDO = 'p=$1; b=$2; shift 2; exec env LC_ALL=C sudo -k -S -p "$p" -- python3 -I -c "$b" "$@"'


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
    need = re.search(rf"(?m)^{_NEED} {job.nonce} (\S+) ?(.*)$", _text(answer.stdout))
    if need is None:
        return job.snapshot(answer)
    if need[1] == "python":
        raise _no_python(connection.name, need[2])
    _refuse_hopeless(connection.name, need[2])
    if password is None:
        raise UnreachableError(
            f"sudo wants a password: {_clean(need[2])}", where=connection.name,
            try_next="give one with --ask-sudo-password, or read less with --no-sudo",
        )  # fmt: skip
    return job.snapshot(job.with_password(password))


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

    def _boot_args(self, path: str) -> tuple[str, ...]:
        return (str(len(self._archive)), self._digest, self.nonce, path, *self._options)

    def direct(self, sudo: Sudo) -> Completed:
        """The collector on standard input, as root where sudo needs no password."""
        command = _sh(_SH_STDIN, self.nonce, sudo.value, _BOOT_STDIN, *self._boot_args("-"))
        return self._connection.run(command, self._archive, self._limits)

    def with_password(self, password: SecretStr) -> Completed:
        """The collector from a private directory, standard input left to the password."""
        short = Limits(timeout_s=_OVERHEAD_S)
        upload = self._connection.run(_sh(_SH_UPLOAD, self.nonce), self._archive, short)
        found = re.search(rf"(?m)^FABRIC-DIR {self.nonce} (/[\w./-]+)$", _text(upload.stdout))
        if found is None:
            raise UnreachableError(
                f"cannot write to a temporary directory: {_clean(_text(upload.stderr))}",
                where=self._connection.name,
            )
        directory = found[1]
        try:
            args = self._boot_args(f"{directory}/fabric-collect.pyz")
            prompt = f"[fabric {self.nonce}]"
            command = _sh(_SH_SUDO, prompt, _BOOT_FILE, *args)
            asker = _SudoPrompt(self._connection.name, prompt, password)
            return asker.check(self._connection.run(command, b"", self._limits, asker))
        finally:
            self._connection.run(_sh('rm -rf -- "$1"', directory), b"", short)

    def snapshot(self, answer: Completed) -> str:
        """The framed JSON out of stdout, which may begin with a login banner."""
        text = answer.stdout
        frame = re.search(
            rb"(?m)^%s %s (\d{1,9}) ([0-9a-f]{64})\n" % (FRAME.encode(), self.nonce.encode()), text
        )
        if frame is None:
            said = _clean(_text(answer.stderr) or _text(text)) or "nothing"
            raise UnreachableError(
                f"no snapshot came back (exit status {answer.rc}); the node said: {said}",
                where=self._connection.name,
            )
        body = text[frame.end() : frame.end() + int(frame[1])]
        if hashlib.sha256(body).hexdigest().encode() != frame[2]:
            raise UnreachableError("the snapshot is damaged or cut", where=self._connection.name)
        return body.decode("ascii", "replace")


class _SudoPrompt:
    """Gives the password once, after our own prompt; a second prompt means it was wrong."""

    def __init__(self, name: str, prompt: str, password: SecretStr) -> None:
        self._name, self._prompt, self._password = name, prompt.encode(), password
        self._given = False

    def __call__(self, stderr: bytes) -> bytes | None:
        seen = stderr.count(self._prompt)
        if seen > 1:
            raise UnreachableError(
                "sudo refused the password", where=self._name, try_next="nothing was run as root"
            )
        if seen == 1 and not self._given:
            self._given = True
            return self._password.get_secret_value().encode() + b"\n"
        return None

    def check(self, answer: Completed) -> Completed:
        """Say why sudo refused, in its own words without the prompt."""
        text = _text(answer.stderr).replace(self._prompt.decode(), "")
        if "incorrect password" in text:
            raise UnreachableError("sudo refused the password", where=self._name)
        _refuse_hopeless(self._name, text)
        if not self._given and answer.rc:
            raise UnreachableError(f"sudo failed: {_clean(text)}", where=self._name)
        return answer


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
