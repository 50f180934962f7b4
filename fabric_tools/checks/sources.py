"""Package sources: do they answer, signed, are they the declared ones; what moves by itself?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.boot import DgxOs
from fabric_tools.models.facts import OsRelease
from fabric_tools.models.os_state import AptConfig, AptSource, AptUpdate, DnfRepos
from fabric_tools.models.platform import SiteSpec, Target
from fabric_tools.models.verdict import Status
from fabric_tools.node_settings import UNATTENDED_BLACKLIST
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: ``ID`` of os-release of the distributions that have rpm and no apt.
_RPM = {"rhel", "rocky", "almalinux", "centos", "ol", "fedora"}
_SHOWN = 4
_REMEDIES = {
    "unreachable": "is the mirror up, the name right, the proxy set? `curl -I URL` on the node",
    "not found": "the mirror does not have this release: mend its URI or suite in sources.list.d",
    "no public key": "the mirror signs with another key than signed-by names: compare both, and "
    "never trust a source as it is ([trusted=yes])",
    "bad signature": "the index was changed on its way or half copied: sync the mirror again",
    "not signed": "sign the mirror's index; [trusted=yes] leaves every package to the network",
    "expired": "the node's clock is ahead (see host.time), or the mirror is no longer synced",
    "not yet valid": "the node's clock is behind: set it (see host.time)",
    "certificate": "the mirror's TLS certificate is not trusted: see host.ca, profile.ca_bundle",
    "refused": "the mirror or proxy wants other credentials: /etc/apt/auth.conf.d, proxy settings",
}


def is_rpm(os: OsRelease) -> bool:
    """Whether this distribution has rpm packages, by its own name."""
    return os.id in _RPM


def _of_mirror(source: AptSource, site: SiteSpec) -> bool:
    assert site.mirror is not None
    return source.uri.startswith(f"{site.mirror.url}/")


def _shown(items: Sequence[str]) -> str:
    more = f", and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


@check(
    "apt.sources",
    phases=(Phase.PREFLIGHT, Phase.BASE),
    title="every package source answers and is signed",
    remedy="run `apt-get update` on the node and mend what it names",
)
def sources(
    os: OsRelease,
    dgx: DgxOs | Missing,
    apt: AptUpdate | Missing,
    dnf: DnfRepos | Missing,
    site: SiteSpec,
) -> Iterator[Finding]:
    """Every configured source must answer, with an index that its key has signed and that is valid.

    Only the signed index is asked for, no package list. Where the inventory declares a mirror, only
    its sources are judged here, for the base phase replaces all others; that they are gone is the
    business of apt.mirror. On DGX OS, where the vendor's sources stay, all are judged. On RHEL `dnf
    makecache` is asked.
    """
    expected = "every source answers, signed by its key"
    if is_rpm(os):
        yield _dnf(dnf, expected)
        return
    if isinstance(apt, Missing):
        yield unknown(NODE, apt, expected)
        return
    if apt.config is not None:
        yield Finding(NODE, Status.FAIL, expected, apt.config, (at(apt, apt.line),))
        return
    replaced = site.mirror is not None and not _is_dgx(dgx)
    mine = [s for s in apt.sources if not replaced or _of_mirror(s, site)]
    if not mine and replaced:
        assert site.mirror is not None
        why = f"no source of {site.mirror.url} yet: the base phase puts it in place ({site.source})"
        yield Finding(NODE, Status.NOT_APPLICABLE, expected, why, (at(apt),))
        return
    if not mine:
        yield Finding(NODE, Status.FAIL, expected, "no source is configured", (at(apt),))
        return
    bad = [source for source in mine if source.trouble]
    if not bad:
        yield Finding(NODE, Status.PASS, expected, f"{len(mine)} answer, signed", (at(apt),))
        return
    yield Finding(
        NODE,
        Status.FAIL,
        expected,
        _shown([f"{source.uri}: {source.trouble}" for source in bad]),
        tuple(at(apt, source.line) for source in bad[:_SHOWN]),
        _REMEDIES.get(bad[0].trouble or "", ""),
    )


def _is_dgx(dgx: DgxOs | Missing) -> bool:
    return not isinstance(dgx, Missing) and dgx.present


def _dnf(dnf: DnfRepos | Missing, expected: str) -> Finding:
    if isinstance(dnf, Missing):
        return unknown(NODE, dnf, expected)
    if dnf.trouble is None:
        return Finding(NODE, Status.PASS, expected, "dnf makecache went well", (at(dnf),))
    remedy = "run `dnf makecache` on the node and mend what it names"
    return Finding(NODE, Status.FAIL, expected, dnf.trouble, (at(dnf, dnf.line),), remedy)


def _no_mirror(target: Target) -> str:
    return "" if target.site.mirror else f"no mirror is declared ({target.site.source})"


@check(
    "apt.mirror",
    phases=(Phase.BASE,),
    title="packages come from the declared mirror and nowhere else",
    remedy="remove the other sources from sources.list and sources.list.d (the base phase does)",
    not_applicable=_no_mirror,
)
def mirror(
    os: OsRelease, dgx: DgxOs | Missing, apt: AptUpdate | Missing, site: SiteSpec
) -> Iterator[Finding]:
    """Where the inventory declares a mirror, every source lies below its URL and one does at least.

    Another source can move a package that the mirror pins, or stop the node's updates where the
    site has no internet. Whether the sources answer is said by apt.sources. On DGX OS the vendor's
    sources stay as they are; a foreign one is driver.origin's finding.
    """
    assert site.mirror is not None
    expected = f"only sources below {site.mirror.url}"
    if is_rpm(os):
        why = f"{os.id} has no apt (os-release)"
        yield Finding(NODE, Status.NOT_APPLICABLE, expected, why, (at(os, os.line),))
    elif not isinstance(dgx, Missing) and dgx.present:
        why = "DGX OS keeps its vendor's sources (/etc/dgx-release)"
        yield Finding(NODE, Status.NOT_APPLICABLE, expected, why, (at(dgx, dgx.line),))
    elif isinstance(apt, Missing):
        yield unknown(NODE, apt, expected)
    elif apt.config is not None:
        reason = f"the sources cannot be read: {apt.config}"
        yield unknown(NODE, Missing(apt.probe, reason, recorded=True, line=apt.line), expected)
    else:
        other = [source for source in apt.sources if not _of_mirror(source, site)]
        if not other and apt.sources:
            actual = f"{len(apt.sources)} sources, all below it"
            yield Finding(NODE, Status.PASS, expected, actual, (at(apt),))
        else:
            actual = _shown([source.uri for source in other]) or "no source is configured"
            evidence = tuple(at(apt, source.line) for source in other[:_SHOWN]) or (at(apt),)
            yield Finding(NODE, Status.FAIL, expected, actual, evidence)


@check(
    "apt.unattended",
    phases=(Phase.BASE,),
    title="no driver and no kernel moves by itself",
    remedy='turn unattended upgrades off (APT::Periodic::Unattended-Upgrade "0"), or name these '
    "packages in Unattended-Upgrade::Package-Blacklist (the base phase does)",
)
def unattended(os: OsRelease, config: AptConfig | Missing) -> Iterator[Finding]:
    """Unattended upgrades are off, or their blacklist covers driver, CUDA and kernel packages.

    An entry is a pattern for the beginning of a name; one that is more than plain text, with ``^``
    before it or ``.*`` behind it, is not counted on. Whether the tool is installed is not asked:
    with the setting on, its installation is all that is missing.
    """
    expected = "off, or a blacklist of " + " ".join(UNATTENDED_BLACKLIST)
    if is_rpm(os):
        why = f"{os.id} has no apt (os-release)"
        yield Finding(NODE, Status.NOT_APPLICABLE, expected, why, (at(os, os.line),))
        return
    if isinstance(config, Missing):
        yield unknown(NODE, config, expected)
        return
    for name in ("apt::periodic::enable", "apt::periodic::unattended-upgrade"):
        setting = config.values.get(name)
        off = setting is not None and setting.value.strip() in ("0", "")
        if off or (setting is None and not name.endswith("enable")):
            evidence = (at(config, setting.line if setting else 0),)
            yield Finding(NODE, Status.PASS, expected, "off", evidence)
            return
    entries = config.lists.get("unattended-upgrade::package-blacklist::", ())
    open_ = [
        name for name in UNATTENDED_BLACKLIST
        if not any(_covers(entry.value, name) for entry in entries)
    ]  # fmt: skip
    on = config.values["apt::periodic::unattended-upgrade"]
    evidence = (at(config, on.line),)
    if open_:
        yield Finding(NODE, Status.FAIL, expected, f"on, not held: {' '.join(open_)}", evidence)
    else:
        yield Finding(NODE, Status.PASS, expected, "on, with these on its blacklist", evidence)


def _covers(entry: str, name: str) -> bool:
    """Whether a blacklist entry matches every package whose name begins with ``name``."""
    plain = entry.strip().removeprefix("^").removesuffix(".*")
    if not plain or any(char in r"$^*+?()[]{}|\." for char in plain):
        return entry.strip() in (".*", "^.*")
    return name.startswith(plain)


CHECKS: tuple[Check, ...] = (sources, mirror, unattended)
