"""Clocks keep the promises of `Clock`."""

from contract.fake_suites import FakeClockSuite

from tarn.clock import SystemClock
from tarn.interfaces import Clock
from tarn.testing.contracts import ClockContract


class TestFake(FakeClockSuite):
    """Stands until it is moved."""


class TestSystem(ClockContract):
    """The machine's own."""

    def make(self) -> Clock:
        return SystemClock()
