"""``ledger show`` and ``drift`` as plain lines."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_tools.models.ledger import HostDrift, HostStanding
from fabric_tools.report.text import printable


def standing_lines(host: HostStanding) -> Iterator[str]:
    """The head to note elsewhere, then a line for each phase that was judged or comes next."""
    entries = f"{host.entries} entr{'y' if host.entries == 1 else 'ies'}"
    head = f", head {host.entries}:{host.head}" if host.head else ""
    yield printable(f"{host.host}: {entries}{head}")
    yield from (f"  TAMPERED: {printable(text)}" for text in host.complaints)
    yield from (f"  CANNOT TELL: {printable(text)}" for text in host.doubts)
    never = [item.phase for item in host.phases if not item.judged]
    for item in host.phases:
        if item.judged and item.recorded_at:
            when = f"{item.recorded_at:%Y-%m-%d %H:%M}, version {item.tool_version}"
            why = "" if item.proved else f": {item.why}"
            word = "proved    " if item.proved else "NOT proved"
            yield f"  {item.phase:13} {word} {printable(f'({when}){why}')}"
    if never:
        yield f"  never judged: {', '.join(never)}"


def verified_lines(host: HostStanding, *, whole: bool) -> Iterator[str]:
    """What ``ledger verify`` found; the head where all is well."""
    yield from (printable(f"{host.host}: TAMPERED: {text}") for text in host.complaints)
    yield from (printable(f"{host.host}: CANNOT TELL: {text}") for text in host.doubts)
    if whole:
        yield printable(f"{host.host}: whole, head {host.entries}:{host.head}")


def drift_lines(host: HostDrift) -> Iterator[str]:
    """What moved, what cannot be told, and what was not compared."""
    since = f" since {host.phase} at {host.proved_at:%Y-%m-%d %H:%M}" if host.proved_at else ""
    word = "DRIFT" if host.changed else "CANNOT TELL" if host.untold else "no drift"
    yield printable(f"{host.host}: {word}{since}")
    yield from (f"  {printable(text)}" for text in host.changed)
    yield from (f"  cannot tell: {printable(text)}" for text in host.untold)
    yield from (f"  not compared: {printable(text)}" for text in host.left_out)
