"""The signed stand-in repository, and everything that behaves as packages, kernel and modules do.

`build_repository` makes what the mirror serves; `files.py` says what goes into a node's image.
"""

from lab.vendor import files, gpg
from lab.vendor.repository import BuildError, Repository, build_repository

__all__ = ["BuildError", "Repository", "build_repository", "files", "gpg"]
