"""Models as JSON text in ASCII: nothing a node said can reach a terminal as a control sequence."""

from __future__ import annotations

import json

from pydantic import BaseModel


def render(model: BaseModel, exclude: set[str] | None = None) -> str:
    """Indented JSON of a model, every other character escaped."""
    return json.dumps(model.model_dump(mode="json", exclude=exclude), indent=1, ensure_ascii=True)
