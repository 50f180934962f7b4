"""The container engine: podman or Docker as found on the host, and what it needs there."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.run import run

#: Enough for systemd and sshd; engines ask for a million, which a host without CAP_SYS_RESOURCE
#: refuses.
_ENOUGH = 20000
_PACKAGES = {"docker": "docker.io"}
_ONLY_INSIDE = (
    'test -x /usr/lib/lab/boot || { echo "exec does not reach the node: engine in a chroot?" >&2; '
    'exit 125; }; exec "$@"'
)


@dataclass(frozen=True)
class Engine:
    """``name``: podman or docker. ``options``: what every container needs on this host."""

    name: str
    options: tuple[str, ...]

    def __call__(self, *argv: str | Path, timeout_s: float = 120, check: bool = True) -> str:
        """Run a subcommand and return its output."""
        return run([self.name, *argv], timeout_s=timeout_s, check=check).stdout

    def node_options(self) -> tuple[str, ...]:
        """For a container with systemd: capabilities, but no device of the host."""
        common = ("--security-opt", "seccomp=unconfined", "--cgroupns", "private")
        if self.name == "podman":
            return (*common, "--cap-add", "ALL", "--systemd", "always", "--security-opt",
                    "unmask=ALL", "--security-opt", "label=disable")  # fmt: skip
        # Docker asks for all of ALL, and fails where the host itself has less.
        capabilities = [word for name in _host_has() for word in ("--cap-add", name)]
        return (*common, *capabilities, "--security-opt", "systempaths=unconfined",
                "--security-opt", "apparmor=unconfined", "--tmpfs", "/run", "--tmpfs", "/run/lock",
                "--tmpfs", "/tmp", "--stop-signal", "SIGRTMIN+3")  # fmt: skip

    def exec(
        self, container: str, *argv: str, stdin: str | None = None, timeout_s: float = 120,
        check: bool = True,
    ) -> str:  # fmt: skip
        """Run a program in a container and return its output.

        An engine that itself runs in a chroot enters the container's namespaces and stands in the
        root of the host. Nothing is started there: only the lab's image has ``/usr/lib/lab/boot``.
        """
        flags = ["-i"] if stdin is not None else []
        words = [self.name, "exec", *flags, container, "sh", "-c", _ONLY_INSIDE, "sh", *argv]
        return run(words, stdin=stdin, timeout_s=timeout_s, check=check).stdout

    def pid(self, container: str) -> int:
        """The first process of a running container, as the host numbers it."""
        found = self("inspect", "-f", "{{.State.Pid}}", container).strip()
        if not found.isdigit() or found == "0":
            raise LabError(f"{container} does not run")
        return int(found)

    def running(self, label: str) -> dict[str, str]:
        """Containers of the lab by name, with their state."""
        out = self("ps", "-a", "--filter", f"label={label}", "--format", "{{.Names}}\t{{.Status}}")
        return dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)

    def has_image(self, tag: str) -> bool:
        """Whether the image is in the engine's store."""
        done = run([self.name, "image", "inspect", tag], check=False)
        return done.returncode == 0


#: By their numbers (linux/capability.h).
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
    "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
    "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
    "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
    "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
)  # fmt: skip


def _host_has() -> list[str]:
    """The capabilities that a container can be given here."""
    status = Path("/proc/self/status").read_text()
    bounding = int(re.findall(r"^CapBnd:\s*(\w+)", status, re.MULTILINE)[0], 16)
    return [name for bit, name in enumerate(_CAPABILITIES) if bounding >> bit & 1]


def _ulimits() -> tuple[str, ...]:
    """Without CAP_SYS_RESOURCE a container may not ask for more than the host's hard limit."""
    found: list[str] = []
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        least = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
        found += ["--ulimit", f"{name}={least}:{least}"]
    return tuple(found)


def find_engine() -> Engine:
    """Podman first, then Docker, or the one in ``FABRIC_LAB_ENGINE``; raises ``LabError`` with what
    to install."""
    if os.geteuid() != 0:
        raise LabError("networks of the lab need root on this host", "run it as root")
    wanted = os.environ.get("FABRIC_LAB_ENGINE", "")
    if wanted not in ("", "podman", "docker"):
        raise LabError(f"FABRIC_LAB_ENGINE is {wanted!r}", "podman or docker")
    if shutil.which("podman") and wanted != "docker":
        info = json.loads(run(["podman", "info", "--format", "json"]).stdout)
        runtime = info["host"]["ociRuntime"]["name"]
        options = _ulimits()
        # crun mounts cgroups in a way that hosts with both generations refuse.
        if runtime == "crun" and info["host"].get("cgroupVersion") != "v2" and shutil.which("runc"):
            options += ("--runtime", "runc")
        return Engine("podman", options)
    if shutil.which("docker") and wanted != "podman":
        run(["docker", "version"])
        return Engine("docker", _ulimits())
    missing = wanted or "podman and no docker"
    raise LabError(f"no {missing} here", f"apt-get install {_PACKAGES.get(wanted, 'podman runc')}")
