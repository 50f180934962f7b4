"""The corpus under the name by which the DCGM and nvidia-smi tests import it."""

from __future__ import annotations

from corpus import SAMPLES as ALL
from corpus import Sample, of_kind, text_of

__all__ = ["ALL", "Sample", "of_kind", "text_of"]
