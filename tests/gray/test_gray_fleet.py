"""An instance that passes its health checks and fails its users, on real Tritons under load."""

import pytest
from gray_fleet import GrayFleet

pytestmark = [pytest.mark.gray, pytest.mark.timeout(240)]

FAULTS = {"killed": (30.0, 6.0), "exits": (30.0, 6.0), "raises": (30.0, 6.0), "hangs": (60.0, 36.0)}
"""How long each is watched, and within how many seconds it must be out: three times the aim."""


@pytest.mark.parametrize("how", FAULTS)
def test_one_that_fails_its_users_leaves_the_view_and_is_replaced(
    gray: GrayFleet, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within seconds; the client loses what was there, and hardly more."""
    watched_s, within_s = FAULTS[how]
    seen = gray.strike(how, watched_s)
    with capsys.disabled():
        print(f"\n  {how}: {seen}")
    assert seen.out_s is not None
    assert seen.out_s < within_s
    assert seen.replaced_s is not None


def test_what_fails_everywhere_replaces_nobody(
    gray: GrayFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model or its callers: one alert with Triton's own line."""
    gray.settled()
    before = gray.ready()
    seen = gray.strike("raises", 20.0, everywhere=True)
    with capsys.disabled():
        print(f"\n  everywhere: {seen}")
    status = gray.cluster.status()
    assert {i["id"] for i in status["instances"]} == before
    assert len(gray.ready()) >= 2
    (told,) = [t for t in status["troubles"] if t["code"] == "TARN-1152"]
    assert "device-side assert" in told["message"]
