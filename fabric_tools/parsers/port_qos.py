"""The lossless class of every interface: ``mlnx_qos``, ``dcb pfc`` and ``dcb app``, block by block.

Evidence: that of the parsers behind it. That a port trusts DSCP exactly where ``dcb app`` lists
DSCP entries follows the kernel's mlx5 driver (en_dcbnl.c): it fills the table when the trust state
is DSCP and empties it when it is PCP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fabric_tools.models.base import Fact
from fabric_tools.models.fabric_ports import PortQos, QosByPort
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.dcb import parse_dcb
from fabric_tools.parsers.mlnx_qos import parse_mlnx_qos
from fabric_tools.parsers.sections import Section, split_sections


def _each(probe: str, text: str, read: Callable[[Section], PortQos]) -> QosByPort:
    """One interface that the tool refuses (no mlx5, no DCB) says nothing about the others."""
    found: list[PortQos] = []
    refused: ParseError | None = None
    for section in split_sections(probe, text):
        try:
            found.append(read(section))
        except ParseError as error:
            line = error.line + section.offset if error.line else section.first_line
            why = f"{section.name}: {error.why}" if section.name else error.why
            failure = ParseError(probe, line, why)
            if not section.name:
                raise failure from error
            refused = refused or failure
            found.append(
                PortQos(line=line, netdev=section.name, whole=False, refused=error.why[:200])
            )
    if refused is not None and all(item.refused for item in found):
        raise refused
    return QosByPort(settings=tuple(found))


def qos_of_mlnx(text: str) -> QosByPort:
    """``mlnx_qos -i`` of one or more interfaces."""

    def read(section: Section) -> PortQos:
        found = parse_mlnx_qos(section.text)
        if section.name and found.interface and section.name != found.interface:
            raise ParseError("mlnx_qos", 1, f"the block of {section.name} is of {found.interface}")
        mode = (found.dcbx_mode or "").lower()
        return PortQos(
            line=(found.pfc_line or found.trust_line or 1) + section.offset,
            netdev=section.name or found.interface,
            trust=found.trust,
            pfc=found.pfc_enabled,
            dscp_prio=found.dscp_prio,
            willing=None if not mode else mode.startswith("firmware"),
            whole=found.complete,
        )

    return _each("mlnx_qos", text, read)


def _dcb_name(text: str) -> str | None:
    """The interface in the echo of the command, where the text begins with one."""
    first = text.lstrip().split("\n", 1)[0][:200]
    words = first.split()
    return words[words.index("dev") + 1] if "dev" in words[:-1] else None


def qos_of_dcb_pfc(text: str) -> QosByPort:
    """``dcb pfc show dev`` of one or more interfaces; other dcb output may stand beside it."""

    def read(section: Section) -> PortQos:
        found = parse_dcb(section.text)
        if found.pfc_enabled is None and found.dscp_prio is None:
            raise ParseError("dcb_pfc", 1, "no prio-pfc")
        return PortQos(
            line=(found.pfc_line or found.app_line or 1) + section.offset,
            netdev=section.name or _dcb_name(section.text),
            pfc=found.pfc_enabled,
            dscp_prio=found.dscp_prio,
            trust="dscp" if found.dscp_prio else None,
        )

    return _each("dcb_pfc", text, read)


def qos_of_dcb_app(text: str) -> QosByPort:
    """``dcb app show dev``: an interface whose block is empty maps no DSCP to a priority."""

    def read(section: Section) -> PortQos:
        name = section.name or _dcb_name(section.text)
        if section.name and not section.text.strip():
            return PortQos(line=section.offset, netdev=name, dscp_prio={}, trust="pcp")
        found = parse_dcb(section.text)
        mapped = found.dscp_prio or {}
        if not mapped and (found.pfc is not None or found.prio_tc is not None):
            raise ParseError("dcb_app", 1, "another table of dcb, not its applications")
        return PortQos(
            line=(found.app_line or 1) + section.offset,
            netdev=name,
            pfc=found.pfc_enabled,
            dscp_prio=mapped,
            trust="dscp" if mapped else "pcp",
        )

    return _each("dcb_app", text, read)


def merge_qos(found: Sequence[Fact]) -> QosByPort:
    """Every reading beside the others: the check compares them."""
    facts = [fact for fact in found if isinstance(fact, QosByPort)]
    return QosByPort(
        probe=facts[0].probe,
        settings=tuple(
            item.model_copy(update={"probe": fact.probe})
            for fact in facts
            for item in fact.settings
        ),
    )
