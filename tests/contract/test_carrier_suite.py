"""The fake carrier keeps the promises of `Carrier`; YARN's does in ``tests/yarn``."""

from contract.fake_suites import FakeCarrierSuite


class TestFake(FakeCarrierSuite):
    """A dictionary."""
