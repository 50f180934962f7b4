"""What the mirror machine of the lab serves: HTTP from /srv/mirror, and the time by SNTP.

The time is the host's, moved by the seconds in /srv/time_offset_s: a wrong clock elsewhere is a
cause that the lab can make without touching the host's clock.
"""

from __future__ import annotations

import functools
import http.server
import io
import multiprocessing
import socket
import struct
import threading
import time
from pathlib import Path
from typing import BinaryIO

#: Seconds between 1900 (NTP) and 1970 (Unix).
_NTP_EPOCH_S = 2208988800
_OFFSET = Path("/srv/time_offset_s")
_DOWN = Path("/srv/down")
#: A word a line: files with such a word in their path are not there, as on a mirror that was copied
#: in part.
_MISSING = Path("/srv/missing")


def _offset_s() -> float:
    try:
        return float(_OFFSET.read_text())
    except (OSError, ValueError):
        return 0.0


def _stamp(moment_s: float) -> bytes:
    whole = int(moment_s)
    return struct.pack("!II", whole + _NTP_EPOCH_S, int((moment_s - whole) * 2**32))


def serve_time() -> None:
    """Answer SNTP requests as a stratum 2 server."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", 123))
    while True:
        asked, peer = server.recvfrom(512)
        if len(asked) < 48:
            continue
        now = time.time() + _offset_s()
        version = (asked[0] >> 3) & 7
        head = struct.pack("!BBbb", version << 3 | 4, 2, 6, -20)
        roots = struct.pack("!II4s", 0, 66, b"\x7f\x7f\x01\x01")
        stamp = _stamp(now)
        server.sendto(head + roots + stamp + asked[40:48] + stamp + _stamp(now), peer)


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Called for GET and HEAD."""
        words = _MISSING.read_text().split() if _MISSING.exists() else []
        if any(word in self.path for word in words):
            self.send_error(404, "File not found")
            return None
        return super().send_head()


def serve_packages() -> None:
    """HTTP, until killed."""
    handler = functools.partial(_Handler, directory="/srv/mirror")
    http.server.ThreadingHTTPServer(("0.0.0.0", 80), handler).serve_forever()


def main() -> None:
    """Serve until killed; while /srv/down exists nobody listens for HTTP."""
    threading.Thread(target=serve_time, daemon=True).start()
    server: multiprocessing.Process | None = None
    while True:
        if _DOWN.exists() and server is not None:
            server.kill()
            server.join()
            server = None
        elif not _DOWN.exists() and (server is None or not server.is_alive()):
            server = multiprocessing.Process(target=serve_packages, daemon=True)
            server.start()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
