"""The checks of the base phase: what they compare, and what they must not show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabric_tools.checks import proxy, sources
from fabric_tools.models.inventory import Profile, Rail
from fabric_tools.models.platform import SiteSpec
from fabric_tools.models.snapshot import ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.node.redact import redact_snapshot
from fabric_tools.node_settings import LIMIT_DOMAINS, as_vars, no_proxy
from fabric_tools.phases import Phase
from tests.cases_runner import decide, load_site, site_of, snapshot_of

SITE = load_site("site.yaml")


@pytest.fixture
def node(tmp_path: Path) -> Snapshot:
    """The healthy node of a site that declares everything."""
    return snapshot_of({"with": "site"}, tmp_path / "node")


def changed(node: Snapshot, probe: str, old: str, new: str) -> Snapshot:
    text = node.probes[probe].stdout
    assert old in text
    result = ProbeResult(status=ProbeStatus.OK, stdout=text.replace(old, new))
    return node.model_copy(update={"probes": {**node.probes, probe: result}})


def test_credentials_of_the_proxy_are_neither_compared_nor_shown(node: Snapshot) -> None:
    secret = "http://operator:hunter2@proxy.example.org:3128"
    profile = {**SITE["profile"], "proxy": secret}
    site = site_of({"site": {**SITE, "profile": profile}})
    for probe in ("environment", "apt_config"):
        node = changed(node, probe, "http://proxy.example.org:3128", secret)
    assert decide(node, Phase.BASE, site).open
    wrong = changed(node, "environment", "hunter2@proxy", "hunter2@other")
    wrong = changed(wrong, "apt_config", "hunter2@proxy", "hunter2@other")
    decision = decide(wrong, Phase.BASE, site)
    assert not decision.open
    assert "hunter2" not in decision.model_dump_json()
    undeclared = decide(wrong, Phase.BASE)
    assert {v.status for v in undeclared.verdicts if v.check == "host.proxy"} == {Status.FAIL}
    assert "hunter2" not in undeclared.model_dump_json()


def test_a_redacted_node_is_judged_alike(node: Snapshot) -> None:
    plain = json.loads(node.model_dump_json())
    redacted = Snapshot.model_validate(redact_snapshot(plain))
    site = site_of({"site": {**SITE, "profile": {**SITE["profile"], "time_servers": []}}})
    assert decide(redacted, Phase.BASE, site).open


@pytest.mark.parametrize(
    ("entry", "item", "covered"),
    [
        ("*", "10.42.0.0/16", True), ("10.0.0.0/8", "10.42.0.0/16", True),
        ("10.42.0.0/24", "10.42.0.0/16", False), ("10.0.0.0/8", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3", True), ("10.1.2.30", "10.1.2.3", False),
        ("svc", ".svc", True), ("*.svc", ".svc", True), ("local", ".cluster.local", True),
        ("cluster.local", ".svc", False), ("ocalhost", "localhost", False),
        (".", "localhost", False),
        ("fd00::/8", "10.1.2.3", False), ("0.0.0.0/0", "localhost", False),
    ],
)  # fmt: skip
def test_what_an_entry_of_no_proxy_covers(entry: str, item: str, covered: bool) -> None:
    assert proxy._covers(entry, item) is covered


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        ("nvidia-", True), ("nvidia", True), ("^nvidia-", True), ("nvidia-.*", True), (".*", True),
        ("", False), ("nvidia-driver", False), ("nvidia-$", False), ("nvidia-[a-c]", False),
        (".*nvidia", False), ("vidia-", False), ("nvidia-\\w+", False),
    ],
)  # fmt: skip
def test_what_an_entry_of_the_blacklist_covers(entry: str, covered: bool) -> None:
    assert sources._covers(entry, "nvidia-") is covered


def test_what_bypasses_the_proxy() -> None:
    rail = Rail(
        name="r", netdev="n", rdma_device="m", address="10.0.0.11/24", subnet="10.0.0.0/24"
    )  # fmt: skip
    site = SiteSpec(profile=Profile(k3s="none", no_proxy=(".a",)), rails=(rail,))
    wanted = ("localhost", "127.0.0.1", "192.0.2.1", "10.0.0.11", ".a")
    assert no_proxy(site, ("127.0.0.1", "::1", "192.0.2.1", "fd00::1")) == wanted
    assert ".svc" in no_proxy(SiteSpec(), ())


def test_the_roles_get_plain_values() -> None:
    """They are written to files by Ansible, so nothing of ours may be left in them."""
    found = as_vars()
    assert json.loads(json.dumps(found)) == found
    assert {"domain": "root", "item": "memlock", "value": "unlimited"} in found["limits"]  # type: ignore[operator]
    assert LIMIT_DOMAINS == ("*", "root")


def test_a_node_that_was_set_by_the_table_passes(node: Snapshot) -> None:
    """The table and the checks agree: what the roles write from it is what the checks want."""
    wanted = as_vars()
    lines = "".join(
        f"{each['domain']} {kind} {each['item']} {each['value']}\n"
        for each in wanted["limits"]  # type: ignore[attr-defined]
        for kind in ("soft", "hard")
    )
    files = {"/etc/security/limits.d/90.conf": {"text": lines, "size": 1, "mode": "0644"}}
    blacklist = "".join(
        f'Unattended-Upgrade::Package-Blacklist:: "{name}";\n'
        for name in wanted["unattended_blacklist"]  # type: ignore[attr-defined]
    )
    texts = {
        "limits": json.dumps(files),
        "sysctl": "kernel.ostype = Linux\n"
        + "".join(f"{k} = {v}\n" for k, v in wanted["sysctls"].items()),  # type: ignore[attr-defined]
        "apt_config": 'APT "";\nAPT::Periodic::Unattended-Upgrade "1";\nDir "/";\n' + blacklist,
    }
    probes = {n: ProbeResult(status=ProbeStatus.OK, stdout=t) for n, t in texts.items()}
    made = node.model_copy(update={"probes": {**node.probes, **probes}})
    judged = {v.check: v.status for v in decide(made, Phase.BASE).verdicts}
    for check in ("host.limits", "host.sysctl", "apt.unattended"):
        assert judged[check] is Status.PASS
