"""Is what runs the stack that the site has declared?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.registry import NODE, Check, Finding, at, check, unknown
from fabric_tools.models.facts import LoadedModule
from fabric_tools.models.platform import SiteSpec, Target
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.reader import Missing
from fabric_tools.phases import Phase


def _none_declared(spec: Target) -> str:
    return "" if spec.site.stack else f"no stack is declared ({spec.site.source})"


@check(
    "driver.stack_lock",
    phases=(Phase.DRIVER,),
    title="the driver that runs is the one of the declared stack",
    remedy="run playbooks/20-driver.yml, which installs and holds the stack's version; or declare "
    "the stack that this node is meant to run; on DGX OS a stack of your own with driver.source "
    "dgx-os and the version that the vendor ships",
    not_applicable=_none_declared,
)
def stack_lock(module: LoadedModule | Missing, site: SiteSpec) -> Iterator[Finding]:
    """Full version and kind (open, proprietary) of the loaded module against the stack lock that
    the inventory declares (`fabric-tools stack show ID`).

    That userspace, fabric manager and packages are of the version that runs is for
    driver.stack_match and driver.packages; that it can drive the GPUs for driver.supported. A node
    that was moved as a whole to another driver passes all three, and only this check knows that
    nobody has asked for it. Whether a stack may be used at all is told by `fabric-tools stack
    check`.
    """
    if site.lock is None:
        actual = f"no stack lock {site.stack} is known"
        remedy = "see `fabric-tools stack list`; the folder of your own locks: --stacks-dir"
        where = (at(module),)
        yield Finding(NODE, Status.UNKNOWN, f"{site.stack}", actual, where, remedy)
        return
    want = site.lock.driver
    expected = f"{want.version}, {want.module} module ({site.lock.id})"
    if isinstance(module, Missing):
        yield unknown(NODE, module, expected)
        return
    good = (module.version, module.flavour) == (want.version, want.module)
    status = Status.PASS if good else Status.FAIL
    actual = f"{module.version}, {module.flavour} module"
    yield Finding(NODE, status, expected, actual, (at(module, module.line),))


CHECKS: tuple[Check, ...] = (stack_lock,)
