"""Where the driver's packages come from: one repository, and on DGX OS the vendor's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric_tools.checks.holds import APT, no_apt, vendor_set
from fabric_tools.checks.packages import is_vendors
from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import AptReleases, DgxOs
from fabric_tools.models.facts import OsRelease
from fabric_tools.models.platform import SiteSpec
from fabric_tools.models.system import AptCandidate, AptPolicy, Packages
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Paths of NVIDIA's repositories, which a mirror keeps: of DGX OS, and the CUDA network one.
_DGX_PATH, _CUDA_PATH = "/baseos/", re.compile(r"/cuda(?:[/-]|$)")
#: Where our role finds the CUDA repository below a mirror (nvidia_driver_mirror_name).
CUDA_OF_MIRROR = "/apt/nvidia"
#: What the distribution's own archive calls itself; a PPA calls itself otherwise (LP-PPA-...).
_ARCHIVE = "Ubuntu"


@check(
    "driver.origin",
    phases=(Phase.DRIVER,),
    title="the driver's packages are of one repository; on DGX OS of the vendor's own",
    remedy="take the other repository out (or pin it below the one), purge what came from it, and "
    "install driver, fabric manager and NSCQ from one repository together",
)
def origin(
    os: OsRelease,
    dgx: DgxOs,
    installed: Packages | Missing,
    policy: AptPolicy | Missing,
    releases: AptReleases | Missing,
    site: SiteSpec,
) -> Iterator[Finding]:
    """By the repositories that offer the installed version of each package, as their signed release
    files name themselves; by their address where they do not.

    Distributions split and patch the driver in another way than NVIDIA does: packages of both have
    no common dependencies, and the next upgrade takes half of one. On DGX OS a foreign repository
    also fails where nothing is installed from it yet but the next upgrade would be. apt must have
    answered for every package that dpkg lists.
    """
    if os.id not in APT:
        yield no_apt(os, "the driver's packages are of one repository")
        return
    for fact in (policy, releases, installed):
        if isinstance(fact, Missing):
            yield unknown(NODE, fact)
            return
    assert not isinstance(policy, Missing) and not isinstance(releases, Missing)
    assert not isinstance(installed, Missing)
    mine = [p for p in policy.packages if p.installed and _counts(p.name)]
    if not mine and not vendor_set(installed):
        actual = "no driver package is installed"
        remedy = "a driver from a runfile has no repository: install it from packages"
        yield Finding(NODE, Status.WARN, "one repository", actual, (at(policy),), remedy)
        return
    untold = _untold(installed, policy)
    found = None
    if mine:
        on_dgx = dgx.present
        found = (
            _on_dgx(mine, policy, releases, site) if on_dgx else _on_stock(mine, policy, releases)
        )
    # What was told and is wrong counts, however much is missing.
    if found is not None and (found.status is Status.FAIL or not untold):
        yield found
        return
    why = f"apt_policy does not tell of {', '.join(untold[:4])} which dpkg has (cut?)"
    yield unknown(NODE, Missing(policy.probe, why, recorded=True), "one repository")


def _counts(name: str) -> bool:
    """Distributions build persistenced from its own source, beside any driver."""
    return is_vendors(name) and not name.startswith("nvidia-persistenced")


def _untold(installed: Packages, policy: AptPolicy) -> list[str]:
    """Packages that dpkg has and apt did not speak of as installed."""
    told = {p.name.partition(":")[0] for p in policy.packages if p.installed}
    return [p.name for p in vendor_set(installed) if _counts(p.name) and p.name not in told]


def _names(sources: tuple[str, ...], releases: AptReleases) -> set[str]:
    """What these repositories call themselves."""
    return {releases.origins.get(source) or source.partition(" ")[0] for source in sources}


def _on_stock(mine: list[AptCandidate], policy: AptPolicy, releases: AptReleases) -> Finding:
    by_package = {p.name: _names(p.sources_installed, releases) for p in mine}
    gone = [name for name, names in by_package.items() if not names]
    known = [names for names in by_package.values() if names]
    common = set.intersection(*known) if known else set()
    if known and not common:
        groups: dict[str, list[str]] = {}
        for name, names in by_package.items():
            for one in sorted(names)[:1]:
                groups.setdefault(one, []).append(name)
        shown = "; ".join(f"{one}: {', '.join(names[:3])}" for one, names in groups.items())
        firsts = [p for p in mine if p.name in {names[0] for names in groups.values()}]
        proof = tuple(at(policy, p.line) for p in firsts[:3])
        return Finding(NODE, Status.FAIL, "one repository", shown, proof)
    if gone:
        return _not_offered([p for p in mine if p.name in gone], policy, "one repository")
    actual = f"{len(mine)} packages of {sorted(common)[0]}"
    return Finding(NODE, Status.PASS, "one repository", actual, (at(policy, mine[0].line),))


def _not_offered(gone: list[AptCandidate], policy: AptPolicy, expected: str) -> Finding:
    names = ", ".join(p.name for p in gone[:4])
    actual = f"no repository offers the installed version of {names}"
    remedy = "keep the version in a mirror of your own, else it cannot be installed again"
    return Finding(NODE, Status.WARN, expected, actual, (at(policy, gone[0].line),), remedy)


def _on_dgx(
    mine: list[AptCandidate], policy: AptPolicy, releases: AptReleases, site: SiteSpec
) -> Finding:
    expected = "repositories of DGX OS only"
    mirror = site.mirror.url if site.mirror else ""

    def foreign(sources: tuple[str, ...]) -> str:
        """A repository of these that is none of DGX OS, where all are so."""
        strange = [s for s in sources if not _is_dgx(s, releases, mirror)]
        return strange[0] if len(strange) == len(sources) and strange else ""

    told = [(p, "is", p.installed, p.sources_installed) for p in mine]
    told += [(p, "would come", p.candidate, p.sources_of(p.candidate)) for p in mine]
    for p, word, which, sources in told:
        if found := foreign(sources):
            actual = f"{p.name} {which} {word} from {found}"
            return Finding(NODE, Status.FAIL, expected, actual, (at(policy, p.line),))
    for p in mine:
        best = max((v.priority for v in p.versions if v.version == p.candidate), default=0)
        for version in p.versions:
            # One that is pinned below can never win; of equal rank the next version may.
            if version.priority >= best and (found := foreign(version.sources)):
                actual = f"{found} offers {p.name} {version.version} and does not win"
                remedy = "take that repository out: on DGX OS only the vendor's belong"
                line = at(policy, p.line)
                return Finding(NODE, Status.WARN, expected, actual, (line,), remedy)
    if gone := [p for p in mine if not p.sources_installed]:
        return _not_offered(gone, policy, expected)
    known = {source for p in mine for version in p.versions for source in version.sources}
    known |= set(releases.origins)
    if not any(_DGX_PATH in s or (mirror and s.startswith(f"{mirror}/")) for s in known):
        # A file alone would excuse the node from every hold.
        actual = "/etc/dgx-release is there, but apt knows no repository of DGX OS"
        remedy = "configure the vendor's repositories (baseos), or remove /etc/dgx-release"
        line = at(policy, mine[0].line)
        return Finding(NODE, Status.UNKNOWN, expected, actual, (line,), remedy)
    actual = f"{len(mine)} packages, none from another repository"
    return Finding(NODE, Status.PASS, expected, actual, (at(policy, mine[0].line),))


def _is_dgx(source: str, releases: AptReleases, mirror: str) -> bool:
    if _CUDA_PATH.search(source.partition(" ")[0]):
        return False
    if mirror and f"{source.partition(' ')[0]}/".startswith(f"{mirror}{CUDA_OF_MIRROR}/"):
        return False
    own = _DGX_PATH in source or releases.origins.get(source) == _ARCHIVE
    return own or bool(mirror and source.startswith(f"{mirror}/"))


CHECKS: tuple[Check, ...] = (origin,)
