"""`python -m lab.vendor FOLDER [--kernel RELEASE] [--doubles FOLDER] [--dkms FILE]`."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from lab.vendor import BuildError, build_repository


def main() -> int:
    """Builds the mirror and prints where it is and what signs it."""
    parser = argparse.ArgumentParser(prog="python -m lab.vendor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernel", default=platform.release(), help="default: the running one")
    parser.add_argument("--doubles", type=Path)
    parser.add_argument("--dkms", type=Path)
    given = parser.parse_args()
    try:
        built = build_repository(
            given.folder, kernel=given.kernel, doubles=given.doubles, dkms=given.dkms
        )
    except BuildError as error:
        print(f"lab.vendor: {error}", file=sys.stderr)
        return 1
    print(f"folder: {built.folder}\nkey: {built.fingerprint}\nkernels: {built.kernel},"
          f" {built.kernel_next}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
