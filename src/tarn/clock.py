"""The real clock, and how far the clocks of others are from it."""

import time
from email.utils import parsedate_to_datetime

import attrs

from tarn.interfaces import Finding

__all__ = ["Skew", "SystemClock", "skew", "skewed"]

_NOTED_S = 5.0
"""Less is of no consequence, and may come of a machine that was busy."""


class SystemClock:
    """Monotonic and wall time of this machine."""

    def now_s(self) -> float:
        """Return monotonic seconds; they do not pass while a machine sleeps."""
        return time.monotonic()

    def at(self) -> float:
        """Return Unix seconds, UTC."""
        return time.time()


@attrs.frozen
class Skew:
    """How many seconds another clock is ahead of this machine's; below 0 it is behind."""

    least_s: float
    most_s: float

    @property
    def sure_s(self) -> float:
        """How far it is off at least: 0 where it may be right."""
        if self.least_s > 0:
            return self.least_s
        return min(self.most_s, 0.0)


def skew(date: str, asked_at: float, answered_at: float) -> Skew | None:
    """Return how far the clock is off that wrote *date*, a ``Date`` header of HTTP.

    A header tells whole seconds, cut off, of some moment between question and answer.

    Args:
        date: ``Sat, 28 Nov 2026 14:00:00 GMT``.
        asked_at: When the question went out: Unix seconds by this machine.
        answered_at: When the answer had come.

    Returns:
        None where *date* is no such header.
    """
    try:
        moment = parsedate_to_datetime(date)
        written = moment.timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    return Skew(written - answered_at, written + 1.0 - asked_at)


def skewed(whose: str, off: Skew, fatal_s: float | None = None) -> Finding | None:
    """Return what is wrong where a clock is off by more than a few seconds; None: nothing.

    Args:
        whose: Whose clock it is: ``ResourceManager rm1:8088``.
        off: From `skew`.
        fatal_s: From so many seconds on nothing works: 300 where Kerberos is used.
    """
    sure_s = abs(off.sure_s)
    if sure_s <= _NOTED_S:
        return None
    way = "ahead of" if off.sure_s > 0 else "behind"
    return Finding(
        "TARN-3603",
        whose,
        f"its clock is {sure_s:.0f} s {way} that of this machine",
        "Set the wrong one by NTP: `chronyc tracking` or `timedatectl` says which one it is",
        fatal=fatal_s is not None and sure_s >= fatal_s,
    )
