"""Watch the control thread's ticks, and jumps of the wall clock."""

from tarn.interfaces import Clock

__all__ = ["Pulse", "WallClock"]

MISSED_TICKS = 5
# A smaller jump may be a late tick, or a correction of the clock.
JUMP_S = 60.0
# A starved or swapping machine makes ticks late, but not this late.
LEAST_S = 10.0


class Pulse:
    """Beats with each tick that succeeded; any thread may read it.

    Args:
        clock: Measures the time since the last beat; None: it is not watched.
        interval_s: The time between two ticks.
    """

    def __init__(self, clock: Clock | None = None, interval_s: float = 1.0) -> None:
        self._clock = clock
        self._patience_s = max(LEAST_S, MISSED_TICKS * interval_s)
        self._beat_s: float | None = None

    def beat(self) -> None:
        """Note that a tick succeeded, or that the first one is due now."""
        if self._clock is not None:
            self._beat_s = self._clock.now_s()

    def silent_s(self) -> float:
        """Return for how long ticks have been missing; 0: none are, or the first is not due."""
        beat_s = self._beat_s
        if beat_s is None or self._clock is None:
            return 0.0
        late_s = self._clock.now_s() - beat_s
        return late_s if late_s > self._patience_s else 0.0


class WallClock:
    """Compares wall time with monotonic time, tick by tick."""

    def __init__(self, now_s: float, at: float) -> None:
        self._ahead_s = at - now_s

    def jumped(self, now_s: float, at: float) -> str:
        """Say that the wall clock jumped since the last tick; empty if it did not."""
        before_s, self._ahead_s = self._ahead_s, at - now_s
        jump_s = self._ahead_s - before_s
        if abs(jump_s) < JUMP_S:
            return ""
        way = "forward" if jump_s > 0 else "back"
        return (
            f"the wall clock jumped {way} by {abs(jump_s):.0f} s (it was set, or the machine "
            "slept): times before and after differ by that much, and no instance is replaced "
            "for it"
        )
