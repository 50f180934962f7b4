"""dpkg of a node, stopped in the middle of its work: by SIGSTOP, at a state that it reports."""

from __future__ import annotations

from tests.lab.rig import Rig, Started

#: dpkg tells its logger a state before it writes it down, so at "unpacked" of the second package
#: the disk has the first one unpacked and the second one half installed.
_LOGGER = """#!/usr/bin/python3
import os, signal, sys

seen = 0
for line in sys.stdin:
    seen += line.startswith("status: ") and line.rstrip().endswith(": unpacked")
    if seen == 2 and not os.path.exists("/run/stop/stopped"):
        os.kill(os.getppid(), signal.SIGSTOP)
        with open("/run/stop/stopped", "w") as out:
            out.write(str(os.getppid()))
"""

_ARM = f"""
set -e
rm -rf /run/stop
mkdir /run/stop
cat >/run/stop/logger <<'LOGGER'
{_LOGGER}LOGGER
chmod 755 /run/stop/logger
echo 'status-logger="exec /run/stop/logger"' >/etc/dpkg/dpkg.cfg.d/zz-stop
"""


#: Looks for two seconds.
_REACHED = """
for _ in $(seq 40); do
    [ -s /run/stop/stopped ] && echo reached && break
    sleep 0.05
done
"""


def arm(rig: Rig) -> None:
    """The next dpkg that unpacks two packages will stop there."""
    rig.inside(_ARM)


def wait(rig: Rig, run: Started) -> None:
    """Until dpkg has stopped; then take the trap away. Fails where ``run`` ends before."""
    while True:
        if rig.inside(_REACHED):
            break
        assert run.process.poll() is None, f"no dpkg was stopped: {run.end().text[-3000:]}"
    rig.inside("rm -f /etc/dpkg/dpkg.cfg.d/zz-stop")


def go_on(rig: Rig) -> None:
    """The stopped dpkg goes on."""
    rig.inside("kill -CONT $(cat /run/stop/stopped)")


def half_done(rig: Rig) -> str:
    """What dpkg says is half done, and its open journal; "" where all is well."""
    return rig.inside("dpkg --audit; ls /var/lib/dpkg/updates").strip()
