"""How many requests want a server where there is none: from what HAProxy counts.

Pure but `DemandProbe`. HAProxy counts the requests that found no server since it began, and those
that it holds in its queue now. Two readings of the first say how many were refused meanwhile: of
those nobody knows how many were one client that tried again, so only the queued ones are requests
that wait.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from tarn.follow import UnservedRequests
from tarn.interfaces import Clock

if TYPE_CHECKING:  # who only renders a haproxy.cfg needs no haproxyadmin
    from tarn_plugins.discovery.haproxy.backends import Traffic

__all__ = ["DemandProbe", "unserved"]

FORGET_AFTER_S = 5.0
"""An older reading says nothing of the present."""


def unserved(before: "Traffic | None", now: "Traffic") -> UnservedRequests:
    """Return how many requests are queued, and how many were refused since *before*.

    A counter that fell was reset, or HAProxy began again: what it shows came since.
    """
    if before is None:
        return UnservedRequests(now.queued)
    since = now.refused - before.refused
    return UnservedRequests(now.queued, since if since >= 0 else now.refused)


@attrs.define
class DemandProbe:
    """Asks HAProxy now and then; calling it returns what waits. One thread."""

    _statistics: "Callable[[], Traffic]"
    _clock: Clock
    _before: "Traffic | None" = None
    _read_s: float = 0.0

    def __call__(self) -> UnservedRequests:
        """Return which requests want a server, as far as the last readings tell.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        now, now_s = self._statistics(), self._clock.now_s()
        fresh = now_s - self._read_s <= FORGET_AFTER_S
        before = self._before if fresh else None
        self._before, self._read_s = now, now_s
        return unserved(before, now)
