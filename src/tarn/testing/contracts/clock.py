"""What a clock promises."""

import itertools
import math
import threading

from tarn.interfaces import Clock
from tarn.testing.wait import within

__all__ = ["ClockContract"]

_WAIT_S = 0.02
_LEAST_S, _MOST_S = 0.5 * _WAIT_S, 100 * _WAIT_S
_YEAR_2020, _YEAR_2100 = 1_577_836_800.0, 4_102_444_800.0


class ClockContract:
    """Override `make`; and `pass_time` where time does not pass by itself."""

    def make(self) -> Clock:
        """Return the clock under test."""
        raise NotImplementedError

    def pass_time(self, clock: Clock, by_s: float) -> None:
        """Let about *by_s* seconds pass (up to a hundred times more on a busy machine)."""
        threading.Event().wait(by_s)

    def test_is_a_clock(self) -> None:
        """It has both times."""
        assert isinstance(self.make(), Clock)

    def test_monotonic_time_never_goes_back(self) -> None:
        """A thousand readings are in order."""
        clock = self.make()
        read = [clock.now_s() for _ in range(1000)]
        assert all(earlier <= later for earlier, later in itertools.pairwise(read))

    def test_differences_are_seconds(self) -> None:
        """What passes is seen, in seconds."""
        clock = self.make()
        before_s = clock.now_s()
        self.pass_time(clock, _WAIT_S)
        passed_s = clock.now_s() - before_s
        assert _LEAST_S <= passed_s <= _MOST_S, passed_s

    def test_wall_time_passes_like_the_monotonic_one(self) -> None:
        """Wall time goes on in seconds too."""
        clock = self.make()
        before = clock.at()
        self.pass_time(clock, _WAIT_S)
        passed_s = clock.at() - before
        assert _LEAST_S <= passed_s <= _MOST_S, passed_s

    def test_wall_time_is_unix_seconds(self) -> None:
        """It lies between the years 2020 and 2100: neither milliseconds nor time since boot."""
        assert _YEAR_2020 < self.make().at() < _YEAR_2100

    def test_both_times_are_finite_floats(self) -> None:
        """Arithmetic with them never surprises."""
        clock = self.make()
        for read in (clock.now_s(), clock.at()):
            assert isinstance(read, float)
            assert math.isfinite(read)

    def test_any_thread_may_ask(self) -> None:
        """A thread that asks later reads no earlier time."""
        clock = self.make()
        before_s = clock.now_s()
        assert within(5.0, clock.now_s) >= before_s
