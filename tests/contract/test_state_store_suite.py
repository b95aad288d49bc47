"""State stores keep the promises of `StateStore`."""

from contract.fake_suites import FakeStateStoreSuite

from tarn.testing.contracts import StateStoreContract
from tarn_plugins.runtime import local


class TestFake(FakeStateStoreSuite):
    """In memory."""


class TestLocal(StateStoreContract):
    """Files of a cluster's directory."""

    factory = local.tarn_runtimes()["local"]
