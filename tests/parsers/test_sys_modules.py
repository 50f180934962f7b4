"""Modules as sysfs tells them."""

from __future__ import annotations

import json

import pytest

from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.kernel_modules import parse_sys_modules
from tests.parsers import written


def test_what_is_loaded() -> None:
    assert set(parse_sys_modules(written.SYS_MODULES).lines) == {"nvidia", "nvidia_uvm"}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/sys/module/nvidia/initstate": {"text": ""}},
        {"/sys/module/nvidia/initstate": {"text": "gone\n"}},
        {"/sys/module/nvidia/version": {"text": "live\n"}},
        {"/sys/module/nvidia/initstate": "live\n"},
    ],
)
def test_anything_else_is_refused(files: dict[str, object]) -> None:
    with pytest.raises(ParseError):
        parse_sys_modules(json.dumps(files))
