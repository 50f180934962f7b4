"""One error base class and one list of exit codes for the whole product."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes. A caller may rely on these numbers."""

    OPEN = 0
    CLOSED = 1
    USAGE = 2
    UNKNOWN = 3
    UNREACHABLE = 4
    INTERNAL = 70
    INTERRUPTED = 130


#: Worst first. Used when several phases or hosts end in different ways.
SEVERITY = (Exit.INTERNAL, Exit.UNREACHABLE, Exit.CLOSED, Exit.UNKNOWN, Exit.OPEN)


def worst(codes: list[Exit]) -> Exit:
    """The worst of several exit codes; ``UNKNOWN`` for none, because nothing was proved."""
    for code in SEVERITY:
        if code in codes:
            return code
    return Exit.UNKNOWN


class FabricToolsError(Exception):
    """What happened, where, and what to try next. Edges print it on one line and exit.

    ``exit_code`` is the code the CLI ends with when nothing catches the error.
    """

    exit_code: Exit = Exit.INTERNAL

    def __init__(self, what: str, *, where: str = "", try_next: str = "") -> None:
        self.what = what
        self.where = where
        self.try_next = try_next
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.try_next}" if self.try_next else text


class UsageError(FabricToolsError):
    """The caller asked for something that does not exist or gave a file that cannot be used."""

    exit_code = Exit.USAGE


class UnreachableError(FabricToolsError):
    """The node could not be reached, trusted, or made to answer within its bounds."""

    exit_code = Exit.UNREACHABLE


class InternalError(FabricToolsError):
    """A fault of ours. It must never look like a verdict."""

    exit_code = Exit.INTERNAL
