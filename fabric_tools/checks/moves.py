"""What an upgrade would move: proved by simulating one."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.holds import (
    APT,
    is_kernel_package,
    kernel_set,
    loose,
    no_apt,
    vendor_owns,
    vendor_set,
)
from fabric_tools.checks.packages import is_vendors
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import (
    DPKG_STATUS,
    AptPins,
    AptReleases,
    DgxOs,
    KernelPackages,
    Move,
    UpgradePlan,
)
from fabric_tools.models.facts import KernelRelease, OsRelease
from fabric_tools.models.system import AptHolds, Package, Packages
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_SHOWN = 5


@check(
    "packages.kernel_still",
    phases=(Phase.BASE,),
    title="a simulated upgrade moves no kernel package",
    remedy="`apt-get -s dist-upgrade` shows what pulls them: hold that package too",
)
def kernel_still(
    os: OsRelease,
    dgx: DgxOs,
    plan: UpgradePlan | Missing,
    running: KernelRelease,
    installed: KernelPackages | Missing,
    holds: AptHolds | Missing,
    pins: AptPins | Missing,
    releases: AptReleases | Missing,
) -> Iterator[Finding]:
    """Neither an installed kernel package may move or go, nor a new kernel come.

    A hold that is missing is packages.kernel_hold's finding: what would move because of it is a
    warning here. This fails for what moves in spite of the holds. The simulation knows the package
    lists that the node has now: without any it moves nothing, which proves nothing. How old they
    are is not told.
    """
    owned = vendor_owns(dgx)
    if owned or os.id not in APT:
        yield owned or no_apt(os, "an upgrade moves no kernel package")
        return
    for fact in (plan, installed, holds, _lists(releases)):
        if isinstance(fact, Missing):
            yield unknown(NODE, fact)
            return
    assert not isinstance(plan, Missing)
    assert not isinstance(installed, Missing) and not isinstance(holds, Missing)
    image, metas = kernel_set(running.release, installed)
    free = loose([*([image] if image else []), *metas], holds, pins, whole=True)
    known = {p.name for p in metas} | ({image.name} if image else set())
    moves = [m for m in plan.moves if is_kernel_package(_bare(m)) or _bare(m) in known]
    # A new kernel has another name than the metapackage that brings it.
    named = [m for m in moves if _is_of(m, free) or (m.old is None and free)]
    yield _judged(plan, moves, named, "kernel", "packages.kernel_hold")


@check(
    "packages.driver_still",
    phases=(Phase.DRIVER,),
    title="a simulated upgrade moves no package of the driver",
    remedy="`apt-get -s dist-upgrade` shows what pulls them: hold that package too, or pin the "
    "full version",
)
def driver_still(
    os: OsRelease,
    dgx: DgxOs,
    plan: UpgradePlan | Missing,
    installed: Packages | Missing,
    holds: AptHolds | Missing,
    pins: AptPins | Missing,
    releases: AptReleases | Missing,
) -> Iterator[Finding]:
    """No installed package of the vendor may move or go; packages kept back are fine.

    A hold that is missing is packages.driver_hold's finding: what would move because of it is a
    warning here. This fails for what moves in spite of holds and pins. On DGX OS an upgrade within
    the vendor's repositories is the way (driver.origin looks at those).
    """
    owned = vendor_owns(dgx)
    if owned or os.id not in APT:
        yield owned or no_apt(os, "an upgrade moves no driver package")
        return
    for fact in (plan, installed, holds, _lists(releases)):
        if isinstance(fact, Missing):
            yield unknown(NODE, fact)
            return
    assert not isinstance(plan, Missing)
    assert not isinstance(installed, Missing) and not isinstance(holds, Missing)
    mine = {p.name for p in vendor_set(installed)}
    # Also what apt would move and the list of packages does not show: it may be cut.
    moves = [
        m for m in plan.moves if m.old is not None and (_bare(m) in mine or is_vendors(_bare(m)))
    ]
    free = loose(vendor_set(installed), holds, pins)
    named = [m for m in moves if _is_of(m, free)]
    yield _judged(plan, moves, named, "driver", "packages.driver_hold")


def _lists(releases: AptReleases | Missing) -> AptReleases | Missing:
    """The repositories whose package lists the node has; Missing where it has none."""
    if isinstance(releases, Missing) or any(name != DPKG_STATUS for name in releases.origins):
        return releases
    why = "apt has no package list of any repository (run `apt-get update`): nothing could move"
    return Missing(releases.probe, why, recorded=True)


def _bare(move: Move) -> str:
    return move.name.partition(":")[0]


def _is_of(move: Move, packages: list[Package]) -> bool:
    return any(p.name == _bare(move) for p in packages)


def _judged(plan: UpgradePlan, moves: list[Move], named: list[Move], what: str, by: str) -> Finding:
    expected = f"no {what} package moves"
    if not moves:
        actual = f"{len(plan.moves)} packages would move, none of them; {plan.kept_back} kept back"
        return Finding(NODE, Status.PASS, expected, actual, (at(plan, plan.line),))
    worst = [m for m in moves if m not in named] or moves
    shown = [f"{m.name} {m.old or 'new'} -> {m.new or 'removed'}" for m in worst[:_SHOWN]]
    more = f" and {len(worst) - _SHOWN} more" if len(worst) > _SHOWN else ""
    actual = f"would move: {', '.join(shown)}{more}"
    proof = tuple(at(plan, m.line) for m in worst[:3])
    if len(named) == len(moves):
        actual += f" (not held: named by {by})"
        return Finding(NODE, Status.WARN, expected, actual, proof, f"see {by}")
    return Finding(NODE, Status.FAIL, expected, actual, proof)


CHECKS: tuple[Check, ...] = (kernel_still, driver_still)
