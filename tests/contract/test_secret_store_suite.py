"""Providers keep the promises of `SecretStore`."""

from contract.fake_suites import FakeSecretStoreSuite


class TestFake(FakeSecretStoreSuite):
    """In memory."""


class TestFakeThatIsReadOnly(FakeSecretStoreSuite):
    """Refuses to be written."""

    writable = False
