"""Ranger's own engine keeps the promises of `Authorizer`."""

from pathlib import Path

import pytest
from servers.ranger import PolicyServer, opened

from tarn.domain import Principal
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer
from tarn.plugins import load
from tarn.testing.contracts import AuthorizerContract
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer

ALICE = Principal("alice", frozenset({"users"}), "spnego")


class TestRangerContract(AuthorizerContract):
    """What every authorizer promises, of one engine that all these tests share."""

    factory: Factory[Authorizer] = load().authorizers["ranger"]

    @pytest.fixture(autouse=True)
    def _shared(self, shared: RangerAuthorizer, stage: PolicyServer) -> None:
        self._url = stage.url
        type(self).one = shared

    def make(self, tmp_path: Path) -> Authorizer:
        return self.one

    def test_closes_twice(self, tmp_path: Path) -> None:
        """One of its own, as others go on with the shared one; it denies afterwards."""
        one = opened(tmp_path, self._url)
        assert one.wait(60)
        assert one.check(ALICE, "infer", "ocr").allowed
        for _ in range(2):
            one.close()
        assert not one.check(ALICE, "infer", "ocr").allowed
        assert not one.ready().ready
