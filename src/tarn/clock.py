"""The real clock, and the difference of other machines' clocks from it."""

import time
from email.utils import parsedate_to_datetime

import attrs

from tarn.interfaces import Finding

__all__ = ["Skew", "SystemClock", "skew", "skewed"]

# A smaller difference is harmless, and may be due to a busy machine.
_NOTED_S = 5.0


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
    """The bounds of the seconds by which another clock is ahead (below 0: behind)."""

    least_s: float
    most_s: float

    @property
    def sure_s(self) -> float:
        """The least difference; 0 if the clock may be right."""
        if self.least_s > 0:
            return self.least_s
        return min(self.most_s, 0.0)


def skew(date: str, asked_at: float, answered_at: float) -> Skew | None:
    """Return how far the clock is off that wrote *date*, a ``Date`` header of HTTP.

    Args:
        date: ``Sat, 28 Nov 2026 14:00:00 GMT``.
        asked_at: When the request was sent: Unix seconds by this machine.
        answered_at: When the response had arrived.

    Returns:
        None if *date* is not such a header.
    """
    try:
        moment = parsedate_to_datetime(date)
        written = moment.timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    # The header was written between request and response, and its seconds are rounded down.
    return Skew(written - answered_at, written + 1.0 - asked_at)


def skewed(whose: str, off: Skew, fatal_s: float | None = None) -> Finding | None:
    """Return the finding on a clock that is off by more than a few seconds, or None.

    Args:
        whose: The machine or service, such as ``ResourceManager rm1:8088``.
        off: From `skew`.
        fatal_s: The difference at which nothing works any more: 300 with Kerberos.
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
