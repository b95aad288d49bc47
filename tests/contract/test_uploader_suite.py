"""The fake uploader keeps the promises of `Uploader`; YARN's does in ``tests/yarn``."""

from contract.fake_suites import FakeUploaderSuite


class TestFake(FakeUploaderSuite):
    """A dictionary."""
