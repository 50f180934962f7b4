"""A real sshd on loopback with users of its own, in a private mount namespace.

passwd, shadow, group, sudoers and /run are replaced only inside that namespace: the machine that
runs the tests keeps its users and its sudo rules. sshd, sudo and PAM are the real ones.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

PASSWORD = "correct horse"
# openssl passwd -6 -salt fabrictools 'correct horse'
_HASH = (
    "$6$fabrictools$.rc002NogHxVW.lXuyy7ER5.CaHkhOPmUwc359HepOBfkatjygkmuDBR8CU4togy8K/"
    "9u2rExJ/RXcu5T7Kjr."
)
USERS = {"nopasswd": 23001, "withpass": 23002, "nosudo": 23003, "tty": 23004, "junk": 23005}
_SUDOERS = """\
Defaults env_reset
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Defaults use_pty
Defaults:tty requiretty
root ALL=(ALL:ALL) ALL
nopasswd ALL=(ALL:ALL) NOPASSWD: ALL
withpass ALL=(ALL:ALL) ALL
tty ALL=(ALL:ALL) NOPASSWD: ALL
junk ALL=(ALL:ALL) NOPASSWD: ALL
"""


def missing() -> str:
    """Why the real sshd cannot be had here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root to make users and a mount namespace"
    for tool in ("/usr/sbin/sshd", "sudo", "unshare", "ssh-keygen"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no mount namespace (CAP_SYS_ADMIN)"


@dataclass
class Sshd:
    """One running server. ``home`` holds keys, known_hosts and the client's configuration."""

    root: Path
    port: int = 0
    proc: subprocess.Popen[bytes] | None = None
    shells: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Path:
        return self.root / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    def host_key(self) -> str:
        """The server's public key as known_hosts writes it."""
        words = (self.root / "host_ed25519.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {words[0]} {words[1]}\n"

    def config(self, name: str = "config", extra: str = "", known: Path | None = None) -> Path:
        """An ssh_config for this server: alias ``node``."""
        path = self.root / name
        path.write_text(
            f"Host node\n HostName 127.0.0.1\n Port {self.port}\n IdentityFile {self.key}\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {known or self.known_hosts}\n"
            f" GlobalKnownHostsFile none\n{extra}"
        )
        path.chmod(0o600)
        return path

    def start(self) -> Sshd:
        self._files()
        inside = " && ".join(
            [
                "mount -t tmpfs tmpfs /run",
                "mkdir -p /run/sshd /run/sudo",
                *(
                    f"mount --bind {shlex.quote(str(self.root / name))} /etc/{name}"
                    for name in ("passwd", "shadow", "group", "sudoers")
                ),
                f"exec /usr/sbin/sshd -D -e -f {shlex.quote(str(self.root / 'sshd_config'))}",
            ]
        )
        self.proc = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside],
            stderr=(self.root / "sshd.log").open("wb"),
        )
        _await_banner(self.port, self.proc, self.root / "sshd.log")
        return self

    def stop(self) -> None:
        if self.proc:
            self.proc.terminate()
            self.proc.wait(10)

    def _files(self) -> None:
        self.root.chmod(0o755)
        self.port = _free_port()
        for name in ("host_ed25519", "id_ed25519", "other_ed25519"):
            _keygen(self.root / name)
        passwd, shadow, group = (
            Path(f"/etc/{n}").read_text() for n in ("passwd", "shadow", "group")
        )
        for user, uid in USERS.items():
            home = self.root / f"home-{user}"
            home.mkdir()
            os.chown(home, uid, uid)
            shell = self.shells.get(user, "/bin/bash")
            passwd += f"{user}:x:{uid}:{uid}::{home}:{shell}\n"
            shadow += f"{user}:{_HASH}:19000:0:99999:7:::\n"
            group += f"{user}:x:{uid}:\n"
        for name, text, mode in (
            ("passwd", passwd, 0o644), ("shadow", shadow, 0o600), ("group", group, 0o644),
            ("sudoers", _SUDOERS, 0o440),
        ):  # fmt: skip
            (self.root / name).write_text(text)
            (self.root / name).chmod(mode)
        shutil.copy(self.root / "id_ed25519.pub", self.root / "authorized_keys")
        self.known_hosts.write_text(self.host_key())
        banner = self.root / "banner"
        banner.write_text("\x1b]0;owned\x07\x1b[2Jbe warned\n")
        (self.root / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.root}/host_ed25519\n"
            f"AuthorizedKeysFile {self.root}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPidFile none\nBanner {banner}\nMaxStartups 100\n"
            "Subsystem sftp internal-sftp\n"
        )


def _keygen(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True
    )


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _await_banner(port: int, proc: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if proc.poll() is not None:
            raise RuntimeError(f"sshd ended: {log.read_text(errors='replace')}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"sshd does not answer: {log.read_text(errors='replace')}")
