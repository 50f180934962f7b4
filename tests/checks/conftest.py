"""Each text is parsed once in a whole test run: these tests judge one node in hundreds of ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fabric_tools.models.base import Fact
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.reader import Facts
from fabric_tools.parsers.sources import Parser, Source


@pytest.fixture(scope="session", autouse=True)
def _each_text_is_parsed_once() -> Iterator[None]:
    """Parsers are functions of their text and facts are frozen, so the result may be shared."""
    known: dict[tuple[Parser, str], Fact | ParseError] = {}

    def parsed(_: Facts, source: Source, text: str) -> Fact:
        key = (source.parse, text)
        if key not in known:
            try:
                known[key] = source.parse(text)
            except ParseError as error:
                known[key] = error
        found = known[key]
        if isinstance(found, ParseError):
            raise found
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Facts, "_parsed", parsed)
        yield
