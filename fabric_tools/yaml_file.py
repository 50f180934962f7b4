"""Read small YAML files that people write: bounded, no aliases, one clear line when wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from fabric_tools.errors import UsageError

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 20


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases (a few lines of them expand to gigabytes) and duplicate keys."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self._here()
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", mark)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            mark = self._here()
            raise yaml.composer.ComposerError(None, None, "nested too deep", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _here(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                mark = node.value[position][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} twice", mark)
        return super().construct_mapping(node, deep)


def load_model(path: Path, model: type[M]) -> M:
    """The file as ``model``. Raises ``UsageError`` with file, line or field, and what is wrong."""
    text = read_bounded(path, MAX_BYTES).decode("utf-8", "replace")
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"not usable YAML: {error.problem}", where=where) from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise UsageError(f"not usable YAML: {type(error).__name__}", where=str(path)) from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UsageError(first_problem(error), where=str(path)) from error


def first_problem(error: ValidationError) -> str:
    """The first thing pydantic found, on one line, without echoing large inputs."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    more = error.error_count() - 1
    text = f"{field}: {first['msg']}" if field else first["msg"]
    text = " ".join(text.split())[:200]
    return f"{text} (and {more} more)" if more else text


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file of at most ``max_bytes``. Raises ``UsageError``."""
    try:
        if path.is_dir():
            raise UsageError("is a folder, a file is wanted", where=str(path))
        if path.exists() and not path.is_file():
            raise UsageError("not a regular file", where=str(path))
        size = path.stat().st_size
        if size > max_bytes:
            raise UsageError(
                f"{size / 2**20:.1f} MiB, the limit is {max_bytes / 2**20:.0f} MiB", where=str(path)
            )
        with path.open("rb") as handle:
            return handle.read(max_bytes + 1)[:max_bytes]
    except OSError as error:
        raise UsageError(error.strerror or str(error), where=str(path)) from error
