"""How a check is declared.

A check is one pure function: its parameters are typed facts and sections of the platform file, and
from their types follows which probes it needs. It yields findings; the judge adds the rest. A fact
that cannot be had becomes UNKNOWN for every subject before the function is called, unless the
parameter is annotated ``Fact | Missing``: then the function decides.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fabric_tools.models.base import Fact
from fabric_tools.models.platform import (
    DriverSpec,
    FabricSpec,
    GpuSpec,
    NicSpec,
    NvlinkSpec,
    OsSpec,
    SiteSpec,
    Target,
)
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.parsers.sources import SOURCES
from fabric_tools.phases import Phase

NODE = "node"

#: Sections of the platform file that a check may ask for by type.
SECTIONS: dict[type, str] = {
    GpuSpec: "gpu",
    NvlinkSpec: "nvlink",
    FabricSpec: "fabric",
    DriverSpec: "driver",
    NicSpec: "nic",
    OsSpec: "os",
    SiteSpec: "site",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says of one subject. ``remedy`` replaces the check's own where it is given.

    ``because``: checks of which a failure explains this one, the deepest first; each stands in the
    check's ``follows``. ``check@subject``: only the failure of that subject does. ``settles_s``: a
    healthy node says the same for up to so many seconds after a boot or a restart, so a gate in a
    playbook looks again before it closes.
    """

    subject: str
    status: Status
    expected: str = ""
    actual: str = ""
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    because: tuple[str, ...] = ()
    settles_s: int = 0


Subjects = Callable[[Target], tuple[str, ...]]
#: Returns why the check does not apply to a platform (with the source), or "" when it does.
NotApplicable = Callable[[Target], str]


class Kind(StrEnum):
    """What a check is a function of.

    ``NODE``: the facts of one node. ``ACTIVE``: the same, but they exist only after a test under
    load was run. ``DELTA``: the facts of two readings of one node; parameters whose name begins
    with ``before`` are of the earlier one. ``GROUP``: the facts of several nodes, by host.
    """

    NODE = "node"
    ACTIVE = "active"
    DELTA = "delta"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a check.

    ``tolerant``: the function takes ``Missing`` and decides itself. ``optional``: it takes None for
    a platform that is not known. ``before``: the fact is of the earlier reading.
    """

    name: str
    kind: type
    tolerant: bool
    optional: bool = False
    before: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """One declared check. ``why`` is its documentation, shown by ``fabric-tools explain``.

    ``follows``: checks that may explain a failure of this one.
    """

    id: str
    phases: tuple[Phase, ...]
    title: str
    remedy: str
    why: str
    subjects: Subjects
    run: Callable[..., Iterator[Finding]]
    parameters: tuple[Parameter, ...]
    not_applicable: NotApplicable
    waivable: bool = True
    kind: Kind = Kind.NODE
    follows: tuple[str, ...] = ()

    @property
    def needs_no_platform(self) -> bool:
        """Speaks of the node as a whole, needs nothing to compare with, and applies everywhere."""
        free = all(p.optional or issubclass(p.kind, Fact) for p in self.parameters)
        return free and self.subjects is only_node and self.not_applicable is always

    @property
    def facts(self) -> tuple[type[Fact], ...]:
        """The facts this check reads."""
        return tuple(p.kind for p in self.parameters if issubclass(p.kind, Fact))

    @property
    def probes(self) -> tuple[str, ...]:
        """Every probe that can serve this check, best source of each fact first."""
        return tuple(dict.fromkeys(s.probe for kind in self.facts for s in SOURCES[kind]))


def only_node(_: Target) -> tuple[str, ...]:
    """The node as a whole."""
    return (NODE,)


def every_gpu(spec: Target) -> tuple[str, ...]:
    """``GPU 0`` ... ``GPU n-1`` as nvidia-smi numbers them."""
    return tuple(gpu(index) for index in range(spec.gpu.number))


def every_pair(spec: Target) -> tuple[str, ...]:
    """``GPU0-GPU1`` ...: each pair once, as the columns of ``topo -m`` name them."""
    count = spec.gpu.number
    return tuple(pair(i, j) for i in range(count) for j in range(i + 1, count))


def gpu(index: int) -> str:
    """The subject name of one GPU."""
    return f"GPU {index}"


def pair(first: int, second: int) -> str:
    """The subject name of a pair of GPUs."""
    return f"GPU{first}-GPU{second}"


def at(fact: Fact | Missing, line: int = 0) -> Evidence:
    """Evidence in the probe that ``fact`` was read from."""
    return Evidence(probe=fact.probe, line=line)


def unknown(subject: str, missing: Missing, expected: str = "") -> Finding:
    """The finding for a fact that could not be had."""
    return Finding(subject, Status.UNKNOWN, expected, missing.reason, (at(missing, missing.line),))


def always(_: Target) -> str:
    """Applies to every platform."""
    return ""


#: Ids in the order of declaration; a test compares it with ``checks.CHECKS``.
DECLARED: list[str] = []


def check(
    check_id: str,
    *,
    phases: tuple[Phase, ...],
    title: str,
    remedy: str,
    subjects: Subjects = only_node,
    not_applicable: NotApplicable = always,
    waivable: bool = True,
    kind: Kind = Kind.NODE,
    follows: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterator[Finding]]], Check]:
    """Declare a check. The function's docstring is its documentation.

    Raises ``TypeError`` at import for a parameter that is neither a fact nor a platform section,
    or for a missing docstring: a check that cannot be explained is not done.
    """

    def declare(function: Callable[..., Iterator[Finding]]) -> Check:
        if not function.__doc__:
            raise TypeError(f"{check_id} has no docstring")
        DECLARED.append(check_id)
        return Check(
            id=check_id,
            phases=phases,
            title=title,
            remedy=remedy,
            why=inspect.cleandoc(function.__doc__),
            subjects=subjects,
            run=function,
            parameters=_parameters(check_id, function, kind),
            not_applicable=not_applicable,
            waivable=waivable,
            kind=kind,
            follows=follows,
        )

    return declare


def _parameters(
    check_id: str, function: Callable[..., object], check_kind: Kind
) -> tuple[Parameter, ...]:
    hints = typing.get_type_hints(function)
    found = []
    for name in inspect.signature(function).parameters:
        hint = hints[name]
        if check_kind is Kind.GROUP and typing.get_origin(hint) is Mapping:
            hint = typing.get_args(hint)[1]  # host -> fact
        options = [hint]
        if isinstance(hint, types.UnionType):
            options = list(typing.get_args(hint))
        kinds = [option for option in options if option not in (Missing, types.NoneType)]
        known = len(kinds) == 1 and (
            kinds[0] in SOURCES or kinds[0] in SECTIONS or kinds[0] is Target
        )
        if not known:
            raise TypeError(f"{check_id}: parameter {name} is neither a fact nor a section")
        found.append(
            Parameter(
                name,
                kinds[0],
                tolerant=Missing in options,
                optional=types.NoneType in options,
                before=check_kind is Kind.DELTA and name.startswith("before"),
            )
        )
    return tuple(found)
