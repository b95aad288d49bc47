"""Providers keep the promises of `Discovery`."""

from contract.fake_suites import FakeDiscoverySuite


class TestFake(FakeDiscoverySuite):
    """Publishes into memory."""
