"""Proxy and certificate authorities as the site declares them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.checks.sources import is_rpm
from fabric_tools.models.facts import OsRelease
from fabric_tools.models.os_state import Addresses, AptConfig, Environment, Setting, TrustStore
from fabric_tools.models.platform import SiteSpec, Target
from fabric_tools.models.verdict import Evidence, Status
from fabric_tools.node.osstate import fingerprints
from fabric_tools.node_settings import no_proxy
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

#: Tools read one spelling or the other: curl knows http_proxy only in lower case.
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_OTHERS = ("all_proxy", "ALL_PROXY", "ftp_proxy", "FTP_PROXY")
_BYPASSES = ("no_proxy", "NO_PROXY")
_APT = ("acquire::http::proxy", "acquire::https::proxy")
_USER = re.compile(r"(?<=://)[^\s/@]*@")

Trouble = tuple[str, Evidence]


@check(
    "host.proxy",
    phases=(Phase.BASE,),
    title="the proxy is the declared one, and what must bypass it does",
    remedy="declare it in the inventory (profile.proxy, profile.no_proxy), then run "
    "playbooks/10-base.yml, which writes /etc/environment and apt's setting",
)
def proxy(
    environment: Environment,
    config: AptConfig | Missing,
    addresses: Addresses,
    os: OsRelease,
    site: SiteSpec,
) -> Iterator[Finding]:
    """``/etc/environment`` and apt name the declared proxy, and no other is set anywhere there.

    Names in lower and in upper case, because tools read one or the other. NO_PROXY must cover the
    node itself, its IPv4 addresses, its rails, what the inventory names, and with K3s the cluster's
    names and default ranges: traffic of the cluster through a proxy hangs. Credentials of the proxy
    are not compared and not shown.
    """
    if isinstance(config, Missing) and not is_rpm(os):
        yield unknown(NODE, config)
        return
    found = _proxies(environment, config)
    declared = site.profile.proxy
    if declared is None:
        yield _none(site, environment, found)
        return
    wanted = _shown(declared)
    expected = f"proxy {wanted}, and NO_PROXY covers the node and the cluster"
    troubles = [
        (f"{name} is {value}", place) for name, (value, place) in found.items() if value != wanted
    ]
    needed = (*_PROXIES, *(() if isinstance(config, Missing) else _APT[:1]))
    troubles += [(f"{name} is not set", at(environment)) for name in needed if name not in found]
    troubles += _bypass(environment, no_proxy(site, addresses.addresses))
    if troubles:
        actual = "; ".join(text for text, _ in troubles[:6])
        places = tuple(dict.fromkeys(place for _, place in troubles))
        yield Finding(NODE, Status.FAIL, expected, actual, places)
    else:
        yield Finding(NODE, Status.PASS, expected, "set so", (at(environment),))


def _proxies(
    environment: Environment, config: AptConfig | Missing
) -> dict[str, tuple[str, Evidence]]:
    """Every proxy that is set: name to URL and place."""
    found: dict[str, tuple[str, Evidence]] = {}
    for name in (*_PROXIES, *_OTHERS):
        setting = environment.values.get(name)
        if setting is not None and setting.value:
            found[name] = (_shown(setting.value), _evidence(environment, setting))
    if not isinstance(config, Missing):
        # Also those of one host only (Acquire::http::Proxy::HOST).
        hosts = [name for name in config.values if name.startswith(tuple(f"{n}::" for n in _APT))]
        for name in (*_APT, *hosts):
            setting = config.values.get(name)
            if setting is not None and setting.value not in ("", "DIRECT"):
                found[name] = (_shown(setting.value), _evidence(config, setting))
    return found


def _none(
    site: SiteSpec, environment: Environment, found: dict[str, tuple[str, Evidence]]
) -> Finding:
    expected = f"no proxy ({site.source})"
    if not found:
        why = f"no proxy is declared or set ({site.source})"
        return Finding(NODE, Status.NOT_APPLICABLE, expected, why, (at(environment),))
    actual = "set, but not declared: " + ", ".join(found)
    return Finding(NODE, Status.FAIL, expected, actual, tuple(each for _, each in found.values()))


def _bypass(environment: Environment, wanted: tuple[str, ...]) -> list[Trouble]:
    troubles: list[Trouble] = []
    for name in _BYPASSES:
        setting = environment.values.get(name)
        if setting is None:
            troubles.append((f"{name} is not set", at(environment)))
            continue
        entries = [entry for entry in re.split(r"[,\s]+", setting.value) if entry]
        missing = [item for item in wanted if not any(_covers(e, item) for e in entries)]
        if missing:
            troubles.append(
                (f"{name} lacks {', '.join(missing[:8])}", at(environment, setting.line))
            )
    return troubles


def _covers(entry: str, item: str) -> bool:
    """Whether an entry of NO_PROXY keeps a name, an address or a range from the proxy."""
    if entry == "*" or entry.lower().lstrip("*.") == item.lower().lstrip("*."):
        return True
    try:
        outer, inner = (ipaddress.ip_network(text, strict=False) for text in (entry, item))
    except ValueError:
        domain, name = entry.lower().lstrip("*."), item.lower().lstrip("*.")
        return bool(domain) and name.endswith(f".{domain}")
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _shown(url: str) -> str:
    """Without credentials and without the slash at the end, which means nothing."""
    return _USER.sub("", url.strip()).rstrip("/")


def _evidence(fact: Environment | AptConfig, setting: Setting) -> Evidence:
    """The line is shown in reports, so not where it holds credentials."""
    return at(fact, 0 if "@" in setting.value else setting.line)


def _no_ca(target: Target) -> str:
    declared = target.site.profile.ca_bundle
    return "" if declared else f"no certificate authority is declared ({target.site.source})"


@check(
    "host.ca",
    phases=(Phase.BASE,),
    title="the site's certificate authorities are trusted",
    remedy="put them below /usr/local/share/ca-certificates and run update-ca-certificates (RHEL: "
    "/etc/pki/ca-trust/source/anchors, update-ca-trust); the base phase does",
    not_applicable=_no_ca,
)
def authorities(store: TrustStore, site: SiteSpec) -> Iterator[Finding]:
    """Every certificate of ``profile.ca_bundle`` is in the system's bundle, by its SHA-256.

    Tools with a store of their own (Java, Python's certifi) are not asked.
    """
    expected = "every certificate of profile.ca_bundle is trusted"
    try:
        wanted = fingerprints(site.profile.ca_bundle or "")
    except ValueError as error:
        wanted, why = [], f"profile.ca_bundle ({site.source}) is not PEM: {error}"
    else:
        why = f"profile.ca_bundle ({site.source}) holds no certificate"
    if not wanted:
        remedy = "mend profile.ca_bundle in the inventory"
        yield Finding(NODE, Status.UNKNOWN, expected, why, (at(store),), remedy)
        return
    missing = [one for one in wanted if one not in store.fingerprints]
    if missing:
        short = ", ".join(one[:16] for one in missing)
        actual = f"{len(missing)} of {len(wanted)} not in {store.path}: SHA-256 {short}"
        yield Finding(NODE, Status.FAIL, expected, actual, (at(store),))
    else:
        evidence = tuple(at(store, store.fingerprints[one]) for one in wanted[:8])
        yield Finding(NODE, Status.PASS, expected, f"{len(wanted)} trusted", evidence)


CHECKS: tuple[Check, ...] = (proxy, authorities)
