"""38: the Java TARN's authorizer was lenient unless an environment variable said otherwise."""

from collections.abc import Sequence

import attrs
import httpx
import pytest
from fake_master import FakeAuthorizer, FakeMaster

from tarn.domain import Principal, Readiness, Verdict
from tarn.http.blocking_pool import AuthorizerPool


@attrs.define
class Down(FakeAuthorizer):
    """An authorizer whose engine is away; it may say so, raise, or know no better than yes."""

    how: str = "ready"

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        if self.how == "raises":
            raise ConnectionError("ranger-admin:6080 refused")
        return super().check(principal, action, model)

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return tuple(self.check(principal, action, model) for model in models)


@pytest.mark.parametrize(
    ("how", "ready", "health"),
    [
        ("raises", True, "OK"),
        ("raises", False, "RANGER_UNAVAILABLE"),
        ("yes", False, "RANGER_UNAVAILABLE"),
    ],
)
def test_an_authorizer_that_is_away_lets_nobody_in(how: str, ready: bool, health: str) -> None:
    """403 and unhealthy, with no switch to have it otherwise."""
    gate = AuthorizerPool(Down(how=how))
    try:
        with (
            FakeMaster(api_token=None, gate=gate, readiness=Readiness(ready=ready)) as master,
            httpx.Client(base_url=master.url, trust_env=False) as web,
        ):
            got = web.get("/instances")
            told = web.get("/health").text.splitlines()[0]
            may = web.get("/authorize", params={"model": "ocr", "action": "infer"})
    finally:
        gate.close()
    assert (got.status_code, told) == (403, health)
    assert (may.status_code, may.text == "false") == ((200, True) if ready else (503, False))
    assert "true" not in may.text
    assert "ranger-admin" not in got.text
