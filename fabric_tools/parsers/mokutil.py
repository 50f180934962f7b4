"""`mokutil --sb-state`: Secure Boot.

Evidence: real texts of a host in Setup Mode and of one whose shim does not validate; the tool's
own strings for the rest.
"""

from __future__ import annotations

from fabric_tools.models.system import SecureBoot
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "mokutil"

_STATES = {"SecureBoot enabled": True, "SecureBoot disabled": False}
_NO_EFI = (
    "EFI variables are not supported on this system",
    "This system doesn't support Secure Boot",
)


def parse_mokutil(text: str) -> SecureBoot:
    """The first line says on or off, further lines may take it back."""
    state: tuple[bool, int] | None = None
    setup = no_efi = False
    shim: bool | None = None
    for number, line in numbered(read_lines(PROBE, text, max_lines=100)):
        said = line.strip()
        if said in _STATES:
            if state is not None:
                raise ParseError(PROBE, number, "the state stands there twice")
            state = (_STATES[said], number)
        elif said == "Platform is in Setup Mode":
            setup = True
        elif said == "SecureBoot validation is disabled in shim":
            shim = False
        elif said.rstrip(".") in _NO_EFI:
            no_efi = True
        elif "mokutil --" not in said:
            raise ParseError(PROBE, number, f"not a known answer: {said[:100]!r}")
    if no_efi and state is None:
        return SecureBoot(efi=False)
    if state is None or no_efi:
        raise ParseError(PROBE, 0, "no line that says whether Secure Boot is on")
    return SecureBoot(
        efi=True, enabled=state[0], setup_mode=setup, shim_validation=shim, line=state[1]
    )
