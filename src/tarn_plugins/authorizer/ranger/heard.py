"""When Ranger Admin answered last, and what keeps it from answering. Any thread."""

import logging
import threading
from collections.abc import Callable

import attrs

from tarn.interfaces import Clock

__all__ = ["Heard", "Staleness"]

_LOG = logging.getLogger("tarn.ranger")
_SLACK_S = 60.0
"""A download of many policies may take this long."""


@attrs.frozen
class Staleness:
    """Policies that could not be refreshed."""

    age_s: float | None
    """Since they were confirmed; None: nobody knows."""
    why: str

    def __str__(self) -> str:
        """Render ``policies of 12 min ago: Connection refused``."""
        age = "of an unknown age" if self.age_s is None else f"of {_age(self.age_s)} ago"
        return f"policies {age}: {self.why}"


class Heard:
    """What was heard of Ranger Admin.

    Args:
        clock: Of the master.
        poll_s: How often it is asked.
        cached_at: Returns the wall time of what the cache holds; None: it holds nothing.
    """

    def __init__(self, clock: Clock, poll_s: float, cached_at: Callable[[], float | None]) -> None:
        self._clock = clock
        self._late_s = 2 * poll_s + _SLACK_S
        self._cached_at = cached_at
        self._lock = threading.Lock()
        self._answered_s: float | None = None
        self._why = ""

    def answered(self) -> None:
        """Ranger Admin confirmed the policies, or sent new ones."""
        with self._lock:
            before, self._why = self._why, ""
            self._answered_s = self._clock.now_s()
        if before:
            _LOG.info("Ranger Admin answers again")

    def failed(self, why: str) -> None:
        """It was asked in vain."""
        why = why or "Ranger Admin does not answer"
        with self._lock:
            before, self._why = self._why, why
        if not before:
            _LOG.warning("policies cannot be refreshed: %s", why)

    @property
    def why(self) -> str:
        """Why the last question got no answer; empty: it got one, or none was asked."""
        with self._lock:
            return self._why

    def stale(self) -> Staleness | None:
        """Return how old the policies are; None: they are those of Ranger Admin."""
        with self._lock:
            answered_s, why = self._answered_s, self._why
        age_s = None if answered_s is None else self._clock.now_s() - answered_s
        if age_s is None:
            cached_at = self._cached_at()
            age_s = None if cached_at is None else max(0.0, self._clock.at() - cached_at)
            return Staleness(age_s, why or "Ranger Admin has not answered yet")
        if why:
            return Staleness(age_s, why)
        late = age_s > self._late_s
        return Staleness(age_s, "Ranger Admin was not heard since") if late else None


def _age(seconds: float) -> str:
    """Return ``40 s``, ``12 min``, ``3 h`` or ``2 d``. Pure."""
    for size, unit, most in ((1, "s", 120), (60, "min", 120 * 60), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"
