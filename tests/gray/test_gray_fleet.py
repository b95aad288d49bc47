"""An instance that passes its health checks and fails its users, on real Tritons under load."""

import pytest
from gray_fleet import FaultOutcome, GrayFleet

pytestmark = [pytest.mark.gray, pytest.mark.timeout(240)]

FAULTS = {"killed": 6.0, "exits": 6.0, "raises": 6.0, "hangs": 36.0, "stopped": 36.0}
"""Within how many seconds each gets its last request: three times the aim."""


@pytest.mark.parametrize("how", FAULTS)
def test_one_that_fails_its_users_gets_no_more_and_is_replaced(
    gray: GrayFleet, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within seconds; the client loses what was there, and hardly more."""
    seen = gray.strike(how, 90.0)
    _say(capsys, how, seen)
    assert seen.last_sent_s is not None
    assert seen.last_sent_s < FAULTS[how]
    assert seen.replaced_s is not None
    assert seen.lost["client"] <= 20


@pytest.mark.parametrize("gray", [{"window": "10s"}], indirect=True, ids=["in 10 s"])
def test_one_that_is_ten_times_slower_is_told_and_left_alone(
    gray: GrayFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost, and who is slow serves on."""
    before = gray.ready()
    seen = gray.strike("slow", 60.0, "TARN-1162")
    _say(capsys, "slow", seen)
    assert "TARN-1162" in seen.told_s
    assert gray.ready() == before
    assert seen.lost == {"HAProxy": 0, "client": 0}


@pytest.mark.parametrize("how", ["raises", "picky"])
def test_what_fails_everywhere_replaces_nobody(
    gray: GrayFleet, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model, or its callers: one alert that says which, within thrice ten seconds."""
    before = gray.ready()
    seen = gray.strike(how, 60.0, "TARN-1152", everywhere=True)
    _say(capsys, f"{how} everywhere", seen)
    assert seen.told_s["TARN-1152"] < 30.0
    assert seen.out_s is None
    assert {one["id"] for one in gray.instances()} == before
    words = {"raises": "device-side assert", "picky": "answered well"}
    assert words[how] in seen.told["TARN-1152"]


def _say(capsys: pytest.CaptureFixture[str], what: str, seen: FaultOutcome) -> None:
    with capsys.disabled():
        print(f"\n  {what}: {seen}; {seen.told_s} {seen.told}")
