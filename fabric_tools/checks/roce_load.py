"""RoCE under load: does a NIC move what its port can?"""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.checks.rails import every_rail, no_roce, speed_of
from fabric_tools.checks.registry import NODE, Check, Finding, Kind, at, check
from fabric_tools.checks.roce import RDMA_MTU
from fabric_tools.models.platform import Target
from fabric_tools.models.rdma import BwTest, BwTests
from fabric_tools.models.verdict import Status
from fabric_tools.phases import Phase

#: Port rate -> least bandwidth of one perftest in Gb/s: 92 % of the line (azurehpc-health-checks
#: gates at 90 to 95 %); MTU 4096 gives about 98 %, MTU 1024 about 92.6 %.
_LEAST = {100: 92.0, 200: 184.0, 400: 370.0, 800: 740.0}
_LARGE_BYTES = 65536


@check(
    "roce.perftest",
    phases=(Phase.ROCE,),
    title="a NIC moves what its port can",
    remedy="repeat with -q 4 -s 8388608; then nic.pcie_link, pci.acs, roce.mtu on both ends, "
    "nic.error_growth during the test; `--use_cuda` needs a perftest that was built with CUDA",
    subjects=every_rail,
    not_applicable=no_roce,
    kind=Kind.ACTIVE,
)
def perftest(tests: BwTests, spec: Target) -> Iterator[Finding]:
    """Average of the largest size of each ``ib_write_bw`` (or read, send) against its port, by
    rail; a rail that was not tested is not proved.

    At least 92, 184, 370, 740 Gb/s for ports of 100, 200, 400, 800. The port's rate is that of the
    rail with the tested device, else of the platform file. An error after good rows is a failure;
    a cut table, both directions added up, or more than the line can carry prove nothing.
    """
    rails = spec.site.rails
    by_name: dict[str, list[BwTest]] = {rail.name: [] for rail in rails} or {NODE: []}
    strange: list[BwTest] = []
    for test in tests.tests:
        mine = [rail.name for rail in rails if rail.rdma_device in test.devices]
        if rails and not mine:
            strange.append(test)
        for name in mine if rails else by_name:
            by_name[name].append(test)
    for name, found in by_name.items():
        if not found:
            actual = "no test of this rail"
            if strange:
                actual += f"; there is one of {'/'.join(strange[0].devices) or 'no named device'}"
            remedy = "run ib_write_bw on every rail, and save all of it"
            yield Finding(name, Status.UNKNOWN, "a test", actual, (at(tests),), remedy)
            continue
        yield _worst(name, [_measured(test, spec) for test in found], tests)


_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


def _worst(name: str, judged: list[tuple[Status, str, str, int]], tests: BwTests) -> Finding:
    judged.sort(key=lambda item: _ORDER.index(item[0]))
    status, expected, actual, line = judged[0]
    if len(judged) > 1:
        actual += f" (the worst of {len(judged)} tests)"
    return Finding(name, status, expected, actual, (at(tests, line),))


def _measured(test: BwTest, spec: Target) -> tuple[Status, str, str, int]:
    name = "/".join(test.devices) or "unnamed device"
    rails = [rail for rail in spec.site.rails if rail.rdma_device in test.devices]
    speed = speed_of(rails[0] if rails else None, spec)
    least = _LEAST.get(speed or 0)
    expected = f"{least:g} Gb/s or more" if least else "what the port can"
    if test.errors:
        return Status.FAIL, expected, f"{name}: {test.errors[0].text[:120]}", test.errors[0].line
    if not test.rows or not test.complete:
        return Status.UNKNOWN, expected, f"{name}: the test is cut", test.line
    row = max(test.rows, key=lambda item: item.size_bytes)
    average = row.average_gbits_s
    if average is None:
        return Status.UNKNOWN, expected, f"{name}: unit not told", row.line
    mtu = f", MTU {test.mtu_bytes}" if test.mtu_bytes else ""
    actual = f"{name}: {average:.1f} Gb/s at {row.size_bytes} bytes{mtu}"
    doubt = ""
    if spec.site.rails and not rails:
        doubt = "no rail of the inventory"
    elif least is None or speed is None:
        doubt = "the rate of this port is not declared (port_gbits_s of the rail)"
    elif "bidirectional" in (test.test or "").lower():
        doubt = "both directions added up"
    elif test.link_type not in (None, "Ethernet"):
        doubt = f"over {test.link_type}, not RoCE"
    elif average > speed * 1.01:
        doubt = f"more than a port of {speed} Gb/s can carry"
    elif average < least and row.size_bytes < _LARGE_BYTES:
        doubt = "messages too small to fill the line"
    if doubt or least is None:
        return Status.UNKNOWN, expected, f"{actual}: {doubt}", row.line
    if average < least:
        return Status.FAIL, expected, actual, row.line
    low = test.mtu_bytes is not None and test.mtu_bytes < RDMA_MTU
    return Status.WARN if low else Status.PASS, expected, actual, row.line


CHECKS: tuple[Check, ...] = (perftest,)
