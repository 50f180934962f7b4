"""Could a CUDA program start: JSON of the collector's CUDA child, or the error of a program.

Evidence: our own format (``node.cuda``), run against a machine without a GPU; the error texts are
those of ``cuda_error``. Format unverified on hardware.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from fabric_tools.models.facts import CudaInit
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.cuda_error import parse_cuda_error


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    code: int
    name: str
    devices: int | None


def parse_cuda_init(text: str) -> CudaInit:
    """The child's JSON object, whole."""
    try:
        answer = _Answer.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "text"
        raise ParseError("cuda_init", 0, f"{field}: {first['msg']}"[:200]) from error
    if answer.code == 0 and answer.devices is None:
        raise ParseError("cuda_init", 0, "cuInit went well and no device count is there")
    return CudaInit(code=answer.code, name=answer.name[:80], devices=answer.devices)


def cuda_init_of_error(text: str) -> CudaInit:
    """The error with which a CUDA program ended."""
    error = parse_cuda_error(text)
    return CudaInit(code=error.code, text=error.text, line=error.line)
