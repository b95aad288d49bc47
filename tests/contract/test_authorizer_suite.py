"""Authorizers keep the promises of `Authorizer`."""

from contract.fake_suites import FakeAuthorizerSuite

from tarn.testing.contracts import AuthorizerContract
from tarn_plugins.authorizer import none


class TestFake(FakeAuthorizerSuite):
    """Rules in memory."""


class TestFakeThatIsNotReady(FakeAuthorizerSuite):
    """Cannot answer, and so denies."""

    settings = {"allow": (("*", "*"),), "unready": "the policies could not be read"}


class TestNone(AuthorizerContract):
    """Allows everything, and says so."""

    factory = none.tarn_authorizers()["none"]
