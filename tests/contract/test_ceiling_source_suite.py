"""Providers keep the promises of `CeilingSource`."""

from contract.fake_suites import FakeCeilingSourceSuite


class TestFake(FakeCeilingSourceSuite):
    """A farm in memory."""
