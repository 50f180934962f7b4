"""Is what a site declares of a host something that this product knows?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabric_tools.checks import BY_ID
from fabric_tools.errors import UsageError
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import PlatformSpec
from fabric_tools.models.verdict import Waiver


def refuse_unknown_platform(site: HostVars, platforms: Mapping[str, PlatformSpec]) -> None:
    """Raises ``UsageError`` where ``site`` names a platform that there is no file for."""
    if site.platform is not None and site.platform not in platforms:
        known = ", ".join(sorted(platforms))
        raise UsageError(f"no platform {site.platform!r}; there are {known}")


def refuse_unknown_waivers(waivers: Iterable[Waiver]) -> None:
    """Raises ``UsageError`` for a waiver of no check, or of one that can never be waived."""
    for waiver in waivers:
        if waiver.check not in BY_ID:
            raise UsageError(
                f"no check {waiver.check!r}", where="waiver", try_next="see `fabric-tools checks`"
            )
        if not BY_ID[waiver.check].waivable:
            raise UsageError(f"{waiver.check} can never be waived", where="waiver")
