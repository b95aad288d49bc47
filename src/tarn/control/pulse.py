"""Whether the control thread still turns, and whether the wall clock goes with it."""

from tarn.interfaces import Clock

__all__ = ["Pulse", "WallClock"]

MISSED_TICKS = 5
JUMP_S = 60.0
"""Less is how a clock is set right, or a late tick."""
LEAST_S = 10.0
"""A starved machine, or one that swaps, makes ticks late; this is later than it should ever be."""


class Pulse:
    """Beats with each tick that went through; any thread may feel it.

    Args:
        clock: Measures how long ago the last beat was; None: nobody asks.
        interval_s: Between two ticks.
    """

    def __init__(self, clock: Clock | None = None, interval_s: float = 1.0) -> None:
        self._clock = clock
        self._patience_s = max(LEAST_S, MISSED_TICKS * interval_s)
        self._beat_s: float | None = None

    def beat(self) -> None:
        """Note that a tick went through, or that the first one is due now."""
        if self._clock is not None:
            self._beat_s = self._clock.now_s()

    def silent_s(self) -> float:
        """Return for how long the thread has missed its ticks; 0: it turns, or has not begun."""
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
        """Say that the wall clock jumped since the last tick; empty when it did not."""
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
