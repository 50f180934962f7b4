"""What every model of the product shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Frozen, and an unknown key is an error: a typo must not become a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Fact(Model):
    """Something one tool said. ``probe`` names the probe it was read from (set by the reader)."""

    probe: str = ""
