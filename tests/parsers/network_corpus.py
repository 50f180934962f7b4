"""The corpus under the name by which the NCCL tests import it."""

from __future__ import annotations

from corpus import SAMPLES as ALL_SAMPLES
from corpus import of_kind, text_of

__all__ = ["ALL_SAMPLES", "of_kind", "text_of"]
