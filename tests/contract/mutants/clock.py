"""Clocks with one fault each."""

import math
import threading

from tarn.testing.fakes import FakeClock


class GoesBack(FakeClock):
    """Is a second earlier at every other reading."""

    def now_s(self) -> float:
        odd = self.__dict__["odd"] = not self.__dict__.get("odd", False)
        return super().now_s() - (1.0 if odd else 0.0)


class StandsStill(FakeClock):
    """Never moves."""

    def now_s(self) -> float:
        return 1000.0


class CountsMilliseconds(FakeClock):
    """Counts a thousand to the second."""

    def now_s(self) -> float:
        return super().now_s() * 1000.0


class HasWallTimeSinceBoot(FakeClock):
    """Gives the monotonic time as wall time."""

    def at(self) -> float:
        return self.now_s()


class HasWallTimeInMilliseconds(FakeClock):
    """Gives wall time as Java does."""

    def at(self) -> float:
        return super().at() * 1000.0


class CountsWholeSeconds(FakeClock):
    """Rounds, so that short times do not pass."""

    def now_s(self) -> float:
        return float(math.floor(super().now_s()))


class HasWholeWallSeconds(FakeClock):
    """Gives an int."""

    def at(self) -> float:
        return int(super().at())


class StopsAtNothing(FakeClock):
    """Has a wall time that does not pass."""

    def at(self) -> float:
        return 1_700_000_000.0


class HasNoWallTime(FakeClock):
    """Has one time only."""

    at = None  # type: ignore[assignment]


class BelongsToOneThread(FakeClock):
    """Answers only the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = threading.get_ident()

    def now_s(self) -> float:
        if threading.get_ident() != self.owner:
            raise RuntimeError("another thread")
        return super().now_s()
