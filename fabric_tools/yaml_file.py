"""Read small YAML files that people write: bounded, no aliases, one clear line when wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from fabric_tools.errors import UsageError

M = TypeVar("M", bound=BaseModel)

# PyYAML reads about 50 KB a second; a platform file or the variables of a host have 3 KB.
MAX_BYTES = 64 * 1024
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
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} twice", mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


#: libyaml's parser, about ten times as fast, where PyYAML was built with it.
_Quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_shipped(path: Path, model: type[M]) -> M:
    """A file that came with the product as ``model``; a test reads each with ``load_model``."""
    return model.model_validate(yaml.load(path.read_bytes(), _Quick))  # noqa: S506 - a SafeLoader


def load_model(path: Path, model: type[M], key: str = "") -> M:
    """The file as ``model``. Raises ``UsageError`` with file, line or field, and what is wrong.

    ``key``: where the file is a mapping that holds this key, its value is the model and what stands
    beside it is somebody else's (the variables of an Ansible host).
    """
    text = read_bounded(path, MAX_BYTES).decode("utf-8", "replace")
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"not usable YAML: {error.problem}", where=where) from error
    except Exception as error:  # PyYAML lets errors of its constructors through as they are
        raise UsageError(f"not usable YAML: {type(error).__name__}", where=str(path)) from error
    if key and isinstance(data, dict) and key in data:
        data = data[key]
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UsageError(first_problem(error), where=str(path)) from error


def shipped_text(folder: Path, what: str, name: str) -> str:
    """The text of ``NAME.yaml`` among the shipped files of ``folder``. Raises ``UsageError``."""
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(f"{what} {name} is not shipped, its file is yours")
    return path.read_text(encoding="utf-8")


def load_all(
    folder: Path, extra: Path | None, model: type[M], what: str, name: Callable[[M], str]
) -> dict[str, M]:
    """The shipped files of ``folder`` and the site's own in ``extra``, by name.

    One of ``extra`` may not redefine another. Raises ``UsageError`` naming the file that is wrong.
    """
    if extra is not None and not extra.is_dir():
        raise UsageError("no such folder", where=str(extra), try_next="give one of *.yaml files")
    files = [(path, load_shipped) for path in sorted(folder.glob("*.yaml"))]
    files += [(path, load_model) for path in sorted(extra.glob("*.yaml"))] if extra else []
    found: dict[str, M] = {}
    for path, read in files:
        item = read(path, model)
        if name(item) in found:
            raise UsageError(f"{what} {name(item)} is defined twice", where=str(path))
        found[name(item)] = item
    return found


def first_problem(error: ValidationError) -> str:
    """The first thing pydantic found, on one line, without echoing large inputs."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    more = error.error_count() - 1
    text = f"{field}: {first['msg']}" if field else first["msg"]
    text = " ".join(text.split())[:200]
    return f"{text} (and {more} more)" if more else text


def _size(number: int) -> str:
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 else f"{number / 2**10:.0f} KiB"


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file of at most ``max_bytes``. Raises ``UsageError``."""
    try:
        if path.is_dir():
            raise UsageError("is a folder, a file is wanted", where=str(path))
        if path.exists() and not path.is_file():
            raise UsageError("not a regular file", where=str(path))
        size = path.stat().st_size
        if size > max_bytes:
            raise UsageError(f"{_size(size)}, the limit is {_size(max_bytes)}", where=str(path))
        # Without O_NONBLOCK a read of /proc/kmsg or the like waits for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            data = stream.read(max_bytes + 1)
        if len(data or b"") > max_bytes:
            raise UsageError(f"more than {_size(max_bytes)}", where=str(path))
        return data or b""
    except OSError as error:
        raise UsageError(error.strerror or str(error), where=str(path)) from error
