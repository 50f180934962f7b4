"""What judging one snapshot of real size costs: all parsers, all checks, three gates.

XML of 8 GPUs of at least 500 kB (with the lists of supported clocks that the driver prints), kernel
log of at least 5,000 lines. Median of 15 after one warm-up; the aim is at most 150 ms. Beside it,
in the same run, what the XML alone costs in ElementTree, which no reader of it can go below.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric_tools.judge import Question, judge  # noqa: E402
from fabric_tools.models.snapshot import ProbeResult, Snapshot  # noqa: E402
from fabric_tools.phases import Phase  # noqa: E402
from fabric_tools.platforms import load_platforms  # noqa: E402
from fabric_tools.transport.files import read_snapshot  # noqa: E402

RUNS = 15
AIM_MS = 150.0


def main() -> int:
    snapshot = _real_size(read_snapshot(ROOT / "examples" / "healthy"))
    xml = snapshot.probes["nvidia_smi_q_xml"].stdout
    log = snapshot.probes["kernel_journal"].stdout
    assert len(xml) >= 500_000 and log.count("\n") >= 5_000
    print(f"XML {len(xml) / 1000:.0f} kB, kernel log {log.count(chr(10))} lines")
    question = Question(
        phases=(Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK),
        platforms=load_platforms(),
        host="node",
        as_of=datetime.now(UTC),
    )

    def all_gates() -> None:
        assert all(decision.open for decision in judge(snapshot, question).decisions)

    floor = _median_ms(lambda: ElementTree.fromstring(xml))
    took = _median_ms(all_gates)
    print(f"ElementTree alone    {floor:6.1f} ms")
    print(f"parse and judge      {took:6.1f} ms  ({took / floor:.1f} x; aim at most {AIM_MS:g} ms)")
    return 0


def _median_ms(call: Callable[[], object]) -> float:
    times = []
    for number in range(RUNS + 1):  # the first fills caches
        began = time.perf_counter()
        call()
        if number:
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _real_size(snapshot: Snapshot) -> Snapshot:
    probes = dict(snapshot.probes)
    xml, log = probes["nvidia_smi_q_xml"].stdout, probes["kernel_journal"].stdout
    probes["nvidia_smi_q_xml"] = _text(probes["nvidia_smi_q_xml"], _with_clocks(xml))
    probes["kernel_journal"] = _text(probes["kernel_journal"], _with_noise(log))
    return snapshot.model_copy(update={"probes": probes})


def _text(result: ProbeResult, text: str) -> ProbeResult:
    return result.model_copy(update={"stdout": text})


def _with_clocks(xml: str) -> str:
    """The block ``supported_clocks`` as the driver prints it: one line a clock, from 1980 MHz."""
    steps = "".join(
        f"\t\t\t\t<supported_graphics_clock>{mhz} MHz</supported_graphics_clock>\n"
        for mhz in range(1980, 210, -15)
    )
    groups = "".join(
        "\t\t\t<supported_mem_clock>\n"
        f"\t\t\t\t<value>{mhz} MHz</value>\n{steps}\t\t\t</supported_mem_clock>\n"
        for mhz in (2619, 1593, 1215, 1005, 810, 605, 405, 345)
    )
    block = f"\t\t<supported_clocks>\n{groups}\t\t</supported_clocks>\n\t</gpu>"
    if "<supported_clocks>" in xml:
        xml = re.sub(r"\t\t<supported_clocks>.*?</supported_clocks>\n", "", xml, flags=re.DOTALL)
    return xml.replace("\t</gpu>", block)


def _with_noise(log: str) -> str:
    """Lines of a busy node between the lines of the example."""
    noise = "".join(
        f"[{100 + number / 10:12.6f}] node kernel: cni0: port {number % 60}(veth{number:08x}) "
        f"entered {('blocking', 'forwarding', 'disabled')[number % 3]} state\n"
        for number in range(5_200)
    )
    return log.rstrip("\n") + "\n" + noise


if __name__ == "__main__":
    sys.exit(main())
