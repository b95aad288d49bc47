"""Providers keep the promises of `Signal`."""

from contract.fake_suites import FakeSignalSuite


class TestFake(FakeSignalSuite):
    """The mean of one metric."""
