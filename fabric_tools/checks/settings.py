"""Limits of sessions and settings of the kernel, by the table in ``node_settings``."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.os_state import LimitLine, Limits, Sysctls
from fabric_tools.models.verdict import Status
from fabric_tools.node_settings import LIMIT_DOMAINS, LIMITS, SYSCTLS, LimitSetting
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase

_UNLIMITED = {"unlimited", "infinity", "-1"}


@check(
    "host.limits",
    phases=(Phase.BASE,),
    title="sessions may lock memory and open files enough",
    remedy="write them to a file in /etc/security/limits.d (the base phase does, but not on DGX "
    "OS, where limits are the vendor's); PAM applies a line for * to everybody but root",
)
def limits(found: Limits) -> Iterator[Finding]:
    """Soft and hard limits for everybody and for root, as PAM reads its files: the last line wins.

    RDMA needs memory that is locked without limit; few open files are worth a warning. Services
    have limits of their own in their units; those of K3s belong to its phase.
    """
    expected = ", ".join(f"{want.item} {want.value}" for want in LIMITS)
    faults: list[str] = []
    warnings: list[str] = []
    for want in LIMITS:
        for domain in LIMIT_DOMAINS:
            for kind in ("soft", "hard"):
                line = _last(found, domain, kind, want.item)
                if line is None or not _enough(line.value, want):
                    text = f"{domain} {kind} {want.item} is " + (
                        f"{line.value} ({line.path}:{line.line})" if line else "not set"
                    )
                    (faults if want.needed else warnings).append(text)
    status = Status.FAIL if faults else Status.WARN if warnings else Status.PASS
    actual = "; ".join((faults + warnings)[:6]) or "set so for * and root"
    yield Finding(NODE, status, expected, actual, (at(found),))


def _last(found: Limits, domain: str, kind: str, item: str) -> LimitLine | None:
    mine = [
        line for line in found.lines
        if line.domain == domain and line.item == item and line.kind in (kind, "-")
    ]  # fmt: skip
    return mine[-1] if mine else None


def _enough(value: str, want: LimitSetting) -> bool:
    if value in _UNLIMITED:
        return True
    if want.minimum is None or not (value.isascii() and value.isdigit() and len(value) < 19):
        return False
    return int(value) >= want.minimum


@check(
    "host.sysctl",
    phases=(Phase.BASE,),
    title="the kernel is set for many processes that watch files",
    remedy="write them to a file in /etc/sysctl.d and run `sysctl --system` (the base phase does, "
    "but not on DGX OS)",
)
def sysctl(found: Sysctls) -> Iterator[Finding]:
    """Values in force, not those in files: what another file or tool has set since counts.

    Settings of the rails belong to the roce phase, those of the kubelet to the k3s phase.
    """
    expected = ", ".join(f"{want.name} >= {want.minimum}" for want in SYSCTLS)
    wrong, evidence = [], []
    for want in SYSCTLS:
        setting = found.values.get(want.name)
        if setting is None or not (setting.value.isascii() and setting.value.isdigit()):
            reason = f"{want.name} is not told"
            yield unknown(NODE, Missing(found.probe, reason, recorded=True), expected)
            return
        evidence.append(at(found, setting.line))
        if len(setting.value) < 19 and int(setting.value) < want.minimum:
            wrong.append(f"{want.name} is {setting.value} ({want.why})")
    status = Status.FAIL if wrong else Status.PASS
    yield Finding(NODE, status, expected, "; ".join(wrong) or "set so", tuple(evidence))


CHECKS: tuple[Check, ...] = (limits, sysctl)
