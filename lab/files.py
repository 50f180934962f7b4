"""What of the lab stands in a node: files of the image, and programs whose place it takes."""

from __future__ import annotations

from pathlib import Path

from lab.places import LAB

#: (file in this checkout, its place in the node, mode).
FILES: tuple[tuple[Path, str, int], ...] = (
    (LAB / "inside" / "boot", "/usr/lib/lab/boot", 0o755),
    (LAB / "inside" / "services.py", "/usr/lib/lab/services.py", 0o644),
)

#: (program that is moved aside, the tool that the stand-in then answers as).
DIVERSIONS: tuple[tuple[str, str], ...] = ()
