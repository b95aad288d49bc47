"""When Ranger Admin answered last, and what keeps it from answering. Any thread."""

import contextlib
import logging
import threading
from pathlib import Path

import attrs

from tarn.interfaces import Clock

__all__ = ["AdminContact", "Staleness"]

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


class AdminContact:
    """What was heard of Ranger Admin.

    Args:
        clock: Of the master.
        poll_s: How often it is asked.
        kept: A file that is touched with each answer, so that the next master of the cluster knows
            how old the policies are that it finds.
    """

    def __init__(self, clock: Clock, poll_s: float, kept: Path) -> None:
        self._clock = clock
        self._late_s = 2 * poll_s + _SLACK_S
        self._kept = kept
        self._kept_at = _touched_at(kept)
        self._lock = threading.Lock()
        self._answered_s: float | None = None
        self._why = ""
        self._gone = False

    def answered(self) -> None:
        """Ranger Admin confirmed the policies, or sent new ones."""
        with self._lock:
            before, self._why, self._gone = self._why, "", False
            self._answered_s = self._clock.now_s()
        with contextlib.suppress(OSError):  # the age will be unknown, which is shown
            self._kept.touch(0o600)
        if before:
            _LOG.info("Ranger Admin answers again")

    def failed(self, why: str, *, gone: bool = False) -> None:
        """It was asked in vain; *gone*: it answered that there is no such service any more."""
        why = why or "Ranger Admin does not answer"
        with self._lock:
            before, self._why, self._gone = self._why, why, gone
        if not before:
            _LOG.warning("policies cannot be refreshed: %s", why)

    @property
    def why(self) -> str:
        """Why the last question got no answer; empty: it got one, or none was asked."""
        with self._lock:
            return self._why

    @property
    def gone(self) -> bool:
        """Say whether there is no such service: the engine would go on with what it had."""
        with self._lock:
            return self._gone

    def stale(self) -> Staleness | None:
        """Return how old the policies are; None: they are those of Ranger Admin."""
        with self._lock:
            answered_s, why = self._answered_s, self._why
        age_s = None if answered_s is None else self._clock.now_s() - answered_s
        if age_s is None:
            kept_at = self._kept_at
            age_s = None if kept_at is None else max(0.0, self._clock.at() - kept_at)
            return Staleness(age_s, why or "Ranger Admin has not answered yet")
        if why:
            return Staleness(age_s, why)
        late = age_s > self._late_s
        return Staleness(age_s, "Ranger Admin has not answered since") if late else None


def _touched_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _age(seconds: float) -> str:
    """Return ``40 s``, ``12 min``, ``3 h`` or ``2 d``. Pure."""
    for size, unit, most in ((1, "s", 120), (60, "min", 120 * 60), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"
